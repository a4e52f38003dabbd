"""How an access of a parallel loop meets the layout of a fragment: which register of its own thread an iteration
touches, and the layout that a fragment needs so that it is always the thread's own.

Both questions are answered on the whole domain with integers, so that division and remainder in indices are no
special case; the answer is then written as digits of the loop's register index, and checked everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy

from tilegen.inference.fragment import Fragment, Mode, merged_modes
from tilegen.inference.index_math import Integers, NotStatic, evaluate, mentions
from tilegen.ir.expressions import Expr, Var

CONSTANT = -1


@dataclass(frozen=True, slots=True)
class Digit:
    """coefficient * (symbol / divisor % extent): `symbol` counts the register dimensions of the loop's partition, then
    the sequential variables; CONSTANT stands for 1."""

    symbol: int
    divisor: int
    extent: int
    coefficient: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Coordinates of a fragment's threads [threads, rank] and registers [registers, rank]; their sum is a tile
    coordinate."""

    threads: Integers
    registers: Integers

    def axis(self, axis: int) -> Integers:
        """Coordinates along an axis, [threads, registers]."""
        total: Integers = self.threads[:, axis, None] + self.registers[None, :, axis]
        return total


def _positions(modes: tuple[Mode, ...], rank: int) -> Integers:
    """Coordinates of every index that the modes decompose, [size, rank]."""
    total = numpy.zeros((1, rank), dtype=numpy.int64)
    for mode in modes:
        steps = numpy.arange(mode.extent)[:, None] * numpy.array(mode.steps, dtype=numpy.int64)[None, :]
        total = (steps[:, None, :] + total[None, :, :]).reshape(-1, rank)
    return total


@lru_cache(maxsize=256)
def grid(fragment: Fragment) -> Grid:
    """The coordinates of a fragment; registers in memory order."""
    registers = numpy.zeros((1, fragment.rank), dtype=numpy.int64)
    for modes in fragment.registers:
        inner = _positions(modes, fragment.rank)
        registers = (registers[:, None, :] + inner[None, :, :]).reshape(-1, fragment.rank)
    return Grid(_positions(fragment.threads, fragment.rank), registers)


def coordinates(partition: Fragment, names: tuple[str, ...]) -> dict[str, Integers]:
    """The loop variables' values, each [threads, registers]."""
    places = grid(partition)
    return {name: places.axis(axis) for axis, name in enumerate(names)}


def inside(partition: Fragment) -> Integers:
    """Whether a thread's register lies in the tile, [threads, registers]."""
    places = grid(partition)
    result: Integers = numpy.ones((len(places.threads), len(places.registers)), dtype=bool)
    for axis, extent in enumerate(partition.tile):
        result &= places.axis(axis) < extent
    return result


def register_digits(
    partition: Fragment,
    names: tuple[str, ...],
    fragment: Fragment,
    indices: tuple[Expr, ...],
    sequential: tuple[tuple[str, int], ...] = (),
) -> tuple[tuple[Digit, ...], ...] | None:
    """The register (one sum of digits a dimension of the fragment's array) that holds the accessed element in the very
    thread that runs the iteration; None when some thread needs another thread's element.

    `sequential` are variables of loops inside and around the parallel one with their extents: they index registers too.
    """
    if partition.thread_count != fragment.thread_count:
        return None
    same = _identity(partition, names, fragment, indices)
    if same is not None:
        return same
    sequential = tuple(
        (name, extent if any(mentions(index, name) for index in indices) else 1)
        for name, extent in sequential
    )
    table = _register_table(partition, names, fragment, indices, sequential)
    if table is None:
        return None
    shape = (*partition.register_shape, *(extent for _, extent in sequential))
    modes = (*partition.registers, *((Mode(extent, ()),) for _, extent in sequential))
    result = []
    for column in range(table.shape[1]):
        digits = _fit(table[:, column], shape, modes)
        if digits is None:
            return None
        result.append(digits)
    return tuple(result)


def _identity(
    partition: Fragment, names: tuple[str, ...], fragment: Fragment, indices: tuple[Expr, ...]
) -> tuple[tuple[Digit, ...], ...] | None:
    """The common case: the loop runs over exactly this fragment."""
    if (partition.threads, partition.registers) != (fragment.threads, fragment.registers):
        return None
    if len(indices) != len(names) or any(
        not isinstance(index, Var) or index.name != name for index, name in zip(indices, names, strict=True)
    ):
        return None
    return tuple(
        (Digit(symbol, 1, extent, 1),) if extent > 1 else ()
        for symbol, extent in enumerate(partition.register_shape)
    )


def _register_table(
    partition: Fragment,
    names: tuple[str, ...],
    fragment: Fragment,
    indices: tuple[Expr, ...],
    sequential: tuple[tuple[str, int], ...],
) -> Integers | None:
    """The fragment's register index for each register of the loop (and each sequential value), [positions, dimensions]
    with -1 where no thread has work; None unless it is the same for all threads."""
    values = coordinates(partition, names)
    valid = inside(partition)
    count = prod(extent for _, extent in sequential)
    if sequential:
        values = {name: numpy.repeat(value, count, axis=1) for name, value in values.items()}
        valid = numpy.repeat(valid, count, axis=1)
        inner = numpy.indices([extent for _, extent in sequential]).reshape(len(sequential), -1)
        for (name, _), positions in zip(sequential, inner, strict=True):
            values[name] = numpy.tile(positions, valid.shape[1] // count)[None, :]
    places = grid(fragment)
    keys = numpy.zeros(valid.shape[1], dtype=numpy.int64)
    register_keys = numpy.zeros(len(places.registers), dtype=numpy.int64)
    lost: Integers = numpy.logical_not(valid.any(axis=0))
    for axis, index in enumerate(indices):
        try:
            where = numpy.broadcast_to(numpy.asarray(evaluate(index, values)), valid.shape)
        except NotStatic:
            return None
        wanted = where - places.threads[:, axis, None]
        low = numpy.where(valid, wanted, numpy.iinfo(numpy.int64).max).min(axis=0)
        high = numpy.where(valid, wanted, numpy.iinfo(numpy.int64).min).max(axis=0)
        if numpy.any((low != high) & ~lost):
            return None
        span = int(max(places.registers[:, axis].max(), low[~lost].max(initial=0))) + 2
        keys = keys * span + numpy.where(lost, 0, low)
        register_keys = register_keys * span + places.registers[:, axis]
        if numpy.any((low < 0) & ~lost):
            return None
    found = {int(key): position for position, key in reversed(list(enumerate(register_keys)))}
    shape = fragment.register_shape
    table = numpy.full((len(keys), len(shape)), -1, dtype=numpy.int64)
    for position, key in enumerate(keys):
        if lost[position]:
            continue
        register = found.get(int(key))
        if register is None:
            return None
        table[position] = numpy.unravel_index(register, shape)
    return table


def register_function(partition: Fragment, names: tuple[str, ...], expr: Expr) -> tuple[Digit, ...] | None:
    """An integer expression of a loop's variables as digits of the register index; None where threads differ in it, or
    digits cannot say it."""
    try:
        values = numpy.asarray(evaluate(expr, coordinates(partition, names)))
    except NotStatic:
        return None
    places = numpy.broadcast_to(values, (partition.thread_count, partition.register_count))
    if (places != places[0]).any() or (places < 0).any():
        return None
    return _fit(places[0], partition.register_shape, partition.registers)


def _fit(
    values: Integers, shape: tuple[int, ...], modes: tuple[tuple[Mode, ...], ...]
) -> tuple[Digit, ...] | None:
    """The table as a sum of digits of its position, None when it is none. Entries below 0 may be anything."""
    table = values.reshape(shape)
    known: Integers = numpy.asarray(table >= 0)
    digits: list[Digit] = []
    origin = (0,) * len(shape)
    base = int(table[origin]) if known[origin] else 0
    total = numpy.full(shape, base, dtype=numpy.int64)
    for symbol, extent in enumerate(shape):
        for divisor, size in _places(extent, modes[symbol]):
            corner = [0] * len(shape)
            corner[symbol] = divisor
            factor = int(table[tuple(corner)]) - base if known[tuple(corner)] else 0
            if factor == 0:
                continue
            axis_shape = [1] * len(shape)
            axis_shape[symbol] = extent
            digit = numpy.arange(extent).reshape(axis_shape) // divisor % size
            total = total + factor * digit
            digits.append(Digit(symbol, divisor, size, factor))
    if (total != table)[known].any():
        return None
    constant = (Digit(CONSTANT, 1, 1, base),) if base else ()
    return (*merged_digits(digits), *constant)


def _places(extent: int, modes: tuple[Mode, ...]) -> Iterator[tuple[int, int]]:
    """(divisor, extent) of the smallest digits of a register dimension: its modes cut into primes."""
    divisor = 1
    for mode in modes:
        for prime in _primes(mode.extent):
            yield divisor, prime
            divisor *= prime
    if divisor < extent:
        yield divisor, extent // divisor


def _primes(number: int) -> Iterator[int]:
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1


def merged_digits(digits: list[Digit]) -> tuple[Digit, ...]:
    """Digits that continue each other become one."""
    merged: list[Digit] = []
    for digit in digits:
        if merged:
            last = merged[-1]
            continues = digit.symbol == last.symbol and digit.divisor == last.divisor * last.extent
            if continues and digit.coefficient == last.coefficient * last.extent:
                merged[-1] = Digit(last.symbol, last.divisor, last.extent * digit.extent, last.coefficient)
                continue
        merged.append(digit)
    return tuple(merged)


def accessed_fragment(
    partition: Fragment, names: tuple[str, ...], tile: tuple[int, ...], indices: tuple[Expr, ...]
) -> Fragment | None:
    """The layout of a fragment of `tile` under which each iteration finds its element in its own thread; None when
    strides cannot say it, or the loop does not reach the whole tile."""
    rank = len(indices)
    origin = dict.fromkeys(names, 0)
    try:
        start = [int(evaluate(index, origin)) for index in indices]
        if any(start):
            return None
        threads = tuple(_accessed_modes(partition.threads, names, indices, rank))
        registers = []
        for modes in partition.registers:
            kept = [mode for mode in _accessed_modes(modes, names, indices, rank) if not mode.replicates]
            if kept:
                registers.append(merged_modes(tuple(kept)))
    except NotStatic:
        return None
    result = Fragment(tile, merged_modes(threads), tuple(registers) or ((Mode(1, (0,) * rank),),))
    if any(padded < extent for padded, extent in zip(result.padded, tile, strict=True)):
        return None
    return result if register_digits(partition, names, result, indices) is not None else None


def _accessed_modes(
    modes: tuple[Mode, ...], names: tuple[str, ...], indices: tuple[Expr, ...], rank: int
) -> Iterator[Mode]:
    for mode in modes:
        scale = 1
        for prime in _primes(mode.extent):
            place = {name: scale * step for name, step in zip(names, mode.steps, strict=True)}
            yield Mode(prime, tuple(int(evaluate(index, place)) for index in indices))
            scale *= prime
