"""The rules of the CUDA primitives, in the order in which a file lists them; texts in templates/cuda/primitives."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.emit.primitive_rules import Primitive, Rule, UnknownPrimitive, Value, Values, requiring
from tilegen.model.primitive_names import int4_function

_ADDRESS = requiring("shared_address")
_RANKS: tuple[Value, ...] = (1, 2, 3, 4, 5)
_LIST_WIDTH = 104
HINTS: tuple[Value, ...] = ("evict_first", "evict_last")
_TYPE_NAMES = {"f16": "F16", "bf16": "BF16"}


def _filled(items: list[str]) -> list[str]:
    """The items joined by commas into lines of at most _LIST_WIDTH columns."""
    lines = [items[0]]
    for item in items[1:]:
        if len(lines[-1]) + len(item) + 2 <= _LIST_WIDTH:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return lines


def _coordinates(values: Values) -> Mapping[str, object]:
    """Operand lists of a TMA instruction: the coordinates are operands 2, 3, …; what follows has the next numbers."""
    rank = int(values["rank"])
    names = [f"c{dimension}" for dimension in range(rank)]
    return {
        "names": ", ".join(names),
        "arguments": ", ".join(f"int {name}" for name in names),
        "constraints": ", ".join(f'"r"({name})' for name in names),
        "operands": ", ".join(f"%{2 + dimension}" for dimension in range(rank)),
        "next_operand": 2 + rank,
        "last_operand": 3 + rank,
        "break": " " if rank < (4 if values.get("hint") else 5) else "\n" + 8 * " ",
    }


def _wgmma_requires(values: Values) -> tuple[Primitive, ...]:
    registers = int(values["n"]) // 2
    return (Primitive("major"), Primitive.of("wgmma_operands", registers=registers))


def _wgmma_context(values: Values) -> Mapping[str, object]:
    """Operands of wgmma: n/2 accumulators, then A (a descriptor or four registers), B, predicate, transposes."""
    registers = int(values["n"]) // 2
    shared = values["source"] == "SS"
    a_operands = 1 if shared else 4
    after_a = registers + a_operands
    a_list = ", ".join(f"%{registers + index}" for index in range(a_operands))
    transposes = [f"%{after_a + 2 + index}" for index in range(2 if shared else 1)]
    return {
        "type_name": _TYPE_NAMES[str(values["a"])],
        "registers": registers,
        "a_operand": a_list if shared else "{" + a_list + "}",
        "a_constraint": '"l"(a)' if shared else ", ".join(f'"r"(a[{index}])' for index in range(4)),
        "b_operand": f"%{after_a}",
        "predicate_operand": f"%{after_a + 1}",
        "transposes": ", ".join(transposes),
    }


def _fixed_requires(values: Values) -> tuple[Primitive, ...]:
    return (Primitive.of("wgmma_operands", registers=int(values["n"]) // 2),)


def _fixed_context(values: Values) -> Mapping[str, object]:
    """As for wgmma, the transposes being numbers in the text."""
    majors = str(values["majors"]).split(", ")
    if len(majors) != (2 if values["source"] == "SS" else 1):
        raise UnknownPrimitive(f"wgmma with {values['source']} operands has no majors {values['majors']}")
    shared = f"A {majors[0]}-major, B {majors[-1]}-major in shared memory"
    return {
        **_wgmma_context(values),
        "transposes": ", ".join("1" if major == "MN" else "0" for major in majors),
        "where": shared if len(majors) == 2 else f"A in registers, B {majors[0]}-major",
    }


def _run_length(registers: int) -> int:
    """How many accumulators one macro lists: their number is a multiple of 4."""
    return 8 if registers % 8 == 0 else 4


def _operands_requires(values: Values) -> tuple[Primitive, ...]:
    return (Primitive.of("wgmma_run", run=_run_length(int(values["registers"]))),)


def _operands_context(values: Values) -> Mapping[str, object]:
    registers = int(values["registers"])
    run = _run_length(registers)
    listed = _filled([f"%{index}" for index in range(registers)])
    text = [f"{line}, " for line in listed[:-1]] + listed[-1:]
    text[0] = "{" + text[0]
    text[-1] += "}"
    operands = _filled([f"TILEGEN_RUN{run}(d, {first})" for first in range(0, registers, run)])
    return {"text": text, "operands": [f"{line}," for line in operands[:-1]] + operands[-1:]}


def _run_context(values: Values) -> Mapping[str, object]:
    elements = [f'"+f"(d[i{f" + {index}" if index else ""}])' for index in range(int(values["run"]))]
    lines = [", ".join(elements[first : first + 4]) for first in range(0, len(elements), 4)]
    return {"lines": [f"{line}," for line in lines[:-1]] + lines[-1:]}


def _matrix_context(values: Values) -> Mapping[str, object]:
    """Register lists of ldmatrix (results first, then the address) and stmatrix (the address first)."""
    count = int(values["count"])
    registers = range(count)
    what = "An 8 x 8 matrix" if count == 1 else f"{count} matrices of 8 x 8"
    return {
        "what": what + (", transposed" if values["transpose"] else ""),
        "outputs": ", ".join(f'"=r"(fragment[{index}])' for index in registers),
        "inputs": ", ".join(f'"r"(r[{index}])' for index in registers),
        "load_operands": ", ".join(f"%{index}" for index in registers),
        "address_operand": count,
        "store_operands": ", ".join(f"%{1 + index}" for index in registers),
        "suffix": f"x{count}" + ("_trans" if values["transpose"] else ""),
    }


_VECTORS = {"uint4": "xyzw", "uint2": "xy", "u32": "", "float4": "xyzw", "float2": "xy", "float": ""}


def _vector_context(values: Values) -> Mapping[str, object]:
    """A vector's 4-byte parts as operands."""
    type_name = str(values["vector"])
    names = [f"value.{part}" for part in _VECTORS[type_name]] or ["value"]
    register = "f" if type_name.startswith("float") else "r"
    count = len(names)

    def listed(first: int) -> str:
        text = ", ".join(f"%{first + index}" for index in range(count))
        return f"{{{text}}}" if count > 1 else text

    return {
        "type_name": type_name,
        "count": count,
        "width": f"v{count}.b32" if count > 1 else "b32",
        "loaded": listed(0),
        "stored": listed(1),
        "outputs": ", ".join(f'"={register}"({name})' for name in names),
        "kept": ", ".join(f'"+{register}"({name})' for name in names),
        "inputs": ", ".join(f'"{register}"({name})' for name in names),
    }


def _type_name(values: Values) -> Mapping[str, object]:
    return {"type_name": _TYPE_NAMES[str(values["a"])]}


_SWIZZLE_CODES = {128: 1, 64: 2, 32: 3}


def _descriptor_context(values: Values) -> Mapping[str, object]:
    return {"code": _SWIZZLE_CODES[int(values["swizzle"])]}


_INT4 = {
    "f16": {"pair": "half2", "magic": "0x6400", "base": 1024, "repeat": "__float2half2_rn"},
    "bf16": {"pair": "__nv_bfloat162", "magic": "0x4300", "base": 128, "repeat": "__float2bfloat162_rn"},
}


def _int4_requires(values: Values) -> tuple[Primitive, ...]:
    return (Primitive("lop3"), *((Primitive("byte_permute"),) if values["apart"] == 4 else ()))


def _int4_context(values: Values) -> Mapping[str, object]:
    """The type of two elements, and the bits of the float whose last mantissa bit is worth 1."""
    facts = _INT4[str(values["type"])]
    magic = str(facts["magic"])
    function = int4_function(str(facts["pair"]), values["apart"])
    return {**facts, "magic_pair": magic + magic.removeprefix("0x"), "function": function}


_MBARRIER = "mbarrier: PTX ISA 9.7.13.15"
_FENCE = "fence: PTX ISA 9.7.13.4"
_CLUSTER = "Clusters: PTX ISA 10 (%cluster_ctarank), 9.7.13.3 (barrier.cluster)"
_TMA = "TMA: PTX ISA 9.7.9.27. Elements out of range are zero when loaded, dropped when stored."
_CP_ASYNC = "cp.async: PTX ISA 9.7.9.25"
_LDMATRIX = "ldmatrix: PTX ISA 9.7.14.5.15"
_WGMMA = "wgmma: PTX ISA 9.7.15"
_SETMAXNREG = "setmaxnreg: PTX ISA 9.7.19.5. Warpgroups give registers to the block's pool, or wait for them."
_BAR = "bar: PTX ISA 9.7.13.1. Barrier 0 is that of __syncthreads."
_EVICTION = "createpolicy: PTX ISA 9.7.9. L2 gives up lines touched evict_first before others, evict_last behind them."

RULES: tuple[Rule, ...] = (
    Rule("shared_address"),
    Rule("shared_storage"),
    Rule("mbarrier_init", requires=_ADDRESS, family=_MBARRIER),
    Rule("mbarrier_arrive", requires=_ADDRESS, family=_MBARRIER),
    Rule("mbarrier_arrive_expect_tx", requires=_ADDRESS, family=_MBARRIER),
    Rule("mbarrier_arrive_cluster", requires=_ADDRESS, family=_MBARRIER),
    Rule("mbarrier_wait", requires=_ADDRESS, family=_MBARRIER),
    Rule("fence_barrier_init", family=_FENCE),
    Rule("fence_proxy_async", family=_FENCE),
    Rule("cluster_rank", family=_CLUSTER),
    Rule("cluster_sync", family=_CLUSTER),
    Rule("prefetch_tensor_map", family=_TMA),
    Rule(
        "tma_load",
        (("rank", _RANKS), ("multicast", (False, True)), ("hint", ("", *HINTS))),
        _ADDRESS,
        _coordinates,
        family=_TMA,
    ),
    Rule("tma_store", (("rank", _RANKS), ("hint", ("", *HINTS))), _ADDRESS, _coordinates, family=_TMA),
    Rule("tma_reduce_add", (("rank", _RANKS),), _ADDRESS, _coordinates, family=_TMA),
    Rule("tma_store_commit", family=_TMA),
    Rule("tma_store_wait_read", family=_TMA),
    Rule("tma_store_wait", family=_TMA),
    Rule(
        "cp_async",
        (
            ("variant", ("cacheglobal", "cacheglobal_zfill", "cachealways_zfill")),
            ("hint", ("", *HINTS)),
        ),
        _ADDRESS,
        family=_CP_ASYNC,
    ),
    Rule("cp_async_commit", family=_CP_ASYNC),
    Rule("cp_async_wait", family=_CP_ASYNC),
    Rule(
        "ldmatrix",
        (("count", (1, 2, 4)), ("transpose", (False, True))),
        _ADDRESS,
        _matrix_context,
        family=_LDMATRIX,
    ),
    Rule("stmatrix", (("count", (1, 2, 4)), ("transpose", (False, True))), _ADDRESS, _matrix_context),
    Rule("mma_sync", (("a", ("f16", "bf16")),), context=_type_name),
    Rule("warpgroup_arrive", family=_WGMMA),
    Rule("warpgroup_commit", family=_WGMMA),
    Rule("warpgroup_wait", family=_WGMMA),
    Rule("descriptor", (("swizzle", (128, 64, 32)),), _ADDRESS, _descriptor_context, family=_WGMMA),
    Rule("wgmma_run", (("run", (8, 4)),), context=_run_context, family=_WGMMA),
    Rule(
        "wgmma_operands",
        (("registers", tuple(range(4, 129, 4))),),
        _operands_requires,
        _operands_context,
        _WGMMA,
    ),
    Rule("major", family=_WGMMA),
    Rule(
        "wgmma",
        (
            ("n", tuple(range(8, 257, 8))),
            ("a", ("f16", "bf16")),
            ("d", ("f32",)),
            ("source", ("SS", "RS")),
        ),
        _wgmma_requires,
        _wgmma_context,
        _WGMMA,
    ),
    Rule(
        "wgmma_fixed",
        (
            ("n", tuple(range(8, 257, 8))),
            ("a", ("f16", "bf16")),
            ("d", ("f32",)),
            ("source", ("SS", "RS")),
            ("majors", ("K", "MN", "K, K", "K, MN", "MN, K", "MN, MN")),
        ),
        _fixed_requires,
        _fixed_context,
        _WGMMA,
    ),
    Rule("register_release", family=_SETMAXNREG),
    Rule("register_acquire", family=_SETMAXNREG),
    Rule("named_barrier_sync", family=_BAR),
    Rule("named_barrier_arrive", family=_BAR),
    Rule(
        "load_hint",
        (("hint", HINTS), ("vector", tuple(_VECTORS)), ("guarded", (False, True))),
        context=_vector_context,
        family=_EVICTION,
    ),
    Rule(
        "store_hint",
        (("hint", HINTS), ("vector", tuple(_VECTORS))),
        context=_vector_context,
        family=_EVICTION,
    ),
    Rule("exp2_approx"),
    Rule("atomic_add", (("type", ("f32", "f16x2", "bf16x2", "f32x2", "f32x4")),)),
    Rule("atomic_extreme", (("op", ("max", "min")), ("type", ("f32", "f16", "bf16")))),
    Rule("count_in"),
    Rule("lop3"),
    Rule("byte_permute"),
    Rule("int4_pair", (("type", ("f16", "bf16")), ("apart", (16, 4))), _int4_requires, _int4_context),
)
