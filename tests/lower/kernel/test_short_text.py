"""What keeps emitted text short: ring positions by iteration, one loader for tiles, sums that need no buffer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen
import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
Array = np.ndarray[Any, Any]


def attention(target: str = "sm_90a", **parameters: Any) -> str:
    tensor = T.Tensor((1, 512, 2, 128), T.float16)
    kernel = load_kernel(f"{EXAMPLES / 'attention.py'}:attention")
    return kernel.emit(tensor, tensor, tensor, target=target, **parameters).source


def matmul(**parameters: Any) -> str:
    tensor = T.Tensor((512, 512), T.float16)
    kernel = load_kernel(f"{EXAMPLES / 'matmul.py'}:matmul_relu")
    return kernel.emit(tensor, tensor, target="sm_90a", **parameters).source


def test_a_skewed_loop_that_is_entered_once_counts_its_stages() -> None:
    text = attention(causal=True, persistent=False)
    assert "RingState" not in text and "advance()" not in text
    assert text.count("u32 stage_of(u32 t)") == 1
    assert "issue_O_local(j - 1);" in text and "mbarrier_arrive(shared.V_empty[stage_of(j - 1)])" in text
    behind = text[text.index("// Last iteration's second gemm") :]
    assert "mbarrier_arrive" not in behind, "nobody waits for a stage behind the loop"


@pytest.mark.parametrize("causal", [False, True], ids=["fixed steps", "drawn tiles"])
def test_a_persistent_block_counts_from_tile_to_tile(causal: bool) -> None:
    text = attention(causal=causal, persistent=True)
    assert "RingState" not in text and "advance()" not in text
    assert "mbarrier_arrive(shared.V_empty[stage_of(done + j - 1)])" in text
    count = "done += j_tiles;" if causal else "const int done = round * kTilesJ;"
    assert text.count(count) == 2, "of the producer, and of the consumers"
    ready = "shared.Q_full, round % 2" if causal else "shared.Q_full[stage_of(round)], phase_of(round)"
    assert text.count(f"mbarrier_wait({ready});") == 1


@pytest.mark.parametrize("persistent", [False, True], ids=["a tile a block", "persistent"])
def test_rings_of_three_stages_have_a_state(persistent: bool) -> None:
    text = attention(causal=True, num_stages=3, block_N=64, persistent=persistent)
    assert "stage_of" not in text and "K_ring.advance();" in text
    assert "issue_S();" in text


def test_a_plain_loop_of_gemms_has_a_state() -> None:
    assert "stage_of" not in matmul(num_stages=4)


def test_tiles_that_are_loaded_alike_share_a_loader() -> None:
    text = attention(causal=True)
    assert text.count("void load_tile(") == 1 and text.count("  load_tile(") == 3
    assert "StageBytes" not in text
    assert "load_tile" not in matmul(), "A and B share a barrier"


def test_a_loop_that_provably_runs_has_no_test_around_it() -> None:
    assert "if (j_tiles > 0)" not in attention(causal=True)
    tensor = T.Tensor((1, "S", 2, 128), T.float16)
    kernel = load_kernel(f"{EXAMPLES / 'attention.py'}:attention")
    text = kernel.emit(tensor, tensor, tensor, target="sm_90a", causal=True, persistent=False).source
    assert "if (j_tiles > 0)" in text


def test_lambdas_have_copies_of_structured_bindings() -> None:
    text = attention(causal=True)
    assert re.search(r"const auto \[bx, h, b\] = tile_coordinates\(", text)
    assert "work_beside = [&, bx = bx](int j) {" in text and "work_after = [&]() {" in text


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_a_deferred_sum_needs_no_buffer(target: str) -> None:
    text = attention(target, causal=True, block_N=64)
    code = re.sub(r"//.*", "", text)
    assert "l_block" not in code and "*= alpha[" in code


# ----------------------------------------------------------------------- sums that are added up elsewhere


def running_sum(X, overwrite: bool, before: bool):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((K, M, N), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(1, threads=128):
        S = T.alloc_fragment((M, N), T.float32)
        part = T.alloc_fragment((M,), T.float32)
        total = T.alloc_fragment((M,), T.float32)
        T.clear(total)
        if before:
            T.clear(part)
        for k in T.serial(K):
            T.copy(X[k, 0, 0], S)
            if before:
                for i in T.Parallel(M):
                    total[i] = total[i] * 0.5 + part[i]
            T.reduce_sum(S, part, dim=1)
            if overwrite:
                for i, j in T.Parallel(M, N):
                    S[i, j] = S[i, j] * 2
            if not before:
                for i in T.Parallel(M):
                    total[i] = total[i] * 0.5 + part[i]
        T.copy(total, Y)
    return Y


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_sums_are_right_wherever_they_are_added_up(
    overwrite: bool, before: bool, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(5).standard_normal((3, 32, 64)).astype(np.float32)
    sums = x.astype(np.float64).sum(2)
    expected, part = np.zeros(32), np.zeros(32)
    for k in range(3):
        expected = expected * 0.5 + (part if before else sums[k])
        part = sums[k]
    made = generated(running_sum, "sm_90a", [x], overwrite=overwrite, before=before)
    assert len(made.plan.deferred) == (0 if before or overwrite else 1)
    (result,) = emulated(running_sum, "sm_90a", [x], overwrite=overwrite, before=before)
    assert relative_error(result, expected) < 1e-6


def test_what_happens_in_a_helper_is_reported_at_its_call(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    shapes = ((1, 400, 2, 128), (1, 600, 1, 128), (1, 600, 1, 128))
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    kernel = load_kernel(f"{EXAMPLES / 'attention.py'}:attention")
    made = kernel.emit(*(T.Tensor(shape, T.float16) for shape in shapes), target="sm_90a", causal=True)
    wait = next(line for line in made.source.splitlines() if "mbarrier_wait(shared.K_empty" in line)
    text = made.source.replace(wait, "")
    with pytest.raises(EmulationError, match=r"\[attention\.py:\d+ T\.copy\(K\[b, j \* block_N"):
        run(text, made.manifest, arrays, asynchronous="lazy")


def test_what_the_grid_proves_is_not_guarded() -> None:
    softmax = load_kernel(f"{EXAMPLES / 'softmax.py'}:softmax")
    rows = softmax.emit(target="sm_90a", dims={"N": 4096}).source
    assert "blockIdx.x" in rows and "bx < M" not in rows
    heads = load_kernel(f"{EXAMPLES / 'attention.py'}:attention").emit(target="sm_80", dims={"D": 128}).source
    assert "h / (H / H_kv)" in heads and "h / (H / H_kv) <" not in heads, "H is a multiple of H_kv"


def test_a_share_of_the_grid_is_guarded_without_the_assumption() -> None:
    def picked(X, Z):  # type: ignore[no-untyped-def]
        H, G = T.const("H, G")
        X: T.Tensor((G, 64), T.float32)
        Z: T.Tensor((H, 64), T.float32)
        Y = T.empty((H, 64), T.float32)
        with T.Kernel(H, threads=64) as h:
            for i in T.Parallel(64):
                Y[h, i] = X[h // (H // G), i] + Z[h, i]
        return Y

    assert "h / (H / G) < G" in tilegen.jit(picked).emit(target="sm_80").source


def test_numbers_of_the_module_keep_their_names() -> None:
    softmax = load_kernel(f"{EXAMPLES / 'softmax.py'}:softmax")
    text = softmax.emit(target="sm_90a", dims={"N": 4096}).source
    assert "constexpr float kLog2e = 1.442695f;" in text and text.count("1.442695f") == 1


def test_a_loop_that_is_unrolled_in_part_says_why() -> None:
    text = attention("sm_80")
    assert re.search(r"#pragma unroll 2\n.*\{  // fragments leave registers for few loads at once\n", text)


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_rows_of_a_tile_that_threads_do_not_divide_have_their_name(target: str) -> None:
    text = load_kernel(str(EXAMPLES / "dequant_gemm.py")).emit(target=target, dims={"M": 16}).source
    assert re.search(r"if \((S_shared_)?row < kBlockK / kGroup\)", text)
    assert not re.search(r"row < \d", text)


def test_the_only_row_of_a_tile_has_no_variable() -> None:
    kernel, dims = load_kernel(str(EXAMPLES / "dequant_gemv.py")), {"M": 1, "N": 8192, "K": 8192}
    text = kernel.emit(target="gfx942", dims=dims, order="mfma", block_M=32, block_N=32).source
    assert "window.offset(0, column)" in text and "&shared.A_shared[0][8 * (64 * wave" in text
    assert "row = 0;" not in text
