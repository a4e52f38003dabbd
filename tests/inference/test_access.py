"""Accesses of loops to fragments, against brute force over threads and registers."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.inference.access import accessed_fragment, register_digits
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.partition import coalesced
from tilegen.ir import build
from tilegen.ir.expressions import Expr, Var

ROW, COLUMN = Var("i", role="parallel"), Var("j", role="parallel")
WGMMA = Fragment(
    (64, 32),
    (Mode(4, (0, 2)), Mode(8, (1, 0)), Mode(4, (16, 0))),
    ((Mode(2, (0, 1)), Mode(2, (8, 0)), Mode(4, (0, 8))),),
)


def _value(expr: Expr, i: int, j: int) -> int:
    from tilegen.inference.index_math import evaluate

    return int(evaluate(expr, {"i": i, "j": j}))


def _holders(fragment: Fragment, thread: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The register of each coordinate that a thread holds, the first where several do."""
    held: dict[tuple[int, ...], tuple[int, ...]] = {}
    for register in fragment.each_register():
        held.setdefault(fragment.coordinates(thread, register), register)
    return held


def _check(partition: Fragment, fragment: Fragment, indices: tuple[Expr, ...]) -> bool:
    """Whether register_digits finds what brute force finds; False where some thread lacks its element."""
    digits = register_digits(partition, ("i", "j"), fragment, indices)
    for thread in range(partition.thread_count):
        held = _holders(fragment, thread)
        for register in partition.each_register():
            i, j = partition.coordinates(thread, register)
            if i >= partition.tile[0] or j >= partition.tile[1]:
                continue
            wanted = tuple(_value(index, i, j) for index in indices)
            if wanted not in held:
                assert digits is None
                return False
            if digits is None:
                continue
            found = tuple(
                sum(d.coefficient * (register[d.symbol] // d.divisor % d.extent) for d in part)
                for part in digits
            )
            assert fragment.coordinates(thread, found) == wanted
    return digits is not None


PARTITIONS = [
    WGMMA,
    coalesced((64, 32), 128, 4, 32),
    coalesced((64, 32), 128, 1, 32),
    coalesced((40, 12), 64, 2, 32),
    coalesced((7, 229), 96, 1, 32),
]
INDICES: list[tuple[Expr, ...]] = [
    (ROW, COLUMN),
    (COLUMN, ROW),
    (ROW,),
    (COLUMN,),
    (ROW, build.floordiv(COLUMN, 2)),
    (ROW, build.binary("%", COLUMN, 4)),
    (build.floordiv(ROW, 8), COLUMN),
    (ROW, build.const(0)),
]


def _tile(indices: tuple[Expr, ...], extents: tuple[int, ...]) -> tuple[int, ...]:
    corners = list(product(*(range(extent) for extent in extents)))
    return tuple(1 + max(_value(index, i, j) for i, j in corners) for index in indices)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("indices", INDICES)
def test_the_inferred_fragment_is_always_local(partition: Fragment, indices: tuple[Expr, ...]) -> None:
    tile = _tile(indices, partition.tile)
    fragment = accessed_fragment(partition, ("i", "j"), tile, indices)
    if fragment is None:
        pytest.skip("strides cannot say this layout")
    assert fragment.thread_count == partition.thread_count
    assert _check(partition, fragment, indices)


@given(
    partition=st.sampled_from(PARTITIONS[:3]),
    fragment=st.sampled_from(PARTITIONS[:3]),
    indices=st.sampled_from(INDICES[:2]),
)
def test_local_or_not_as_brute_force_says(
    partition: Fragment, fragment: Fragment, indices: tuple[Expr, ...]
) -> None:
    tile = _tile(indices, partition.tile)
    other = Fragment(tile, fragment.threads, fragment.registers)
    assert _check(partition, other, indices) == (partition == other and indices == (ROW, COLUMN))


def test_simple_accesses_never_fail() -> None:
    for partition, indices in product(PARTITIONS, INDICES[:4]):
        assert accessed_fragment(partition, ("i", "j"), _tile(indices, partition.tile), indices) is not None


def test_offsets_have_no_fragment() -> None:
    assert accessed_fragment(WGMMA, ("i", "j"), (64, 40), (ROW, build.add(COLUMN, 8))) is None


def test_sequential_variables_index_registers() -> None:
    rows = coalesced((64, 1), 64, 1, 32)
    fragment = Fragment((64, 8), tuple(Mode(m.extent, m.steps) for m in rows.threads), ((Mode(8, (0, 1)),),))
    k = Var("k", role="loop")
    (digits,) = register_digits(rows, ("i", "j"), fragment, (ROW, k), (("k", 8),)) or ((),)
    assert [(d.symbol, d.extent, d.coefficient) for d in digits] == [(1, 8, 1)]
