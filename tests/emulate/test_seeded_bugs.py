"""Right kernels are right and give no report in any schedule; a bug seeded into a kernel's text is reported."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import Facts, attention, exchange, matmul, matmul_inputs, matmul_relu, relative_error, source_of

from tilegen.emulate import EmulationError, run

SCHEDULES = ("fifo", "reverse", "random")
ASYNCHRONOUS = ("eager", "lazy", "random")
COMBINATIONS = list(itertools.product(SCHEDULES, ASYNCHRONOUS))
# A check that is fit for every day: each schedule and each way to be asynchronous at least once
FEW = [("fifo", "lazy"), ("reverse", "eager"), ("random", "random"), ("random", "lazy")]

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def _seeded(source: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in source, f"the text to seed a bug into is gone: {old}"
        source = source.replace(old, new)
    return source


def _reports(source: str, facts: Facts, inputs: list[Array], expected: Array, **options: Any) -> list[str]:
    """The kind of each report over a few combinations; "wrong" for a wrong result, nothing for a right one."""
    kinds = []
    for schedule, asynchronous in FEW:
        try:
            result = run(source, facts, inputs, schedule, asynchronous, seed=1, multiprocessors=2, **options)
        except EmulationError as error:
            assert error.line is None or 0 < error.line <= len(source.splitlines())
            kinds.append(error.kind)
        else:
            assert isinstance(result, np.ndarray)
            if not relative_error(result, expected) < 1e-3:
                kinds.append("wrong")
    return kinds


# ---- Hopper GEMM ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "asynchronous"), COMBINATIONS)
@pytest.mark.parametrize("shape", [(256, 256, 256), (129, 264, 72), (1, 8, 8), (400, 520, 328)])
def test_hopper_gemm_is_right_in_every_schedule(
    shape: tuple[int, int, int], schedule: Any, asynchronous: Any
) -> None:
    a, b = matmul_inputs(*shape)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    result = run(
        source_of(matmul_relu()), matmul_relu(), [a, b], schedule, asynchronous, seed=3, multiprocessors=2
    )
    assert isinstance(result, np.ndarray)
    assert np.allclose(result, expected, rtol=2e-3, atol=2e-3)
    assert relative_error(result, expected) < 1e-3


_EMPTY_WAIT = "          mbarrier_wait(shared.empty[ring.stage], ring.phase);\n"
_FULL_WAIT = "      mbarrier_wait(shared.full[ring.stage], ring.phase);\n"
_FINAL_WAIT = "    warpgroup_wait<0>();\n    if (thread == 0) mbarrier_arrive(shared.empty[released]);"
_BARRIER = "    named_barrier_sync(1 + consumer, kWarpgroup);\n"
_LAST_STORE_WAIT = "  }\n  if (thread == 0) tma_store_wait_read();\n}"
_HOPPER_BUGS: dict[str, tuple[set[str], list[tuple[str, str]]]] = {
    "barrier objects used at once": (
        {"race", "barrier-misuse"},
        [("    fence_barrier_init();\n  }\n  __syncthreads();", "    fence_barrier_init();\n  }")],
    ),
    "no fence after the initialisation": ({"missing-fence"}, [("    fence_barrier_init();\n", "")]),
    "no wait for an empty stage": ({"deadlock", "barrier-misuse", "race"}, [(_EMPTY_WAIT, "")]),
    "no wait for a full stage": ({"race"}, [(_FULL_WAIT, "")]),
    "half the expected bytes": (
        {"race", "deadlock"},
        [("(shared.full[ring.stage], kStageBytes)", "(shared.full[ring.stage], kStageBytes / 2)")],
    ),
    "twice the expected bytes": (
        {"deadlock"},
        [("(shared.full[ring.stage], kStageBytes)", "(shared.full[ring.stage], kStageBytes * 2)")],
    ),
    "a stage released early": ({"race"}, [("warpgroup_wait<1>();", "warpgroup_wait<2>();")]),
    "the last wait shortened": ({"race"}, [(_FINAL_WAIT, _FINAL_WAIT.replace("<0>", "<1>"))]),
    "the wrong stage released": (
        {"race", "deadlock"},
        [
            (
                "if (k > 0 && thread == 0) mbarrier_arrive(shared.empty[released])",
                "if (k > 0 && thread == 0) mbarrier_arrive(shared.empty[ring.stage])",
            )
        ],
    ),
    "stride of A's descriptor halved": (
        {"wrong"},
        [("0, 8 * kBlockK * sizeof(half))", "0, 4 * kBlockK * sizeof(half))")],
    ),
    "leading offset of B's descriptor halved": (
        {"wrong"},
        [("kBlockK * kSwizzleColumns * sizeof(half), 1024)", "kBlockK * kSwizzleColumns, 1024)")],
    ),
    "register budget broken": (
        {"register-budget"},
        [
            ("kConsumerRegisters = 232", "kConsumerRegisters = 240"),
            ("static_assert(kProducerRegisters +", "static_assert(true || kProducerRegisters +"),
        ],
    ),
    "registers never released": (
        {"register-budget"},
        [("    register_release<kProducerRegisters>();\n", "")],
    ),
    "C_shared written while a store reads it": (
        {"race"},
        [("    if (thread == 0) tma_store_wait_read();  // C_shared", "    // C_shared")],
    ),
    "no barrier after that wait": ({"race"}, [(_BARRIER + "\n    const int row", "\n    const int row")]),
    "no fence before the store": ({"missing-fence"}, [("    fence_proxy_async();\n", "")]),
    "no barrier before the store": (
        {"race"},
        [("    fence_proxy_async();\n" + _BARRIER, "    fence_proxy_async();\n")],
    ),
    "block ends while a store reads": ({"barrier-misuse"}, [(_LAST_STORE_WAIT, "  }\n}")]),
    "no warpgroup_arrive": ({"missing-fence"}, [("      warpgroup_arrive();\n", "")]),
    "both consumers on one named barrier": (
        {"race"},
        [("named_barrier_sync(1 + consumer, kWarpgroup)", "named_barrier_sync(1, kWarpgroup)")],
    ),
}


@pytest.mark.parametrize("bug", _HOPPER_BUGS)
def test_bug_in_hopper_gemm_is_reported(bug: str) -> None:
    kinds, edits = _HOPPER_BUGS[bug]
    a, b = matmul_inputs(400, 520, 264)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    found = _reports(_seeded(source_of(matmul_relu()), *edits), matmul_relu(), [a, b], expected)
    assert found and set(found) <= kinds


def test_report_names_both_places_of_a_race() -> None:
    source = _seeded(source_of(matmul_relu()), ("warpgroup_wait<1>();", "warpgroup_wait<2>();"))
    with pytest.raises(EmulationError) as caught:
        run(source, matmul_relu(), list(matmul_inputs(256, 256, 512)))
    error = caught.value
    assert error.kind == "race"
    lines = source.splitlines()
    assert error.line is not None and "tma_load_2d(shared.A_shared" in lines[error.line - 1]
    assert error.user_line == "matmul.py:25 T.copy(A[by * block_M, k * block_K], A_shared)"
    assert "wgmma of warpgroup 1" in str(error)
    assert "[matmul.py:27 T.gemm(A_shared, B_shared, C_local)]" in str(error)


# ---- Hopper attention -----------------------------------------------------------------------------------------


def _attention_case(queries: int, heads: int, kv_heads: int) -> tuple[list[Array], Array, Array]:
    generator = np.random.default_rng(queries)
    q, k, v = (
        generator.standard_normal((1, queries, count, 128)).astype(np.float16)
        for count in (heads, kv_heads, kv_heads)
    )
    wide_k, wide_v = (np.repeat(x, heads // kv_heads, axis=2).astype(np.float64) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), wide_k) / np.sqrt(128)
    scores = np.where(np.tril(np.ones((queries, queries), bool)), scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    output = np.einsum("bhij,bjhd->bihd", weights / total, wide_v)
    return [q, k, v], output, (largest + np.log(total))[..., 0]


def _attention(source: str, inputs: list[Array], *how: Any) -> tuple[Array, ...]:
    result = run(source, attention(), inputs, *how, scalars={"scale": float(np.float32(1 / np.sqrt(128)))})
    assert isinstance(result, tuple)
    return result


@pytest.mark.parametrize(("schedule", "asynchronous"), COMBINATIONS)
def test_hopper_attention_is_right_in_every_schedule(schedule: Any, asynchronous: Any) -> None:
    inputs, output, log_sum = _attention_case(300, 2, 1)
    o, lse = _attention(source_of(attention()), inputs, schedule, asynchronous, 7)
    assert relative_error(o, output) < 1e-3
    assert relative_error(lse, log_sum) < 1e-5


_SOFTMAX = "    softmax();\n"
_V_RELEASE = "    if (thread == 0) mbarrier_arrive(shared.V_empty[stage(t - 1)]);\n"
_ATTENTION_BUGS: dict[str, tuple[set[str], list[tuple[str, str]]]] = {
    "softmax before the scores are there": (
        {"race"},
        [("    warpgroup_wait<1>();  // the scores", "    // the scores")],
    ),
    "P converted while wgmma reads it": (
        {"race"},
        [
            (
                "    softmax();\n\n    warpgroup_wait<0>();",
                "    softmax();\n    convert();\n    warpgroup_wait<0>();",
            )
        ],
    ),
    "V released before it has been read": ({"race"}, [(_V_RELEASE, ""), (_SOFTMAX, _SOFTMAX + _V_RELEASE)]),
    "Q not waited for": ({"race"}, [("  mbarrier_wait(shared.Q_full, 0);\n", "")]),
    "the wrong phase of V": (
        {"race", "deadlock", "wrong"},
        [
            (
                "mbarrier_wait(shared.V_full[stage(t - 1)], phase(t - 1));",
                "mbarrier_wait(shared.V_full[stage(t)], phase(t) ^ 1);",
            )
        ],
    ),
}


@pytest.mark.parametrize("bug", _ATTENTION_BUGS)
def test_bug_in_hopper_attention_is_reported(bug: str) -> None:
    kinds, edits = _ATTENTION_BUGS[bug]
    inputs, output, _ = _attention_case(600, 1, 1)
    source = _seeded(source_of(attention()), *edits)
    found = []
    for schedule, asynchronous in FEW:
        try:
            o, _ = _attention(source, inputs, schedule, asynchronous)
        except EmulationError as error:
            found.append(error.kind)
        else:
            found += [] if relative_error(o, output) < 1e-3 else ["wrong"]
    assert found and set(found) <= kinds


# ---- Ampere GEMM ----------------------------------------------------------------------------------------------


def _ampere_case(m: int, n: int, k: int) -> tuple[list[Array], Array]:
    a, b = matmul_inputs(m, n, k)
    b = np.ascontiguousarray(b.T)
    return [a, b], a.astype(np.float64) @ b.T.astype(np.float64)


@pytest.mark.parametrize(("schedule", "asynchronous"), COMBINATIONS)
@pytest.mark.parametrize("shape", [(256, 256, 256), (200, 100, 136), (1, 1, 8), (64, 65, 104)])
def test_ampere_gemm_is_right_in_every_schedule(
    shape: tuple[int, int, int], schedule: Any, asynchronous: Any
) -> None:
    inputs, expected = _ampere_case(*shape)
    result = run(source_of(matmul()), matmul(), inputs, schedule, asynchronous, seed=3)
    assert isinstance(result, np.ndarray)
    assert relative_error(result, expected) < 1e-5


_LOAD = "    load((k + kStages - 1) % kStages, k + kStages - 1);\n"
_AMPERE_BUGS: dict[str, tuple[set[str], list[tuple[str, str]]]] = {
    "no barrier": ({"race", "poison"}, [("    __syncthreads();\n", "")]),
    "the wait one group short": ({"race"}, [("cp_async_wait<kStages - 2>", "cp_async_wait<kStages - 1>")]),
    "the ring one stage short": (
        {"race"},
        [("kStages = 3", "kStages = 2"), (_LOAD, "    load(k % kStages, k + kStages);\n")],
    ),
    "a row too many is stored": (
        {"out-of-bounds"},
        [("if (row < M && column < N) C", "if (row <= M && column < N) C")],
    ),
    "tiles overlap": ({"race"}, [("blockIdx.y * kBlock;", "blockIdx.y * (kBlock - 1);")]),
    "rows past the end are loaded": ({"out-of-bounds"}, [("first_m + row < M && column < K", "column < K")]),
    "the wrong swizzle": (
        {"wrong"},
        [
            (
                "&shared.A_shared[stage][row][swizzled(row, 2 * kk",
                "&shared.A_shared[stage][row][swizzled(row + 2, 2 * kk",
            )
        ],
    ),
}


@pytest.mark.parametrize("bug", _AMPERE_BUGS)
def test_bug_in_ampere_gemm_is_reported(bug: str) -> None:
    kinds, edits = _AMPERE_BUGS[bug]
    inputs, expected = _ampere_case(200, 100, 136)
    found = _reports(_seeded(source_of(matmul()), *edits), matmul(), inputs, expected)
    assert len(found) == len(FEW) and set(found) <= kinds


# ---- Clusters -------------------------------------------------------------------------------------------------


def _exchange_case() -> tuple[list[Array], Array]:
    x = np.random.default_rng(2).standard_normal((3, 32, 64)).astype(np.float32)
    return [x], 2 * (x[:, :, :32] + x[:, :, 32:]).astype(np.float64).sum(0)


@pytest.mark.parametrize(("schedule", "asynchronous"), COMBINATIONS)
def test_cluster_is_right_in_every_schedule(schedule: Any, asynchronous: Any) -> None:
    inputs, expected = _exchange_case()
    result = run(source_of(exchange()), exchange(), inputs, schedule, asynchronous, seed=9)
    assert isinstance(result, np.ndarray)
    assert relative_error(result, expected) < 1e-6


_CLUSTER_BUGS: dict[str, tuple[set[str], list[tuple[str, str]]]] = {
    "arrives at its own barrier only": (
        {"race"},
        [("mbarrier_arrive_cluster(shared.empty, thread)", "mbarrier_arrive_cluster(shared.empty, rank)")],
    ),
    "leaves while its peer still needs it": (
        {"barrier-misuse", "race"},
        [("  if (thread == 0) tma_store_wait();\n  cluster_sync();\n", "")],
    ),
    "a block starts before its peer is ready": (
        {"barrier-misuse", "race", "missing-fence"},
        [("  cluster_sync();\n\n  for", "  __syncthreads();\n\n  for")],
    ),
    "Y_shared stored before it is whole": (
        {"race", "poison"},
        [("    fence_proxy_async();\n    __syncthreads();\n", "    fence_proxy_async();\n")],
    ),
}


@pytest.mark.parametrize("bug", _CLUSTER_BUGS)
def test_bug_in_cluster_is_reported(bug: str) -> None:
    kinds, edits = _CLUSTER_BUGS[bug]
    inputs, expected = _exchange_case()
    found = _reports(_seeded(source_of(exchange()), *edits), exchange(), inputs, expected)
    assert found and set(found) <= kinds
