"""Random chains of element-wise steps, reductions, moves and changes of layout, on every target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import piece_programs as programs
import pytest
from engine_running import TARGETS, Array, chooser, exact, matrix, results

import tilegen.language as T

STEPS = (
    "scale_rows", "add_columns", "outer", "mean_rows", "max_rows", "max_columns", "halve", "through_shared", "turn",
    "mirror", "exponent", "where",
)  # fmt: skip
TILES = ((16, 32), (32, 32), (8, 100), (24, 24), (1, 229), (64, 16))
# The last ones hold a reduction's result in other threads than compute it.
SEEDS = (*range(50), 82, 125, 156, 208, 249)


def cases() -> Iterator[Any]:
    for seed in SEEDS:
        choose = chooser(seed)
        tile = choose.choice(TILES)
        known = (*STEPS, "transpose") if tile[0] == tile[1] else STEPS
        steps = tuple(choose.choice(known) for _ in range(choose.randint(3, 7)))
        threads = choose.choice([64, 128, 256])
        target = TARGETS[seed % len(TARGETS)]
        yield pytest.param(seed, steps, tile, threads, target, id=f"{seed}-{target}-{'-'.join(steps)}")


def expected_tile(x: Array, column: Array, steps: tuple[str, ...]) -> tuple[Array, Array]:
    """The steps on one tile in float64."""
    row = np.full(len(x), 0.5)
    i, j = np.indices(x.shape)
    for step in steps:
        match step:
            case "scale_rows":
                x = x * row[:, None]
            case "add_columns":
                x = x + column
            case "outer":
                x = x + np.outer(row, column)
            case "mean_rows":
                row = x.mean(1)
            case "max_rows":
                row = np.maximum(x.max(1), 0.25)
            case "max_columns":
                column = np.abs(x).max(0)
            case "halve":
                x = x.astype(np.float16).astype(np.float64)
            case "through_shared":
                pass
            case "turn":
                x = np.roll(x, (-1, -3), (0, 1))
            case "mirror":
                x = x[::-1]
            case "transpose":
                x = x.T
            case "exponent":
                x = np.exp2(np.minimum(x, 4) * 0.5)
            case "where":
                x = np.where((i + j) % 3 == 0, -x, x)
    return x, row


@pytest.mark.parametrize(("seed", "steps", "tile", "threads", "target"), list(cases()))
def test_a_chain_computes_what_numpy_does(
    require_tool: Callable[[str], None],
    seed: int,
    steps: tuple[str, ...],
    tile: tuple[int, int],
    threads: int,
    target: str,
) -> None:
    require_tool("host_compiler")
    rows, columns = tile
    shape = (rows + max(1, rows // 2), columns + columns // 3)
    x, v = matrix(seed, *shape, dtype="float32"), matrix(seed + 1, shape[1], dtype="float32")
    parameters = {"steps": steps, "tile": tile, "threads": threads}
    y, r = results(programs.chain, target, [x, v], parameters, seed=seed)
    padded = np.pad(exact(x), ((0, -shape[0] % rows), (0, -shape[1] % columns)))
    columns_padded = np.pad(exact(v), (0, -shape[1] % columns))
    for top in range(0, shape[0], rows):
        for left in range(0, shape[1], columns):
            tile_x = padded[top : top + rows, left : left + columns]
            wanted, wanted_row = expected_tile(tile_x, columns_padded[left : left + columns], steps)
            inside = y[top : top + rows, left : left + columns]
            tolerance = 1e-3 if "halve" in steps else 1e-5
            wanted = wanted[: inside.shape[0], : inside.shape[1]]
            assert np.allclose(inside, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
            found_row = r[top : top + rows, left // columns]
            assert np.allclose(found_row, wanted_row[: len(found_row)], rtol=tolerance, atol=tolerance)


def test_a_result_that_other_threads_hold_is_noted() -> None:
    steps = ("turn", "max_rows", "transpose", "outer", "transpose", "outer")
    shapes = [T.Tensor((48, 48), "float32"), T.Tensor((48,), "float32")]
    emission = programs.chain.emit(*shapes, target="sm_90a", steps=steps, tile=(32, 32))
    assert "other threads hold it than reduce it" in emission.report()
    assert "shared.row_1_result" in emission.source and "// row_1_result" in emission.source
