"""Programs beyond one matrix product: several gemms, operands that threads write, accumulators that are used again,
explicit persistence, partial sums, reductions of accumulators; on every target, threads in random order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import engine_programs as programs
import numpy as np
import pytest
import tile_order_programs as tiles
from engine_running import TARGETS, TOLERANCE, Array, chooser, compare, exact, matrix, results


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def relu(values: Array) -> Array:
    return np.maximum(values, 0)


def spread(variants: list[dict[str, Any]], rounds: int = 1) -> list[Any]:
    """Each variant on every target, `rounds` times: (target, variant, seed); the seed draws schedule and extents."""
    cases = []
    for number, (variant, target, turn) in enumerate(product(variants, TARGETS, range(rounds))):
        words = [*map(str, variant.values()), target, *([str(turn)] if rounds > 1 else [])]
        cases.append(pytest.param(target, variant, number, id="-".join(words)))
    return cases


def schedule(seed: int, **fixed: Any) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """Drawn ring depth and block shape, and extents; threads are enough for the accumulators of two gemms."""
    choose = chooser(seed)
    block_M = choose.choice([64, 128])
    parameters = {
        "num_stages": choose.choice([0, 1, 2, 3, 4]),
        "block_M": block_M,
        "threads": 256 if block_M == 128 else 128,
        "block_K": choose.choice([32, 64]),
    }
    extents = tuple(choose.choice([8, 56, 64, 72, 120, 128, 200]) for _ in "MN")
    return parameters | fixed, (*extents, choose.choice([0, 8, 31, 64, 96, 136, 200]))


def operands(m: int, n: int, k: int, count: int = 1) -> tuple[Array, ...]:
    return (matrix(5, m, k), *(matrix(6 + number, k, n) for number in range(count)))


TWO = [
    {"shape": shape, "swapped": swapped}
    for shape in ("side_by_side", "kept_apart", "same")
    for swapped in (False, True)
]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(TWO))
def test_two_gemms_in_one_loop(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b, d = operands(m, n, k, 2)
    first, second = results(programs.two_products, target, [a, b, d], parameters, seed=seed)
    x, y = exact(a) @ exact(b), exact(a) @ exact(d)
    expected = {"side_by_side": (relu(x) + y,) * 2, "kept_apart": (x, y), "same": (x + y,) * 2}[
        variant["shape"]
    ]
    compare(first, expected[0], TOLERANCE["float32"])
    compare(second, expected[1], TOLERANCE["float16"])


WRITTEN = [{"which": which, "where": where} for which in "AB" for where in ("inside", "through_fragment")]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(WRITTEN))
def test_operands_that_threads_write(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b = operands(m, n, k)
    (found,) = results(programs.written_operand, target, [a, b], parameters, seed=seed)
    compare(found, 2 * exact(a) @ exact(b), TOLERANCE["float16"])


CHAINED = [
    {"through": through, "N": n, "P": p}
    for through in ("registers", "shared")
    for n, p in ((64, 64), (32, 96))
]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(CHAINED))
def test_a_product_as_operand(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, _, k) = schedule(seed, **variant)
    a, b = operands(m, variant["N"], k)
    d = matrix(9, variant["N"], variant["P"])
    (found,) = results(programs.chained, target, [a, b, d], parameters, seed=seed)
    compare(found, relu(exact(a) @ exact(b)) @ exact(d), TOLERANCE["float16"])


AGAIN = [{"between": between} for between in ("store", "halve", "clear", "fill")]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(AGAIN))
def test_accumulators_used_again(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b = operands(m, n, k)
    first, second = results(programs.accumulators_again, target, [a, b], parameters, seed=seed)
    values = exact(a) @ exact(b)
    kept = {"store": values, "halve": values / 2, "clear": 0 * values, "fill": 0 * values + 3}[
        variant["between"]
    ]
    compare(first, values, TOLERANCE["float32"])
    compare(second, kept + values, TOLERANCE["float32"])


INSIDE = [{"how": how} for how in ("fill", "clear", "flag")]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(INSIDE))
def test_accumulators_that_start_anew_inside_the_loop(
    target: str, variant: dict[str, Any], seed: int
) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b = operands(m, n, k)
    (found,) = results(programs.cleared_inside, target, [a, b], parameters, seed=seed)
    step = parameters["block_K"]
    start = 1.5 if variant["how"] == "fill" else 0.0
    total = np.zeros((m, n))
    for low in range(0, k, step):
        total += np.abs(start + exact(a)[:, low : low + step] @ exact(b)[low : low + step])
    compare(found, total, TOLERANCE["float32"])


@pytest.mark.parametrize(
    ("target", "variant", "seed"), spread([{"staged": staged} for staged in (True, False)])
)
def test_a_store_in_every_iteration(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, _) = schedule(seed, **variant)
    a, b = operands(m, n, parameters["block_K"])
    (found,) = results(programs.loaded_once, target, [a, b], parameters, seed=seed)
    compare(found, exact(a) @ exact(b), TOLERANCE["float16"])


PERSISTENT = [{"blocks": blocks, "group": group} for blocks, group in ((1, 0), (5, 0), (3, 2))]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(PERSISTENT, 2))
def test_explicit_persistence(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b = operands(m, n, k)
    (found,) = results(tiles.persistent_tiles, target, [a, b], parameters, seed=seed)
    compare(found, relu(exact(a) @ exact(b)), TOLERANCE["float16"])


SPLIT = [{"splits": 3, "by_element": False, "scale": 1.0}, {"splits": 2, "by_element": True, "scale": 0.5}]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(SPLIT))
def test_split_k(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed, **variant)
    a, b = operands(m, n, k)
    c = matrix(7, m, n, dtype="float32")
    (found,) = results(tiles.split_k, target, [a, b, c], parameters, seed=seed)
    compare(found, exact(c) + variant["scale"] * exact(a) @ exact(b), TOLERANCE["float32"])


@pytest.mark.parametrize(("target", "variant", "seed"), spread([{}], 2))
def test_rows_of_a_product_reduced(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed)
    a, b = operands(m, n, k)
    largest, total = results(tiles.row_statistics, target, [a, b], parameters, seed=seed)
    values = exact(a) @ exact(b)
    compare(largest, values.max(1), TOLERANCE["float32"])
    compare(total, values.sum(1), 5e-5)


@pytest.mark.parametrize(("target", "variant", "seed"), spread([{}], 2))
def test_accumulators_that_other_threads_need(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed)
    a, b = operands(m, n, k)
    turned, sums = results(tiles.gathered_epilogue, target, [a, b], parameters, seed=seed)
    values = exact(a) @ exact(b)
    block = parameters["block_M"]
    compare(turned, values.T, TOLERANCE["float16"])
    compare(sums, np.stack([values[low : low + block].sum(0) for low in range(0, m, block)]), 5e-5)


@pytest.mark.parametrize(("target", "variant", "seed"), spread([{}], 2))
def test_a_pipelined_tile_read_after_its_loop(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, k) = schedule(seed)
    k = max(k, 40)
    a, b = operands(m, n, k)
    found, last = results(tiles.last_tiles, target, [a, b], parameters, seed=seed)
    compare(found, exact(a) @ exact(b), TOLERANCE["float16"])
    step = parameters["block_K"]
    padded = np.pad(exact(a), ((0, 0), (0, -k % step)))
    compare(last, padded[:, -step:], 1e-12)


@pytest.mark.parametrize(("target", "variant", "seed"), spread([{"rounds": 1}, {"rounds": 3}]))
def test_a_tile_that_a_gemm_reads_and_threads_overwrite(
    target: str, variant: dict[str, Any], seed: int
) -> None:
    n = 64
    a, b = operands(100, n, n)
    (found,) = results(tiles.passed_on, target, [a, b], {**variant, "N": n}, seed=seed)
    values = exact(a)
    for _ in range(variant["rounds"]):
        values = relu(values @ exact(b)) / 8
    compare(found, values, 5e-3)


POSITIONS = [{"how": how} for how in ("named", "counted", "branch", "table")]


@pytest.mark.parametrize(("target", "variant", "seed"), spread(POSITIONS))
def test_positions_of_loads(target: str, variant: dict[str, Any], seed: int) -> None:
    parameters, (m, n, _) = schedule(seed, num_stages=3, **variant)
    step = parameters["block_K"]
    a, b = operands(m, n, 4 * step)
    table = np.array([2, 0, 3, 1], np.int32)
    (found,) = results(tiles.positions, target, [a, b, table], parameters, seed=seed)
    compare(found, exact(a) @ exact(b), TOLERANCE["float16"])
