"""The verifier on IR that a pass might have broken, and what it does not refuse."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.diagnostics import ProgramError
from tilegen.ir import build
from tilegen.ir.check_iterations import check_iterations
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.nodes import (
    Assign,
    Buffer,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Let,
    ParallelFor,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
)
from tilegen.ir.rewrite import transform
from tilegen.ir.types import float32, int32
from tilegen.ir.verify import verify

ZERO, ONE, EIGHT = build.const(0), build.const(1), build.const(8)
N = Var("n", int32, "extent")
X = Buffer("X", (N, EIGHT), float32, "global", "inout")
TILE = Buffer("tile", (EIGHT,), float32, "shared")
ROWS = Buffer("rows", (EIGHT,), float32, "fragment")
BX = Var("bx", int32, "block")
i, k = Var("i", int32, "parallel"), Var("k", int32, "loop")
x, y = Var("x", float32), Var("y", float32)


def program(*body: Stmt) -> Program:
    kernel = Kernel((N,), (BX,), 128, None, (1, 1, 1), (TILE, ROWS), body)
    return Program("p", (X,), (), (N,), (), kernel, (), "0" * 8)


def refused(*body: Stmt) -> str:
    with pytest.raises(ProgramError) as caught:
        verify(program(*body))
    return caught.value.message


def serial(var: Var, stop: Expr, *body: Stmt) -> For:
    return For(var, ZERO, stop, ONE, "serial", body)


def whole(buffer: Buffer) -> Region:
    return Region(buffer, (ZERO,) * buffer.rank, tuple(int(e.value) for e in buffer.shape))  # type: ignore[union-attr]


STORE = Store(X, (BX, ZERO), build.const(0.0))


def test_names() -> None:
    verify(program(Let(x, build.const(1.0)), Store(X, (BX, ZERO), x)))
    assert refused(Store(X, (BX, ZERO), x)) == "x is used before it is declared"
    assert (
        refused(Let(x, build.const(1.0)), Let(x, build.const(2.0)))
        == "the name x is declared twice in the kernel"
    )
    assert refused(Let(x, build.const(1.0)), Assign(x, build.const(2.0))) == "x cannot be assigned again"
    assert refused(Assign(x, build.const(2.0))) == "x is assigned before it is declared"
    verify(program(STORE, Let(x, build.const(1.0), True), Assign(x, build.const(2.0))))
    inside = If(build.binary("<", BX, 1), (Let(x, build.const(1.0)),))
    assert refused(inside, Store(X, (BX, ZERO), x)) == "x is used before it is declared"
    assert refused(serial(k, EIGHT, STORE), Store(X, (k, ZERO), ZERO)) == "k is used before it is declared"
    foreign = replace(TILE, name="other")
    assert refused(Fill(whole(foreign), ZERO)) == "the buffer other is used, but not declared by the program"
    again = replace(X, role="input")
    assert refused(Copy(Region(again, (BX, ZERO), (1, 8), (0,)), whole(TILE))).startswith(
        "the buffer X is used, but not"
    )


def test_locations_are_not_compared() -> None:
    from tilegen.location import Location

    verify(program(Store(replace(X, location=Location("a.py", 3)), (BX, ZERO), build.const(0.0))))


def test_initialisation_in_loops() -> None:
    read = Copy(whole(TILE), Region(X, (BX, ZERO), (1, 8), (0,)))
    write = Fill(whole(TILE), build.const(0.0))
    verify(program(write, read))
    verify(
        program(serial(k, EIGHT, If(build.binary(">", k, 0), (read,)), write))
    )  # filled by the iteration before
    assert refused(read, write) == "tile is read, but nothing has written it before"
    assert refused(serial(k, EIGHT, read), write) == "tile is read, but nothing has written it before"


def test_an_accumulation_does_not_initialise_itself() -> None:
    update = ParallelFor((i,), (EIGHT,), (Store(ROWS, (i,), build.add(Load(ROWS, (i,)), build.const(1.0))),))
    assert refused(serial(k, EIGHT, update), STORE) == "rows is read, but nothing has written it before"
    verify(program(Fill(whole(ROWS), build.const(0.0)), serial(k, EIGHT, update), STORE))


def test_bounds_under_conditions_are_not_judged() -> None:
    outside = Store(TILE, (build.const(9),), ZERO)
    assert refused(outside).startswith("index 9 lies outside axis 0 of tile")
    verify(program(STORE, If(build.binary("<", N, 1), (outside,))))
    verify(program(STORE, serial(k, ZERO, outside)))  # never runs
    guarded = build.select(build.binary("<", N, 1), Load(TILE, (build.const(9),)), build.const(0.0))
    verify(program(Fill(whole(TILE), ZERO), Store(X, (BX, ZERO), guarded)))


def test_bounds_through_definitions_and_loops() -> None:
    index = Var("index", int32)
    define = Let(index, build.add(build.mul(k, 2), 1))
    verify(program(STORE, serial(k, build.const(4), define, Store(TILE, (index,), ZERO))))
    message = refused(STORE, serial(k, build.const(5), define, Store(TILE, (index,), ZERO)))
    assert message == "index k * 2 + 1 reaches 9 on axis 0 of tile, which has 8 elements"
    verify(program(STORE, serial(k, N, Store(TILE, (k,), ZERO))))  # not provable
    below = Store(TILE, (build.sub(k, 1),), ZERO)
    assert (
        refused(STORE, serial(k, EIGHT, below))
        == "index k - 1 reaches -1 on axis 0 of tile, which has 8 elements"
    )
    stepped = For(k, ZERO, build.const(9), build.const(4), "serial", (Store(TILE, (k,), ZERO),))
    assert refused(STORE, stepped) == "index k reaches 8 on axis 0 of tile, which has 8 elements"


def test_global_tiles_may_be_ragged_but_not_outside() -> None:
    verify(program(Copy(whole_row(4), whole(TILE)), STORE))
    assert refused(Copy(whole_row(8), whole(TILE)), STORE).startswith(
        "the tile 8 : 8 + 8 reaches 8 on axis 1 of X"
    )


def whole_row(column: int) -> Region:
    return Region(X, (BX, build.const(column)), (1, 8), (0,))


def test_races_are_judged_by_what_is_written() -> None:
    j = Var("j", int32, "parallel")
    loop = ParallelFor((i, j), (EIGHT, EIGHT), (Store(TILE, (i,), build.cast(j, float32)),))
    assert refused(loop, STORE).startswith("iterations of T.Parallel that differ in j")
    verify(program(ParallelFor((i, j), (EIGHT, ONE), (Store(TILE, (i,), build.cast(j, float32)),)), STORE))
    verify(program(ParallelFor((i, j), (EIGHT, EIGHT), (Store(TILE, (i,), build.const(1.0)),)), STORE))
    only_first = If(build.binary("==", j, 0), (Store(TILE, (i,), build.cast(j, float32)),))
    verify(program(ParallelFor((i, j), (EIGHT, EIGHT), (only_first,)), STORE))


def test_matrices_of_gemm() -> None:
    vector = whole(TILE)
    gemm = Gemm(vector, vector, whole(ROWS), False, False, "square", True)
    assert refused(gemm) == "A of T.gemm is a matrix, but tile gives a tile of shape (8,)"


def test_reduction_to_a_single_element() -> None:
    one = Region(TILE, (ZERO,), (1,))
    reduce = Reduce("sum", whole(TILE), one, 0, True)
    verify(program(Fill(whole(TILE), ZERO), reduce, STORE))


def test_transform_shares_what_it_does_not_change() -> None:
    statements = (Let(x, build.const(1.0)), Store(X, (BX, ZERO), x))
    assert transform(statements, lambda node: node) is statements
    renamed = transform(statements, lambda node: y if node == x else node)
    assert renamed == (Let(y, build.const(1.0)), Store(X, (BX, ZERO), y))


def test_outputs_are_written() -> None:
    output = replace(X, name="Y", role="output")
    written = program(STORE, Store(output, (BX, ZERO), build.const(0.0)))
    verify(replace(written, tensors=(X, output)))
    with pytest.raises(ProgramError, match="Y is an output, but nothing writes it"):
        verify(replace(program(STORE), tensors=(X, output)))


def iterations(extents: tuple[int, ...], write: tuple[Expr, ...], read: tuple[Expr, ...]) -> Program:
    """A loop over i (and j) that reads one element of a large tile and writes another, in two statements."""
    big = Buffer("big", (build.const(256),) * len(write), float32, "shared")
    j = Var("j", int32, "parallel")
    body = (Let(x, Load(big, read)), Store(big, write, build.add(x, build.const(1.0))))
    loop = ParallelFor((i, j)[: len(extents)], tuple(map(build.const, extents)), body)
    whole_tile = Fill(Region(big, (ZERO,) * big.rank, (256,) * big.rank), build.const(0.0))
    made = program(whole_tile, loop, STORE)
    return replace(made, kernel=replace(made.kernel, allocations=(*made.kernel.allocations, big)))


J = Var("j", int32, "parallel")


@pytest.mark.parametrize(
    "extents, write, read",
    [
        ((8,), (i,), (build.add(i, 1),)),  # shifted by one, and by more
        ((128,), (build.add(i, 64),), (i,)),
        ((128,), (build.mul(i, 2),), (build.add(build.mul(i, 2), 6),)),
        ((8, 8), (i, J), (J, i)),  # transposed
        ((8, 8), (i, J), (build.add(i, 1), J)),
        ((64,), (i,), (build.sub(63, i),)),  # mirrored
        ((64,), (i,), (ZERO,)),  # one element for all
        ((8, 8), (i, J), (i, ZERO)),
        ((8, 8), (build.add(BX, i), J), (build.add(build.add(BX, i), 1), J)),
    ],
)
def test_iterations_that_read_what_others_write(
    extents: tuple[int, ...], write: tuple[Expr, ...], read: tuple[Expr, ...]
) -> None:
    with pytest.raises(ProgramError, match="which another iteration writes as big"):
        verify(iterations(extents, write, read))


@pytest.mark.parametrize(
    "extents, write, read",
    [
        ((8,), (i,), (i,)),
        ((64,), (build.add(i, 64),), (i,)),  # one half from the other
        ((8,), (build.mul(i, 2),), (build.add(build.mul(i, 2), 1),)),  # even from odd
        ((8, 8), (i, build.add(J, 8)), (i, J)),
        ((8,), (i,), (build.add(i, BX),)),  # may be the same
        ((8,), (i,), (build.binary("//", i, 2),)),  # not judged
        ((1, 8), (i, J), (ZERO, J)),
    ],
)
def test_iterations_that_keep_to_themselves(
    extents: tuple[int, ...], write: tuple[Expr, ...], read: tuple[Expr, ...]
) -> None:
    verify(iterations(extents, write, read))


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), min_size=1, max_size=2),
)
def test_only_iterations_that_meet_are_refused(extents: tuple[int, int], axes: list[list[int]]) -> None:
    """Every loop that is refused has two iterations, found by trying all, that write and read the same element."""

    def index(coefficients: list[int]) -> Expr:
        terms = [build.mul(var, factor) for var, factor in zip((i, J), coefficients, strict=False)]
        return build.add(build.add(terms[0], terms[1]), build.const(coefficients[2] + 20))

    write, read = (tuple(index(axis[part : part + 3]) for axis in axes) for part in (0, 3))
    try:
        check_iterations(iterations(extents, write, read))
    except ProgramError:
        points = list(itertools.product(*map(range, extents)))

        def element(part: int, point: tuple[int, ...]) -> list[int]:
            return [a[part] * point[0] + a[part + 1] * point[1] + a[part + 2] for a in axes]

        assert any(element(0, p) == element(3, q) for p in points for q in points if p != q)


def test_conditional_accesses_of_iterations_are_not_judged() -> None:
    next_element = Load(ROWS, (build.add(i, 1),))
    inside = build.binary("<", i, 7)
    start = Fill(whole(ROWS), build.const(0.0))
    chosen = Store(ROWS, (i,), build.select(inside, next_element, build.const(0.0)))
    verify(program(start, ParallelFor((i,), (EIGHT,), (chosen,)), STORE))
    guarded = If(inside, (Store(ROWS, (i,), next_element),))
    verify(program(start, ParallelFor((i,), (EIGHT,), (guarded,)), STORE))
