"""Elements, slices, and how the two sides of a copy are matched."""

from __future__ import annotations

from frontend_faults import fault
from test_generation_time import body

import tilegen.language as T


def test_forms_of_a_copy() -> None:
    def copies(X, Y):
        M = T.const("M")
        X: T.Tensor((M, 64), T.float16)
        Y: T.Tensor((M, 64), T.float16)
        with T.Kernel(T.ceildiv(M, 32)) as bx:
            tile = T.alloc_shared((32, 64), T.float16)
            ring = T.alloc_shared((2, 32, 64), T.float16)
            row = T.alloc_fragment((64,), T.float32)
            T.copy(X[bx * 32, 0], tile)
            T.copy(X[bx * 32 : bx * 32 + 32, :], tile)
            T.copy(X[bx * 32 : (bx + 1) * 32, 0:64], ring[1, :, :])
            T.copy(X[bx * 32, 0], ring[bx % 2])
            T.copy(ring[0, 0:32, ...], tile)
            T.copy(X[bx * 32, :], row)
            T.copy(X[bx * 32, 0], row)
            T.copy(X[bx : bx + 1, :], row)
            T.copy(tile, Y[bx * 32, 0])
            T.copy(X[bx, 3], Y[bx, 4])
            T.copy(row, tile[5, 0])
            T.copy(tile[0, 0], tile[1:2, 0:64])

    assert body(copies) == [
        "copy X[bx * 32:+32, 0:+64] -> tile[0:+32, 0:+64]",
        "copy X[bx * 32:+32, 0:+64] -> tile[0:+32, 0:+64]",
        "copy X[bx * 32:+32, 0:+64] -> ring[1, 0:+32, 0:+64]",
        "copy X[bx * 32:+32, 0:+64] -> ring[bx % 2, 0:+32, 0:+64]",
        "copy ring[0, 0:+32, 0:+64] -> tile[0:+32, 0:+64]",
        "copy X[bx * 32, 0:+64] -> row[0:+64]",
        "copy X[bx * 32, 0:+64] -> row[0:+64]",
        "copy X[bx, 0:+64] -> row[0:+64]",
        "copy tile[0:+32, 0:+64] -> Y[bx * 32:+32, 0:+64]",
        "Y[bx, 4] = X[bx, 3]",
        "copy row[0:+64] -> tile[5, 0:+64]",
        "copy tile[0:+1, 0:+64] -> tile[1:+1, 0:+64]",
    ]


def test_slices_drop_and_keep_axes() -> None:
    def heads(Q):
        B, S, H = T.const("B, S, H")
        Q: T.Tensor((B, S, H, 128), T.float16)
        with T.Kernel(T.ceildiv(S, 64), H, B) as (bx, h, b):
            tile = T.alloc_shared((64, 128), T.float16)
            T.copy(Q[b, bx * 64 : (bx + 1) * 64, h, :], tile)
            T.copy(tile, Q[b, bx * 64 : bx * 64 + 64, h, 0:128])

    assert body(heads) == [
        "copy Q[b, bx * 64:+64, h, 0:+128] -> tile[0:+64, 0:+128]",
        "copy tile[0:+64, 0:+128] -> Q[b, bx * 64:+64, h, 0:+128]",
    ]


def test_a_corner_of_fewer_axes_lies_along_the_last_axes() -> None:
    def trailing(X):
        X: T.Tensor((4, 8, 256, 64), T.float16)
        with T.Kernel(4, 8) as (b, h):
            tile = T.alloc_shared((128, 64), T.float16)
            T.copy(X[b, h, 128, 0], tile)
            T.copy(tile, X[b, h, 0, 0])

    assert body(trailing) == [
        "copy X[b, h, 128:+128, 0:+64] -> tile[0:+128, 0:+64]",
        "copy tile[0:+128, 0:+64] -> X[b, h, 0:+128, 0:+64]",
    ]


def test_a_corner_that_plainly_means_other_axes() -> None:
    def bshd(Q):
        Q: T.Tensor((2, 4096, 32, 64), T.float16)
        with T.Kernel(32, 32, 2) as (bx, h, b):
            tile = T.alloc_shared((128, 64), T.float16)
            T.copy(Q[b, bx * 128, h, 0], tile)
            T.copy(tile, Q[b, bx * 128, h, 0])

    wrong = fault(bshd)
    assert wrong.line == "T.copy(Q[b, bx * 128, h, 0], tile)"
    assert wrong.underlined == "Q[b, bx * 128, h, 0]"
    assert (
        wrong.message == "the tile (128, 64) lies along the last axes of Q, but axis 2 has only 32 elements"
    )
    assert wrong.remedy.startswith("say which axes the tile covers with slices")


def test_assignments_of_slices() -> None:
    def assign(X):
        X: T.Tensor((64, 64), T.float32)
        with T.Kernel(1) as bx:
            tile = T.alloc_shared((64, 64), T.float32)
            tile[:, :] = 0
            tile[0, :] = X[bx, 0]
            tile[1:3, :] = X[bx : bx + 2, :]
            X[0:64, ...] = tile

    assert body(assign) == [
        "fill tile[0:+64, 0:+64] = 0.0",
        "fill tile[0, 0:+64] = X[bx, 0]",
        "copy X[bx:+2, 0:+64] -> tile[1:+2, 0:+64]",
        "copy tile[0:+64, 0:+64] -> X[0:+64, 0:+64]",
    ]


def test_in_place_updates_of_elements() -> None:
    def update(X):
        X: T.Tensor((64, 64), T.float32)
        with T.Kernel(1, threads=64) as bx:
            acc = T.alloc_fragment((64, 64), T.float32)
            alpha = T.alloc_fragment((64,), T.float32)
            T.copy(X, acc)
            T.fill(alpha, 2)
            for i, j in T.Parallel(64, 64):
                acc[i, j] *= alpha[i]
                acc[i, j] -= 1
            T.copy(acc, X[bx * 64, 0])

    assert body(update)[2:5] == [
        "parallel i, j in (64, 64):",
        "  acc[i, j] = acc[i, j] * alpha[i]",
        "  acc[i, j] = acc[i, j] - 1.0",
    ]


def _fault_of(statement: str, *, axes: str = "(64, 64)") -> object:
    """The fault of one statement in a kernel with X: (M, 64) and tile: (32, 64)."""
    import linecache

    text = f"""\
def program(X, s: T.float32):
    M = T.const("M")
    X: T.Tensor((M, 64), T.float16)
    with T.Kernel(T.ceildiv(M, 32)) as bx:
        tile = T.alloc_shared((32, 64), T.float16)
        T.copy(X[bx * 32, 0], tile)
        {statement}
        T.copy(tile, X[bx * 32, 0])
"""
    name = f"<program {abs(hash(statement))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, object] = {"T": T}
    exec(compile(text, name, "exec"), space)
    return fault(space["program"])  # type: ignore[arg-type]


def _check(statement: str, underlined: str, message: str, remedy: str = "") -> None:
    wrong = _fault_of(statement)
    assert (wrong.line, wrong.underlined, wrong.message) == (statement, underlined, message)  # type: ignore[attr-defined]
    assert remedy in wrong.remedy  # type: ignore[attr-defined]


def test_wrong_indices() -> None:
    _check(
        "tile[0, 0, 0] = 1", "tile[0, 0, 0]", "tile has 2 axes but is indexed with 3", "its shape is (32, 64)"
    )
    _check("tile[s, 0] = 1", "s", "an index is an integer, not float32", "T.cast(…, T.int32) truncates")
    _check(
        "tile[-1, 0] = 1", "-1", "index -1 lies outside axis 0 of tile", "negative ones do not wrap around"
    )
    _check(
        "T.copy(X[0:M, :], tile)",
        "0:M",
        "the size of this slice of X is not a constant",
        "start : start + size",
    )
    _check("T.copy(X[:, :], tile)", "X[:, :]", "axis 0 of X is only known at launch, but a tile's shape is fixed at "
           "generation time", "slice it: start : start + size")  # fmt: skip
    _check(
        "T.copy(X, tile)",
        "X",
        "axis 0 of X is only known at launch, but a tile's shape is fixed at generation time",
    )
    _check("T.copy(X[8:4, :], tile)", "8:4", "this slice of X holds -4 elements")
    _check("T.copy(X[0:32:2, :], tile)", "2", "a slice of a buffer has step 1", "T.Parallel")
    _check(
        "tile[:, :] = tile[0:16, :]",
        "tile[:, :]",
        "a tile of shape (16, 64) is assigned to a slice of shape (32, 64)",
    )
    _check("tile[0:4, :] += 1", "tile[0:4, :]", "a slice cannot be updated in place", "T.Parallel")
    _check(
        "x = tile + 1",
        "tile",
        "tile is a whole buffer where a single value is needed",
        "inside a T.Parallel loop",
    )
    _check("x = tile[0:2, 0] + 1", "tile[0:2, 0]", "a slice of tile stands where a single value is needed")
    _check(
        "x = tile[0, 0][0]",
        "tile[0, 0][0]",
        "an element of tile is indexed again",
        "index tile once, with all axes",
    )
    _check(
        "x = [1, 2][bx]",
        "bx",
        "a Python list is indexed with a value that only the kernel knows",
        "is unrolled",
    )


def test_out_of_bounds() -> None:
    _check("tile[32, 0] = 1", "tile[32, 0] = 1", "index 32 lies outside axis 0 of tile, which has 32 elements",
           "valid indices are 0 … 31")  # fmt: skip
    _check("x = tile[0, 64]", "tile[0, 64]", "index 64 lies outside axis 1 of tile, which has 64 elements")
    _check("T.copy(X[0, 0], tile[16:48, :])", "T.copy(X[0, 0], tile[16:48, :])",
           "the tile 16 : 16 + 32 reaches 47 on axis 0 of tile, which has 32 elements")  # fmt: skip
    _check("T.copy(X[bx, 64], tile)", "T.copy(X[bx, 64], tile)",
           "the tile 64 : 64 + 64 reaches 64 on axis 1 of X, which has 64 elements")  # fmt: skip
    _check(
        "X[bx, bx + 64] = 1",
        "X[bx, bx + 64] = 1",
        "index bx + 64 reaches 64 on axis 1 of X, which has 64 elements",
    )
