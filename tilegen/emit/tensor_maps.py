"""The launcher's tensor maps: the calls that encode them, and what their one encoder function must vary."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.model.dialect import CUDA, DialectError
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import Braces, CallC, CExpr, Literal, Name, Operation, StaticCast
from tilegen.model.kernel import KernelModel, TensorMap
from tilegen.model.transform import rewritten
from tilegen.model.walk import names

_DATA_TYPES = {
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64",
    "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8", "int8": "UINT8", "uint8": "UINT8", "bool": "UINT8",
    "int16": "UINT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32", "int64": "INT64",
    "uint64": "UINT64",
}  # fmt: skip


def encode_calls(model: KernelModel) -> list[CExpr]:
    """One call of encode_map a tensor map, with the arguments that differ between the maps of the file."""
    maps = [parameter for parameter in model.parameters if isinstance(parameter, TensorMap)]
    packed = all(entry.packed for entry in maps)
    one_type = len({data_type(entry) for entry in maps}) == 1
    one_swizzle = len({entry.swizzle for entry in maps}) == 1
    calls: list[CExpr] = []
    for entry in maps:
        arguments: list[CExpr] = [Name(f"&map_{entry.parameter}"), Name(entry.tensor)]
        if not one_type:
            arguments.append(Name(data_type(entry)))
            arguments += [_size_of(entry)] if packed else []
        arguments.append(_wide(entry.extents, model))
        arguments += [] if packed else [_wide(_byte_strides(entry), model)]
        arguments.append(Braces(entry.box))
        if not one_swizzle:
            arguments.append(Name(swizzle_mode(entry)))
        calls.append(CallC(Name("encode_map"), tuple(arguments)))
    return calls


def _byte_strides(entry: TensorMap) -> tuple[CExpr, ...]:
    """The bytes of an element, and those between neighbours along the other axes: `sizeof(half) * kK`."""
    size = _size_of(entry)

    def sized(stride: CExpr) -> CExpr:
        match stride:
            case Operation("*", left, right):
                return Operation("*", sized(left), right)
            case Literal(int() as count) if entry.dtype.bytes > 1 and count % entry.dtype.bytes == 0:
                elements = count // entry.dtype.bytes
                return size if elements == 1 else Operation("*", size, Literal(elements))
            case _:
                return stride

    return (size, *map(sized, entry.strides))


def _size_of(entry: TensorMap) -> CExpr:
    return CallC(Name("sizeof"), (Name(CUDA.type_name(entry.dtype)),))


def _wide(items: Sequence[CExpr], model: KernelModel) -> Braces:
    """64-bit values: extents of the launcher are cast, the rest are constants."""

    def visit(node: CExpr) -> CExpr | None:
        if isinstance(node, Name) and node.name in model.extents:
            return StaticCast("u64", node, functional=True)
        return None

    return Braces(tuple(rewritten(item, visit) for item in items))


def data_type(entry: TensorMap) -> str:
    """The CUtensorMapDataType of an element.

    Raises:
        DialectError: for an element that the TMA unit does not know.
    """
    name = _DATA_TYPES.get(entry.dtype.name)
    if name is None:
        raise DialectError(f"the TMA unit has no element type {entry.dtype.name}")
    return f"CU_TENSOR_MAP_DATA_TYPE_{name}"


def swizzle_mode(entry: TensorMap) -> str:
    return f"CU_TENSOR_MAP_SWIZZLE_{f'{entry.swizzle}B' if entry.swizzle else 'NONE'}"


def _l2_promotion(entry: TensorMap) -> str:
    return f"CU_TENSOR_MAP_L2_PROMOTION_{f'L2_{entry.l2_promotion}B' if entry.l2_promotion else 'NONE'}"


def encoder_values(maps: Sequence[TensorMap], dynamic: Sequence[str]) -> dict[str, object] | None:
    """What the template of encode_map needs; None for a file without tensor maps. `dynamic` are the extents that
    are known at the launch only: they may be 0."""
    if not maps:
        return None
    types = {data_type(entry) for entry in maps}
    swizzles = {entry.swizzle for entry in maps}
    ranks = {len(entry.extents) for entry in maps}
    rank = str(max(ranks)) if len(ranks) == 1 else "kRank"
    parameters = ["CUtensorMap* map", "const void* data"]
    packed = all(entry.packed for entry in maps)
    if len(types) > 1:
        parameters.append("CUtensorMapDataType type")
        parameters += ["cuuint64_t element_bytes"] if packed else []
    parameters.append(f"const cuuint64_t (&extents)[{rank}]")
    parameters += [] if packed else [f"const cuuint64_t (&strides)[{rank}]"]
    parameters.append(f"const cuuint32_t (&box)[{rank}]")
    if len(swizzles) > 1:
        parameters.append("CUtensorMapSwizzle swizzle")
    what = ""
    if len(swizzles) == 1 and maps[0].swizzle:
        what = f" under the {maps[0].swizzle}-byte swizzle"
    return {
        "parameters": ", ".join(parameters),
        "packed": packed,
        "element_bytes": "element_bytes" if len(types) > 1 else expression_text(_size_of(maps[0])),
        "may_be_empty": any(name in dynamic for entry in maps for name in names(entry.extents)),
        "any_rank": len(ranks) > 1,
        "rank": rank,
        "steps": "{" + ", ".join("1" * max(ranks)) + "}",
        "data_type": "type" if len(types) > 1 else data_type(maps[0]),
        "swizzle": "swizzle" if len(swizzles) > 1 else swizzle_mode(maps[0]),
        "l2_promotion": _l2_promotion(maps[0]),
        "what": what,
    }
