"""Elements of global tensors and shared tiles as the text addresses them, and vector types that move several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from tilegen.inference.shared import SharedLayout
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import DType, float32
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import LARGEST_INT, Context
from tilegen.lower.vocabulary.scalar import extent_expression
from tilegen.model import build as c
from tilegen.model.dialect import SHORT_NAMES
from tilegen.model.expressions import CExpr, Index, Literal, Name, Operation, Reinterpret, StaticCast

_CUDA_WORDS = {16: "uint4", 8: "uint2", 4: "u32", 2: "u16"}
_CUDA_FLOATS = {16: "float4", 8: "float2", 4: "float"}


def global_element(
    context: Context, buffer: Buffer, indices: Sequence[CExpr], beyond: Sequence[int] = ()
) -> CExpr:
    """`A[row * K + column]`; the offset is 64 bits wide unless the tensor is sure to be smaller than that, also where
    indices lie `beyond` the end of their axes, by so many elements at most."""
    wide = _may_exceed_int(buffer, beyond)
    if buffer.strides is None:
        offset: CExpr = indices[0]
        for position, (index, extent) in enumerate(zip(indices[1:], buffer.shape[1:], strict=True)):
            left = _widened(offset) if wide and position == 0 else offset
            offset = _sum(c.mul(left, extent_expression(context, extent)), index)
    else:
        terms = []
        for index, stride in zip(indices, buffer.strides, strict=True):
            step = extent_expression(context, stride)
            term = c.mul(_widened(index) if wide and c.value_of(step) != 1 else index, step)
            terms.append(term)
        offset = _sum(*terms)
    return Index(Name(buffer.name), offset)


def _sum(*terms: CExpr) -> CExpr:
    """The sum in the order of the terms, without the zeros."""
    kept = [term for term in terms if c.value_of(term) != 0]
    total: CExpr = kept[0] if kept else Literal(0)
    for term in kept[1:]:
        if isinstance(term, Operation) and term.op == "+":  # a + (b + c) reads a + b + c
            total = _sum(total, term.left, term.right)
        else:
            total = Operation("+", total, term)
    return total


def _widened(index: CExpr) -> CExpr:
    return index if c.value_of(index) == 0 else StaticCast("i64", index, functional=True)


def _may_exceed_int(buffer: Buffer, beyond: Sequence[int]) -> bool:
    if buffer.strides is not None:
        return True
    if buffer.rank < 2:
        return False
    extents = [extent.value if isinstance(extent, Const) else None for extent in buffer.shape]
    reached = (int(extent or 0) + past for extent, past in zip_longest(extents, beyond, fillvalue=0))
    return None in extents or prod(reached) > LARGEST_INT


def shared_element_at(
    context: Context, name: str, layout: SharedLayout, extents: tuple[CExpr, ...], indices: Sequence[CExpr]
) -> CExpr:
    """`shared.A_shared[row][column ^ 8 * (row % 8)]` of the open stage; column groups come before the rows."""
    if layout.transposed:
        indices = [*indices[:-2], indices[-1], indices[-2]]
        extents = (*extents[:-2], extents[-1], extents[-2])
    base = shared_tiles.tile(context, name)
    column = indices[-1]
    if layout.groups > 1:
        width = shared_tiles.group_columns(context, layout, extents[-1])
        base = c.index(base, _over(column, width, layout.group))
        column = _modulo(column, width, layout.group)
    row: CExpr = Literal(0)
    for index, extent in zip(indices[:-1], extents[:-1], strict=True):
        row = index if c.value_of(row) == 0 else _sum(c.mul(row, extent), index)
    for position, index in enumerate(indices[:-1]):
        if position == len(indices) - 2:
            for xor in layout.row_xors:
                index = _xor(index, c.mod(c.div(row, xor.divisor), xor.extent))
        base = c.index(base, index)
    for xor in layout.chunk_xors:
        chosen = c.mod(c.div(row, xor.divisor), xor.extent)
        column = _xor(column, c.mul(layout.chunk, chosen))
    return c.index(base, column)


def _xor(column: CExpr, chunks: CExpr) -> CExpr:
    a, b = c.value_of(column), c.value_of(chunks)
    if a is not None and b is not None:
        return Literal(a ^ b)
    return chunks if a == 0 else column if b == 0 else Operation("^", column, chunks)


def _over(value: CExpr, name: CExpr, number: int) -> CExpr:
    known = c.value_of(value)
    return Literal(known // number) if known is not None else Operation("/", value, name)


def _modulo(value: CExpr, name: CExpr, number: int) -> CExpr:
    known = c.value_of(value)
    return Literal(known % number) if known is not None else Operation("%", value, name)


# ------------------------------------------------------------------------------------------- vectors


def vector_type(dtype: DType, elements: int, language: str) -> str:
    """The type that moves `elements` neighbours at once: words on CUDA, a vector of the element on HIP (whose compiler
    lets vectors of a type alias that type, and nothing else).

    fp32 moves as floats on CUDA, too: nvcc keeps accumulators whose bits are also read as words in integer registers
    all along, and the moves to and from these make ptxas serialise the wgmma of a loop (C7511, C7514)."""
    if language == "cuda":
        return (_CUDA_FLOATS if dtype == float32 else _CUDA_WORDS)[elements * dtype.bytes]
    short = SHORT_NAMES.get(dtype.name)
    if short is None:
        short = ("i" if dtype.kind == "int" else "u") + str(dtype.bits)
    return f"{short}x{elements}"


def as_vector(element: CExpr, dtype: DType, elements: int, language: str, const: bool = False) -> CExpr:
    """The `elements` neighbours from `element` on, as one value or target."""
    return Reinterpret(vector_type(dtype, elements, language), element, const=const)


def zero_vector(dtype: DType, elements: int, language: str) -> CExpr:
    return Name(f"{vector_type(dtype, elements, language)}{{}}")
