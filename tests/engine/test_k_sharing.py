"""Gemms whose warps share k, on every target, under adversarial orders; what cannot be done is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import engine_programs
import k_sharing_programs as programs
import numpy as np
import pytest
from engine_running import TARGETS, TOLERANCE, Array, compare, exact, matrix, results

from tilegen.diagnostics import ProgramError
from tilegen.emission import Emission
from tilegen.emulate.errors import EmulationError
from tilegen.language.tensors import spec_of_array

Require = Callable[[str], None]
M, N, K = 96, 72, 328
PRODUCTS: dict[str, dict[str, Any]] = {
    "no stages": {"num_stages": 0},
    "one stage": {"num_stages": 1, "block_N": 32, "epilogue": ("bias", "relu")},
    "A from columns": {"transpose_A": True},
    "B from columns": {"transpose_B": True},
    "both from columns": {"transpose_A": True, "transpose_B": True, "num_stages": 3},
    "parts inside of a swizzle's row": {"block_K": 32, "transpose_B": True},
    "parts of several swizzles' rows": {"block_K": 256, "block_N": 16, "num_stages": 1, "transpose_B": True},
    "512 threads": {"block_K": 128, "threads": 512, "num_stages": 3, "block_N": 32},
    "rows divided too": {"block_M": 128, "block_N": 32, "threads": 512},
    "small tiles": {"block_M": 64, "block_N": 16, "block_K": 128, "transpose_B": True},
    "persistent": {"persistent": True, "block_N": 32, "epilogue": ("through_shared",)},
    "persistent, wide stores": {"persistent": True, "out_dtype": "float32", "epilogue": ("residual_tile",)},
}


def parameters(**given: Any) -> dict[str, Any]:
    return {"block_K": 64, "threads": 256, "policy": "sliced_k", **given}


def operands(transpose_A: bool = False, transpose_B: bool = False) -> tuple[Array, Array]:
    return matrix(1, *((K, M) if transpose_A else (M, K))), matrix(2, *((N, K) if transpose_B else (K, N)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products(require_tool: Require, target: str, case: dict[str, Any]) -> None:
    """Both operands from shared tiles, any epilogue: the sums are whole where the program goes on."""
    require_tool("host_compiler")
    a, b = operands(case.get("transpose_A", False), case.get("transpose_B", False))
    bias, residual = matrix(3, N), matrix(4, M, N)
    (found,) = results(engine_programs.product, target, [a, b, bias, residual], parameters(**case))
    left = exact(a).T if case.get("transpose_A") else exact(a)
    expected = left @ (exact(b).T if case.get("transpose_B") else exact(b))
    epilogue = case.get("epilogue", ())
    if "bias" in epilogue:
        expected = np.maximum(expected + exact(bias), 0)
    if "residual_tile" in epilogue:
        expected = expected + exact(residual)
    compare(found, expected, TOLERANCE[case.get("out_dtype", "float16")])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"num_stages": 0},
        {"num_stages": 3, "threads": 512, "block_K": 128},
        {"persistent": True, "transpose_B": True},
    ],
    ids=lambda case: "-".join(map(str, case.values())) or "plain",
)
def test_operands_in_registers(require_tool: Require, target: str, case: dict[str, Any]) -> None:
    """Each warp makes its own part of them, and only that."""
    require_tool("host_compiler")
    a, b = operands(transpose_B=case.get("transpose_B", False))
    (found,) = results(programs.register_operand, target, [a, b], case)
    compare(found, 2 * exact(a) @ (exact(b).T if case.get("transpose_B") else exact(b)), TOLERANCE["float16"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["clear_accum", "clear"])
def test_sums_used_inside_their_loop(require_tool: Require, target: str, how: str) -> None:
    """They are added up in each iteration."""
    require_tool("host_compiler")
    a, b = matrix(1, M, 256), matrix(2, 256, N)
    (found,) = results(programs.used_inside, target, [a, b], {"how": how})
    parts = (exact(a)[:, k : k + 64] @ exact(b)[k : k + 64] for k in range(0, 256, 64))
    compare(found, sum((np.maximum(part, 0) for part in parts), np.zeros((M, N))), TOLERANCE["float16"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["no loop", "two", "branch", "again", "rows", "atomic"])
def test_where_sums_become_whole(require_tool: Require, target: str, how: str) -> None:
    require_tool("host_compiler")
    a, b = matrix(1, M, 128), matrix(2, 128, 32)
    c = np.zeros((M, 32), np.float32)
    emission = programs.several.emit(*map(_spec, (a, b, c)), target=target, how=how)
    found = _only(emission.emulate(a, b, c, schedule="random", asynchronous="lazy"))
    expected = exact(a) @ exact(b) * (2 if how == "again" else 1)
    if how == "rows":
        expected[:, -1] = expected.sum(1)
    compare(found, expected, TOLERANCE["float16"])
    additions = emission.source.count("add up the sums of their parts of k")
    assert additions == (2 if how == "again" else 1)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_sums(require_tool: Require, target: str) -> None:
    require_tool("host_compiler")
    a, b, d = matrix(1, M, 192), matrix(2, 192, 32), matrix(3, 32, 32)
    (found,) = results(programs.chained, target, [a, b, d], {})
    compare(found, np.maximum(exact(a) @ exact(b), 0) @ exact(d), TOLERANCE["float16"])


@pytest.mark.parametrize(
    ("target", "shape"),
    [("sm_90a", (64, 16, 64, 256)), ("sm_80", (16, 16, 64, 128)), ("gfx942", (16, 16, 64, 128))],
)
def test_chosen_where_nothing_else_divides_the_tile(
    require_tool: Require, target: str, shape: tuple[int, ...]
) -> None:
    require_tool("host_compiler")
    a, b = operands()
    case = dict(zip(("block_M", "block_N", "block_K", "threads"), shape, strict=True))
    arrays = [a, b, matrix(3, N), matrix(4, M, N)]
    emission = _emission(arrays, target, **case)
    assert "of every tile's k; their sums C_local are added up behind loop k" in " ".join(
        line.strip("/ ") for line in emission.source.splitlines()
    )
    compare(_only(emission.emulate(*arrays)), exact(a) @ exact(b), TOLERANCE["float16"])


def test_same_bits_in_every_run(require_tool: Require) -> None:
    """The parts are added in the order of k, whichever warps come first."""
    require_tool("host_compiler")
    arrays = [*operands(), matrix(3, N), matrix(4, M, N)]
    for target in ("sm_80", "sm_90a", "gfx942"):
        emission = _emission(arrays, target, **parameters(out_dtype="float32", block_N=32, threads=512))
        runs = [_only(emission.emulate(*arrays, schedule="random", seed=seed)) for seed in (1, 2)]
        np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    ("target", "barrier"),
    [
        ("sm_90a", r"named_barrier_sync\(kConsumerBarrier, kConsumers \* kWarpgroup\);"),
        ("sm_80", r"__syncthreads\(\);"),
        ("gfx942", r"block_sync_lds\(\);"),
    ],
)
def test_a_missing_barrier_is_found(require_tool: Require, target: str, barrier: str) -> None:
    """Between the stores of the parts and their addition all threads meet, and they need to."""
    require_tool("host_compiler")
    arrays = [*operands(), matrix(3, N), matrix(4, M, N)]
    emission = _emission(arrays, target, **parameters(block_N=32))
    at = emission.source.index("add up the sums of their parts of k")
    head, tail = emission.source[:at], emission.source[at:]
    broken = re.sub(barrier, "", tail, count=1)
    assert broken != tail
    with pytest.raises(EmulationError, match=r"race|poison"):
        replace(emission, generated=replace(emission.generated, source=head + broken)).emulate(*arrays)


@pytest.mark.parametrize("epilogue", [(), ("through_shared",), ("residual_tile",)], ids=str)
def test_no_barrier_is_redundant(require_tool: Require, epilogue: tuple[str, ...]) -> None:
    """Of the consumers of a persistent kernel: without any one of their barriers something is reported. (The whole of k
    fits the ring, so that no load of the next tile waits for a consumer.)"""
    require_tool("host_compiler")
    arrays = [matrix(1, M, 128), matrix(2, 128, N), matrix(3, N), matrix(4, M, N)]
    emission = _emission(arrays, "sm_90a", **parameters(block_N=16, persistent=True, epilogue=epilogue))
    barriers = list(re.finditer(r"(?m)^ *named_barrier_sync\(.*\n", emission.source))
    assert barriers
    for barrier in barriers:
        text = emission.source[: barrier.start()] + emission.source[barrier.end() :]
        broken_one = replace(emission, generated=replace(emission.generated, source=text))
        with pytest.raises(EmulationError):
            for schedule in ("fifo", "reverse", "random"):
                broken_one.emulate(*arrays, schedule=schedule, asynchronous="lazy", multiprocessors=2)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_an_addition_needs_one_barrier(target: str) -> None:
    """The loop's own barriers part it from the addition of the tile before."""
    arrays = [*operands(), matrix(3, N), matrix(4, M, N)]
    text = _emission(arrays, target, **parameters(persistent=True, block_N=32)).source
    epilogue = text[text.index("// Epilogue") : text.index("T.copy(C_local, C[")]
    assert len(re.findall(r"__syncthreads\(\)|block_sync_lds\(\)", epilogue)) == 1


@pytest.mark.parametrize(
    ("case", "message", "remedy"),
    [
        ({"start": 1.5}, "would count the old values of C_local 2 times", r"T\.clear\(C_local\)"),
        ({"block_K": 16}, "2 warpgroups cannot share the k of 16", "leave out the policy"),
    ],
)
def test_refusals(case: dict[str, Any], message: str, remedy: str) -> None:
    """At the line of the gemm."""
    arrays = [*operands(), matrix(3, N), matrix(4, M, N)]
    with pytest.raises(ProgramError, match=message) as caught:
        _emission(arrays, "sm_90a", **parameters(**case))
    assert re.search(remedy, str(caught.value))
    assert "T.gemm(A_shared, B_shared" in str(caught.value)


def _spec(array: Array) -> Any:
    return spec_of_array(array.shape, array.dtype)


def _emission(arrays: list[Array], target: str, **given: Any) -> Emission:
    made = engine_programs.product.emit(*map(_spec, arrays), target=target, **given)
    assert isinstance(made, Emission)
    return made


def _only(found: Array | tuple[Array, ...]) -> Array:
    assert isinstance(found, np.ndarray)
    return found
