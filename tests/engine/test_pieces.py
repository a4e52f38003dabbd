"""The language's single pieces on every target: moves between all scopes, reductions, functions, casts, broadcasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import piece_programs as programs
import pytest
from engine_running import DTYPES, TARGETS, Array, chooser, exact, matrix, results

from tilegen.diagnostics import ProgramError


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


# ------------------------------------------------------------------------------------------- moves


def moves() -> Iterator[Any]:
    """Paths between global, shared memory and fragments, with casts on the way, on the targets in turn."""
    choose = chooser(7)
    paths = [
        ["s", "f", "sf", "fs", "ff", "ss", "fsf", "sfs"],
        ["s", "f", "st", "ft", "fts", "sfts", "ftt"],
    ]
    tiles = {
        1: [(96,), (100,), (64,)],
        2: [(32, 32), (48, 48), (20, 20)],
        3: [(2, 8, 24), (3, 5, 7), (1, 4, 64)],
    }
    shapes = {1: (301,), 2: (70, 90), 3: (4, 9, 50)}
    position = 0
    for rank in (1, 2, 3):
        for path in paths[0] if rank != 2 else dict.fromkeys([*paths[0], *paths[1]]):
            dtypes = ["float16" if rank == 1 else "float32"]
            for before, after in zip("g" + path, path + "g", strict=True):  # memory to memory keeps the type
                through_registers = "f" in (before, after) or after == "t"
                dtypes.append(
                    choose.choice(["float16", "bfloat16", "float32"]) if through_registers else dtypes[-1]
                )
            target = TARGETS[position % len(TARGETS)]
            tile = choose.choice(tiles[rank])
            threads = choose.choice([64, 128, 256])
            position += 1
            what = f"{rank}-{path}-{target}"
            yield pytest.param(rank, path, tile, tuple(dtypes), threads, shapes[rank], target, id=what)


@pytest.mark.parametrize(("rank", "path", "tile", "dtypes", "threads", "shape", "target"), list(moves()))
def test_tiles_move_between_all_scopes(
    rank: int,
    path: str,
    tile: tuple[int, ...],
    dtypes: tuple[str, ...],
    threads: int,
    shape: tuple[int, ...],
    target: str,
) -> None:
    x = matrix(3, *shape, dtype=dtypes[0])
    kernel = {1: programs.moved_1, 2: programs.moved_2, 3: programs.moved_3}[rank]
    parameters = {"path": path, "tile": tile, "dtypes": dtypes, "threads": threads}
    (found,) = results(kernel, target, [x], parameters, seed=len(path))
    padding = tuple((0, -extent % size) for extent, size in zip(shape, tile, strict=True))
    expected = np.pad(x.astype(np.float32), padding)  # what a tile holds beyond the edge are zeros
    for scope, dtype in zip((*path, "g"), dtypes[1:], strict=True):
        if scope == "t":
            expected = transposed_tiles(expected, tile[0])
        expected = expected.astype(DTYPES[dtype]).astype(np.float32)
    inside = tuple(slice(extent) for extent in shape)
    assert np.array_equal(found.astype(np.float32), expected[inside])


def transposed_tiles(x: Array, size: int) -> Array:
    """Every square tile transposed."""
    rows, columns = x.shape
    tiles = x.reshape(rows // size, size, columns // size, size)
    return tiles.transpose(0, 3, 2, 1).reshape(rows, columns)


# ------------------------------------------------------------------------------------------- reductions

FLOAT_KINDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
INTEGER_KINDS: dict[str, Callable[..., Array]] = {
    **{kind: FLOAT_KINDS[kind] for kind in ("sum", "max", "min", "abssum", "absmax")},
    "any": lambda x, axis: (x != 0).any(axis).astype(np.int64),
    "all": lambda x, axis: (x != 0).all(axis).astype(np.int64),
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
    "bitxor": np.bitwise_xor.reduce,
}
COMBINED: dict[str, Callable[..., Array]] = {
    "sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply, "abssum": np.add, "absmax": np.maximum,
}  # fmt: skip


def values(kind: str, *shape: int) -> Array:
    """Numbers whose product neither vanishes nor overflows where it is a product that is wanted."""
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (1 + x / 64 if kind == "prod" else x).astype(np.float32)


def whole_numbers(kind: str, *shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    if kind in ("any", "all"):
        return (rng.random(shape) < (0.01 if kind == "any" else 0.99)).astype(np.int32)
    return rng.integers(-(2**20), 2**20, shape).astype(np.int32) | (3 if kind == "bitand" else 0)


def close(found: Array, expected: Array, tolerance: float) -> bool:
    size = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    return bool(np.abs(exact(found) - expected).max(initial=0.0) <= tolerance * size)


def reduction_cases() -> Iterator[Any]:
    """Every kind over every axis of one, two and three, on the targets in turn."""
    choose = chooser(11)
    shapes = [
        ((96,), 0),
        ((1000,), 0),
        ((5, 229), 1),
        ((229, 6), 0),
        ((64, 128), 1),
        ((3, 40, 17), 1),
        ((7, 4, 33), 0),
    ]
    shapes += [((2, 5, 300), 2)]
    position = 0
    for kind in (*FLOAT_KINDS, *(f"int {kind}" for kind in INTEGER_KINDS)):
        for shape, dim in choose.sample(shapes, 4):
            target = TARGETS[position % len(TARGETS)]
            threads = choose.choice([64, 128, 256])
            position += 1
            yield pytest.param(kind, shape, dim, threads, target, id=f"{kind}-{shape}-{dim}-{target}")


@pytest.mark.parametrize(("kind", "shape", "dim", "threads", "target"), list(reduction_cases()))
def test_reductions(kind: str, shape: tuple[int, ...], dim: int, threads: int, target: str) -> None:
    integer = kind.startswith("int ")
    kind = kind.removeprefix("int ")
    x = whole_numbers(kind, *shape) if integer else values(kind, *shape)
    kernel = {1: programs.reduced_1, 2: programs.reduced_2, 3: programs.reduced_3}[len(shape)]
    parameters: dict[str, Any] = {
        "kind": kind,
        "threads": threads,
        "out_dtype": "int32" if integer else "float32",
    }
    if len(shape) > 1:
        parameters["dim"] = dim
    found = results(kernel, target, [x], parameters, seed=dim)
    function = (INTEGER_KINDS if integer else FLOAT_KINDS)[kind]
    wide = x.astype(np.int64) if integer else exact(x)
    expected = [np.atleast_1d(function(wide, axis=dim))]
    if len(shape) == 3:
        expected.append(function(expected[0], axis=-1))
    for one, wanted in zip(found, expected, strict=True):
        if integer:
            assert np.array_equal(one, wanted.astype(np.int32))
        else:
            assert close(one, wanted, 2e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_of_half_precision_add_to_the_old_value_in_single(
    dim: int, keep: bool, target: str
) -> None:
    kind = ("sum", "max", "abssum", "prod", "min")[TARGETS.index(target)]
    x = values(kind, 37, 90).astype(np.float16)
    parameters = {"kind": kind, "dim": dim, "keep": keep, "clear": False, "out_dtype": "float16"}
    (found,) = results(programs.reduced_2, target, [x], parameters)
    expected = COMBINED[kind](3.0, FLOAT_KINDS[kind](exact(x), axis=dim))
    assert close(found, np.expand_dims(expected, dim) if keep else expected, 5e-4)


# ------------------------------------------------------------------------------------------- functions

NUMPY: dict[str, Callable[[Array], Array]] = {
    name: getattr(np, name)
    for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor",
        "ceil", "trunc", "abs",
    )
} | {
    "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: np.vectorize(__import__("math").erf)(x),
    "round": np.rint,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_functions(dtype: str, target: str) -> None:
    names = tuple(programs.UNARY)
    x = np.random.default_rng(1).uniform(0.05, 0.95, 150).astype(matrix(0, 1, dtype=dtype).dtype)
    y = np.random.default_rng(2).uniform(0.5, 2.0, 150).astype(x.dtype)
    (found,) = results(programs.functions, target, [x, y], {"names": names})
    wide_x, wide_y = exact(x), exact(y)
    two = [
        np.maximum(wide_x, wide_y), np.minimum(wide_x, wide_y), wide_x**wide_y, wide_x * wide_y + wide_x,
        np.clip(wide_x, 0.5, 0.75), wide_x / wide_y, -wide_x,
        np.where(wide_x > wide_y, wide_x - wide_y, wide_y * wide_y), np.zeros_like(wide_x),
    ]  # fmt: skip
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6}[dtype]
    for name, one, wanted in zip(
        (*names, *"mMpfcd-iz"), found, [*(NUMPY[n](wide_x) for n in names), *two], strict=True
    ):
        assert np.allclose(one, wanted, rtol=tolerance, atol=tolerance / 4), name


@pytest.mark.parametrize(
    ("target", "dtype"), list(zip(TARGETS, ["int32", "int8", "int16", "int64", "uint8"], strict=True))
)
def test_integer_operators(dtype: str, target: str) -> None:
    rng = np.random.default_rng(4)
    low, high = (-100, 100) if dtype != "uint8" else (0, 200)
    x, y = rng.integers(low, high, 130).astype(dtype), rng.integers(low, high, 130).astype(dtype)
    y[y == 0] = 7
    x[::11] = 5
    (found,) = results(programs.integers, target, [x, y], {})
    with np.errstate(over="ignore"):
        expected = [x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, ~x, x << 2, x >> 1]
        expected += [np.maximum(x, y), np.minimum(x, y), ((x < y) | (x == 5)).astype(dtype)]
    for row, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(one, wanted.astype(dtype)), row


# ------------------------------------------------------------------------------------------- casts

CAST_DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint32",
)


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("source", CAST_DTYPES)
def test_casts(source: str, step: int) -> None:
    """Every pair of types, each on two of the targets; what a type cannot hold is not asked of it."""
    target = TARGETS[(CAST_DTYPES.index(source) + step) % len(TARGETS)]
    numpy_type = {name: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in CAST_DTYPES}
    x = np.concatenate([np.arange(0, 100), np.random.default_rng(5).uniform(0, 100, 203)])
    negative = x.copy()
    negative[::2] *= -1
    x = x.astype(numpy_type[source])
    found = results(programs.casts, target, [x], {})
    for name, one in zip(CAST_DTYPES, found, strict=True):
        assert np.array_equal(one, x.astype(np.float64).astype(numpy_type[name])), name
    if source.startswith("u"):
        return
    x = negative.astype(numpy_type[source])
    for name, one in zip(CAST_DTYPES, results(programs.casts, target, [x], {}), strict=True):
        if not name.startswith("u"):
            assert np.array_equal(one, x.astype(np.float64).astype(numpy_type[name])), name


# ------------------------------------------------------------------------------------------- broadcasts and guards


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((2, 9, 40), "float32"), ((3, 4, 33), "float16"), ((1, 5, 96), "bfloat16")]
)
def test_broadcasts(shape: tuple[int, int, int], dtype: str, target: str) -> None:
    sizes = [shape, shape[2:], (shape[1], 1), (shape[0], 1, shape[2]), (1, *shape[1:])]
    arrays = [matrix(i, *size, dtype="float32" if i == 1 else dtype) for i, size in enumerate(sizes)]
    (found,) = results(programs.broadcast, target, arrays, {})
    x, a, b, c, d = map(exact, arrays)
    assert close(found, x * a + b - c * d, {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype])


@pytest.mark.parametrize("target", TARGETS)
def test_guards_and_neighbours_beyond_the_edge(target: str) -> None:
    x = matrix(1, 19, 45, dtype="float32")
    before = np.full_like(x, 7)
    emission = programs.stencil.emit(*(spec(array) for array in (x, before)), target=target)
    (found,) = emission.emulate_all(x, before, schedule="random", seed=3).values()
    padded = np.pad(exact(x), 1)
    expected = 4 * exact(x) - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]
    for edge in (0, -1):
        expected[edge, 1::2] = 7
    assert close(found, expected, 1e-6)


def spec(array: Array) -> Any:
    import tilegen.language as T

    return T.Tensor(array.shape, array.dtype.name)


# ------------------------------------------------------------------------------------------- clashes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tile", [32, 20])
def test_a_clash_of_layouts_is_converted_and_noted(tile: int, target: str) -> None:
    x = matrix(2, 3 * tile, tile, dtype="float32")
    emission = programs.symmetric.emit(spec(x), target=target, tile=tile)
    assert "x passes through shared memory" in emission.report()
    assert "x passes through shared memory" in emission.source
    found = emission.emulate(x, schedule="random", seed=1)
    assert np.array_equal(found, x + transposed_tiles(x, tile))


def test_a_reduction_without_its_axis_is_refused() -> None:
    with pytest.raises(ProgramError):
        programs.reduced_2.emit(spec(matrix(0, 8, 8, dtype="float32")), target="sm_80", dim=2)


# ------------------------------------------------------------------------------------------- grids


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_an_axis_that_is_too_long_for_the_launch_is_numbered_along_the_first(target: str) -> None:
    import tilegen.language as T

    arrays = [
        T.Tensor(shape, "float32") for shape in ((3, 70000, 8), (8,), (70000, 1), (3, 1, 8), (1, 70000, 8))
    ]
    long = programs.broadcast.emit(*arrays, target=target, rows=1).source
    assert "const int by = blockIdx.x / kTilesBx % kM;" in long  # a tile a row
    assert "<<<kTilesBx * kM * kL, kThreads" in long
    short = programs.broadcast.emit(*arrays, target=target, rows=2).source
    assert "const int by = blockIdx.y;" in short
