"""Declarations of a role's register arrays: what their elements are, said once for all that are alike, and fills that
become initial values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilegen.inference.decisions import PerNode
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Buffer, Fill, Kernel
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.lower.vocabulary.threads import coordinate
from tilegen.model.expressions import Braces, CExpr, Literal, Name
from tilegen.model.statements import Comment, CStmt, Declare
from tilegen.schedule.analysis import each_statement, reads, writes

WRITTEN_OUT = 4  # registers of an array whose initial values other than 0 are listed


def fragments_in_use(context: Context) -> list[Buffer]:
    """The program's fragments that the text has."""
    return [
        buffer
        for buffer in context.program.kernel.allocations
        if buffer.scope == "fragment"
        and buffer.name in context.decisions.fragments
        and not context.plan.dissolves(buffer.name)
    ]


def initial_fills(context: Context, kernel: Kernel) -> PerNode[Fill, bool]:
    """Fills that the declarations of their fragments can do: of whole fragments that nothing touches before, in a block
    that computes one tile."""
    found: PerNode[Fill, bool] = PerNode()
    touched: dict[str, None] = {}
    for statement in kernel.body:
        match statement:
            case Fill(target, Const() as value) if (
                target.buffer.scope == "fragment"
                and target.buffer.name not in touched
                and target.shape == target.buffer.extents
                and statement not in context.folded.fills
                and (value.value == 0 or _listed(context, target.buffer))
            ):
                found[statement] = True
            case _:
                pass
        for inner in each_statement((statement,)):
            touched.update(dict.fromkeys(buffer.name for buffer in (*reads(inner), *writes(inner))))
    return found


def _listed(context: Context, buffer: Buffer) -> bool:
    """Whether the initial values of an array fit in braces."""
    shape = context.decisions.fragment(buffer).register_shape
    return shape[-1] <= WRITTEN_OUT and all(extent == 1 for extent in shape[:-1])


@dataclass(frozen=True, slots=True)
class _Array:
    """One fragment's array; arrays with equal `elements` hold the same elements of their tiles."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    alignment: int
    indices: tuple[CExpr, ...]
    elements: tuple[str | CExpr, ...]
    value: CExpr | None
    comment: str


def fragment_declarations(
    context: Context, kernel: Kernel, chosen: Callable[[str], bool] = lambda name: True
) -> list[CStmt]:
    """The register arrays whose names are `chosen`. `float C_local[2][64];  // [mi][r] is row …, column …`; arrays that
    are alike stand together below one comment."""
    language = context.target.language
    arrays = [_array(context, buffer, kernel) for buffer in fragments_in_use(context) if chosen(buffer.name)]
    out: list[CStmt] = []
    for held in dict.fromkeys((array.indices, array.elements) for array in arrays):
        out += _alike([array for array in arrays if (array.indices, array.elements) == held])
    for buffer in kernel.allocations:
        if buffer.scope == "local" and chosen(buffer.name):
            shape = tuple(Literal(extent) for extent in buffer.extents)
            out.append(Declare(type_name(buffer.dtype, language), buffer.name, dimensions=shape))
    return out


def _alike(arrays: list[_Array]) -> list[CStmt]:
    """The declarations of arrays that hold the same elements, those of one type and without a value in one line."""
    if len(arrays) == 1 and not arrays[0].comment:
        return [_declare(arrays, _said(arrays[0]))]
    out: list[CStmt] = [Comment(_said(arrays[0]))]
    joint: dict[tuple[object, ...], list[_Array]] = {}
    for array in arrays:
        key = (array.type_name, array.shape, array.alignment, array.name if array.value is not None else "")
        joint.setdefault(key, []).append(array)
    return [*out, *(_declare(together, together[0].comment) for together in joint.values())]


def _said(array: _Array) -> tuple[str | CExpr, ...]:
    """What the elements of an array are; of one element that all threads hold, no index says it."""
    same = all(isinstance(part, str | Literal) for part in array.elements)
    indices = "".join(f"[{index.name if isinstance(index, Name) else 0}]" for index in array.indices)
    return ("every thread holds " if same else f"{indices} is ", *array.elements)


def _declare(arrays: list[_Array], comment: str | tuple[str | CExpr, ...]) -> CStmt:
    first = arrays[0]
    return Declare(
        first.type_name,
        first.name,
        first.value,
        dimensions=tuple(Literal(extent) for extent in first.shape),
        comment=comment,
        alignment=first.alignment,
        also=tuple(array.name for array in arrays[1:]),
    )


def _array(context: Context, buffer: Buffer, kernel: Kernel) -> _Array:
    fragment = context.decisions.fragment(buffer)
    shape = fragment.register_shape
    names = register_names(len(shape))
    indices = tuple(Name(name) if n > 1 else Literal(0) for name, n in zip(names, shape, strict=True))
    axes = {1: ("element",), 2: ("row", "column")}.get(
        fragment.rank, tuple(f"axis {axis}" for axis in range(fragment.rank))
    )
    elements: list[str | CExpr] = []
    for position, axis in enumerate(axes):
        lead = f"{', ' if position else ''}{axis} "
        elements += [lead, coordinate(fragment, position, indices, context.threads)]
    paired = 4 if buffer.dtype.bits == 16 and fragment.register_count % 2 == 0 else 0
    wanted = max(paired, context.aligned.get(buffer.name, 0))
    fill = next((f for f, _ in context.initial.items() if f.target.buffer.name == buffer.name), None)
    return _Array(
        name=buffer.name,
        type_name=type_name(buffer.dtype, context.target.language),
        shape=fragment.register_shape,
        alignment=wanted if wanted * 8 > buffer.dtype.bits else 0,
        indices=indices,
        elements=tuple(elements),
        value=None if fill is None else _initial(context, fill, fragment.register_shape),
        comment=_folded(context, buffer) if fill is None else context.reference(fill.location),
    )


def _folded(context: Context, buffer: Buffer) -> str:
    """What became of a clear that a gemm absorbs."""
    fills = [fill for fill, _ in context.folded.fills.items() if fill.target.buffer.name == buffer.name]
    lines = [context.reference(fill.location) for fill in fills[:1]]
    return f"{lines[0]}: the first gemm overwrites it" if lines and lines[0] else ""


def _initial(context: Context, fill: Fill, shape: tuple[int, ...]) -> CExpr:
    """`{}`, or the value once for each register."""
    if isinstance(fill.value, Const) and fill.value.value == 0:
        return Braces(())
    values = Braces((scalar(context, fill.value),) * shape[-1])
    for _ in shape[:-1]:
        values = Braces((values,))
    return values


def register_names(dimensions: int) -> tuple[str, ...]:
    """What the loops over a fragment's registers are called, outermost first."""
    return {1: ("r",), 2: ("mi", "r"), 3: ("mi", "ni", "r")}.get(
        dimensions, tuple(f"r{position}" for position in range(dimensions))
    )
