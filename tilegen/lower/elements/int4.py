"""int4 to 16-bit floats without conversion instructions, two elements at a time.

0x6400 | q is 1024 + q in fp16, and 0x4300 | q is 128 + q in bf16, where the last bit of the mantissa is worth 1: a
mask, an OR and a subtraction give q exactly, for all 16 values. Two nibbles of a word that are 16 bits apart land in
both halves at once; neighbouring nibbles (4 bits apart) are brought there by a byte permutation. A constant zero point
is part of the constant that is subtracted. Source: Kim et al., "Who Says Elephants Can't Run: Bringing Large Scale MoE
Models into Cloud Scale Production", section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from tilegen.inference.access import coordinates, register_function
from tilegen.inference.index_math import Integers, NotStatic, evaluate, mentions
from tilegen.ir.affine import simplify
from tilegen.ir.expressions import Binary, Cast, Const, Expr
from tilegen.ir.traversal import children
from tilegen.ir.types import DType
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.vocabulary.register_index import digit_sum
from tilegen.model import build as c
from tilegen.model.expressions import CExpr
from tilegen.model.primitive_names import int4_function


@dataclass(frozen=True, slots=True)
class Pair:
    """The C++ type of two elements, what the primitive calls the element, and the function that repeats a value (none
    where operators do it)."""

    name: str
    parameter: str
    repeat: str


PAIRS = {
    "cuda": {
        "float16": Pair("half2", "f16", "__half2half2"),
        "bfloat16": Pair("__nv_bfloat162", "bf16", "__bfloat162bfloat162"),
    },
    "hip": {"float16": Pair("fp16x2", "f16", "")},
}
"""The element types that a language computes with in pairs."""
LARGEST_ZERO = 15
PLACES = {16: (0, 4, 8, 12), 4: (0, 8, 16, 24)}
"""By the distance of a pair's nibbles in bits: where the lower one may be."""


@dataclass(frozen=True, slots=True)
class Nibble:
    """cast((word >> shift) & 15, dtype) - zero."""

    word: Expr
    shift: Expr
    dtype: DType
    zero: int = 0


def find_nibble(expr: Expr) -> Nibble | None:
    """The nibble that an expression converts to a 16-bit float; None for other expressions."""
    if not expr.dtype.is_float or expr.dtype.bits != 16:
        return None
    match expr:
        case Cast(operand, dtype) if operand.dtype.is_integer:
            found = _integer(operand)
            return None if found is None else Nibble(found[0], found[1], dtype, found[2])
        case Binary("-", left, Const(zero)):
            return _less(find_nibble(left), float(zero))
        case Binary("+", left, Const(zero)):
            return _less(find_nibble(left), -float(zero))
        case _:
            return None


def _less(nibble: Nibble | None, zero: float) -> Nibble | None:
    if nibble is None or not zero.is_integer() or not 0 <= nibble.zero + zero <= LARGEST_ZERO:
        return None
    return Nibble(nibble.word, nibble.shift, nibble.dtype, nibble.zero + int(zero))


def _integer(expr: Expr) -> tuple[Expr, Expr, int] | None:
    """(word, shift, zero) of an integer (word >> shift & 15) - zero."""
    match expr:
        case Cast(operand, dtype) if operand.dtype.is_integer and dtype.bits >= 8:
            return _integer(operand)
        case Binary("-", left, Const(zero), dtype) if dtype.kind == "int" and 0 <= zero <= LARGEST_ZERO:
            found = _integer(left)
            return None if found is None or found[2] else (found[0], found[1], int(zero))
        case Binary("&", Binary(">>", word, shift), Const(15)) | Binary(
            "&", Const(15), Binary(">>", word, shift)
        ):
            return word, shift, 0
        case Binary("&", word, Const(15)) | Binary("&", Const(15), word):
            return word, Const(0, word.dtype), 0
        case _:
            return None


def nibble_pair(access: ElementAccess, nibble: Nibble, low: CExpr) -> CExpr | None:
    """The nibbles of two neighbouring elements as a pair of floats, `int4_to_half2<8>(W[r / 8], 4 * (r / 2 % 4))`;
    None where they do not lie in one word at places that all threads share."""
    context = access.context
    kind = PAIRS[context.target.language].get(nibble.dtype.name)
    if kind is None or nibble.word.dtype.bits > 32 or not same_in_pair(access, nibble.word):
        return None
    apart = _apart(access, nibble.shift)
    digits = register_function(access.partition, access.loop.names, nibble.shift)
    if apart is None or digits is None:
        return None
    context.primitive("int4_pair", type=kind.parameter, apart=apart)
    # `low` is even: the digit that tells the two elements apart is 0.
    innermost = len(access.names.symbols) - 1
    digits = tuple(d for d in digits if (d.symbol, d.divisor, d.extent) != (innermost, 1, 2))
    shift = digit_sum(digits, access.names.symbols_at(low))
    word = access.expression(nibble.word, low)
    return c.call(int4_function(kind.name, apart), word, shift, template=(nibble.zero,))


def same_in_pair(access: ElementAccess, expr: Expr) -> bool:
    """Whether an expression has one value at both elements of every pair of neighbouring registers."""
    if not any(mentions(expr, name) for name in access.loop.names):
        return True
    values = _register_values(access, expr)
    if values is not None:
        return bool((values[:, ::2] == values[:, 1::2]).all())
    # What the loop around counts leaves quotients: (32 * k + j) // 32 is k + j // 32.
    parts = children(simplify(expr, access.context.ranges))
    return bool(parts) and all(same_in_pair(access, part) for part in parts)


def _apart(access: ElementAccess, shift: Expr) -> int | None:
    """How many bits lie between the nibbles of every pair of neighbouring registers."""
    places = _register_values(access, shift)
    if places is None:
        return None
    first, second = places[:, ::2], places[:, 1::2]
    for distance, allowed in PLACES.items():
        if (second - first == distance).all() and numpy.isin(first, allowed).all():
            return distance
    return None


def _register_values(access: ElementAccess, expr: Expr) -> Integers | None:
    """An integer of the loop's variables, [threads, registers]; None where it depends on more, or registers are no
    pairs."""
    partition = access.partition
    if partition.register_shape[-1] % 2:
        return None
    try:
        values = numpy.asarray(evaluate(expr, coordinates(partition, access.loop.names)))
    except NotStatic:
        return None
    return numpy.broadcast_to(values, (partition.thread_count, partition.register_count))
