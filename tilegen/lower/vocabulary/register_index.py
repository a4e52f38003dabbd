"""Indices into register arrays, written with the names of the loops over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.inference.access import CONSTANT, Digit
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal

ZERO = Literal(0)


@dataclass(frozen=True, slots=True)
class Symbol:
    """What the text calls one register dimension of a loop: `coarse + fine`, where `coarse` is a multiple of `vector`
    and `fine` runs below it. `extent` is the dimension's size."""

    coarse: CExpr
    extent: int
    fine: CExpr = ZERO
    vector: int = 1

    def at(self, fine: CExpr) -> Symbol:
        return Symbol(self.coarse, self.extent, fine, self.vector)

    @property
    def whole(self) -> CExpr:
        return c.add(self.coarse, self.fine)


def digit_sum(digits: Iterable[Digit], symbols: tuple[Symbol, ...]) -> CExpr:
    """The sum of digits, coarse parts first."""
    coarse: list[CExpr] = []
    fine: list[CExpr] = []
    for digit in digits:
        if digit.symbol == CONSTANT:
            coarse.append(Literal(digit.coefficient))
            continue
        for part in _split(digit, symbols[digit.symbol].vector):
            symbol = symbols[part.symbol]
            if part.divisor < symbol.vector:
                fine.append(_term(symbol.fine, part, symbol.vector, 1))
            else:
                coarse.append(_term(symbol.coarse, part, symbol.extent, symbol.vector))
    return c.add(*coarse, *fine)


def _split(digit: Digit, vector: int) -> tuple[Digit, ...]:
    """A digit in its parts below and above the vector."""
    if digit.divisor >= vector or digit.divisor * digit.extent <= vector:
        return (digit,)
    below = vector // digit.divisor
    above = Digit(digit.symbol, vector, digit.extent // below, digit.coefficient * below)
    return (Digit(digit.symbol, digit.divisor, below, digit.coefficient), above)


def _term(position: CExpr, digit: Digit, extent: int, multiple: int) -> CExpr:
    """coefficient * (position / divisor % extent), for a position below `extent` that is a multiple of `multiple`."""
    value = c.value_of(position)
    if value is not None:
        return Literal(digit.coefficient * (value // digit.divisor % digit.extent))
    top = digit.divisor * digit.extent >= extent
    if top and multiple % digit.divisor == 0 and digit.coefficient % digit.divisor == 0:
        return c.mul(digit.coefficient // digit.divisor, position)
    part = c.div(position, digit.divisor)
    return c.mul(digit.coefficient, part if top else c.mod(part, digit.extent))
