"""A persistent kernel begins its next tile beside the end of this one: what makes it so, that it is right under every
schedule of blocks and threads, and that no step of it can be left out."""

# mypy: ignore-errors

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulation import Array, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda


def squared(
    Q, K, V, block=64, stages=None, persistent=None, held=True, again=False, threads=128, residual=()
):
    """O[h] = (Q[h] K[h]^T)^2 V[h] over the keys up to each query's block: two gemms with element-wise work between.
    `residual` says where V at the queries is read, which is loaded once a tile, and added up."""
    H, N, D = T.const("H, N, D")
    Q: T.Tensor((H, N, D), T.float16)
    K: T.Tensor((H, N, D), T.float16)
    V: T.Tensor((H, N, D), T.float16)
    O = T.empty((H, N, D), T.float32)
    with T.Kernel(T.ceildiv(N, block), H, threads=threads, persistent=persistent) as (i, h):
        Q_shared = T.alloc_shared((block, D), T.float16)
        K_shared = T.alloc_shared((64, D), T.float16)
        V_shared = T.alloc_shared((64, D), T.float16)
        Q_local = T.alloc_fragment((block, D), T.float16) if held else Q_shared
        S = T.alloc_fragment((block, 64), T.float32)
        P = T.alloc_fragment((block, 64), T.float16)
        O_local = T.alloc_fragment((block, D), T.float32)
        T.copy(Q[h, i * block : (i + 1) * block, :], Q_shared)
        if held:
            T.copy(Q_shared, Q_local)
        T.clear(O_local)
        if residual:
            R_shared = T.alloc_shared((block, D), T.float16)
            T.copy(V[h, i * block : (i + 1) * block, :], R_shared)
        if "before" in residual:
            for r, c in T.Parallel(block, D):
                O_local[r, c] += R_shared[r, c]
        for j in T.Pipelined(T.ceildiv((i + 1) * block, 64), num_stages=stages):
            T.copy(K[h, j * 64 : (j + 1) * 64, :], K_shared)
            T.gemm(Q_local, K_shared, S, transpose_B=True, clear_accum=True)
            for r, c in T.Parallel(block, 64):
                S[r, c] *= S[r, c] * 0.125
            T.copy(S, P)
            T.copy(V[h, j * 64 : (j + 1) * 64, :], V_shared)
            T.gemm(P, V_shared, O_local)
        if "after" in residual:
            for r, c in T.Parallel(block, D):
                O_local[r, c] += R_shared[r, c]
        if again:
            for r, c in T.Parallel(block, D):
                O_local[r, c] += S[r, c]
        T.copy(O_local, O[h, i * block : (i + 1) * block, :])
    return O


def _inputs(queries: int = 304, heads: int = 3) -> list[Array]:
    rng = np.random.default_rng(9)
    return [(rng.standard_normal((heads, queries, 64)) / 4).astype(np.float16) for _ in range(3)]


def _expected(q: Array, k: Array, v: Array, block: int) -> Array:
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    rows, columns = np.arange(q.shape[1])[:, None] // block * block + block, np.arange(q.shape[1])[None]
    scores = np.where(columns < rows, q @ k.transpose(0, 2, 1), 0)
    return (scores**2 * 0.125) @ v


WAYS = [
    {"schedule": "fifo", "asynchronous": "eager", "multiprocessors": 1},
    {"schedule": "reverse", "asynchronous": "lazy", "multiprocessors": 4},
    {"schedule": "random", "asynchronous": "random", "seed": 5, "multiprocessors": 2},
    {"schedule": "random", "asynchronous": "lazy", "seed": 8, "multiprocessors": 40},
]


@pytest.mark.parametrize("how", WAYS, ids=lambda how: f"{how['schedule']} {how['multiprocessors']}")
@pytest.mark.parametrize(("block", "threads"), [(64, 128), (128, 256)])
@pytest.mark.parametrize("held", [True, False], ids=["in registers", "in shared memory"])
def test_it_is_right(held: bool, block: int, threads: int, how: dict[str, Any], require_tool: Any) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(squared, "sm_90a", inputs, block=block, threads=threads, held=held, persistent=True)
    assert files.plan.next_tile is not None and "begin_tile();" in files.source
    result = run(files.source, files.manifest, inputs, **how)
    assert relative_error(result, _expected(*inputs, block)) < 2e-3


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("queries", [304, 4096], ids=["beside the next tile", "alone"])
def test_each_role_counts_a_tiles_iterations_once(queries: int, held: bool) -> None:
    """The bound differs from tile to tile: it has a name in front of each role's loop, and stands in no loop's head."""
    text = kernel_text(generated(squared, "sm_90a", _inputs(queries, 1), held=held, persistent=True))
    assert text.count("const int j_tiles = ") == 2
    assert set(re.findall(r"for \(int j = \d; j < (.*?); ", text)) == {"j_tiles"}


def test_the_first_gemm_has_a_stage_more() -> None:
    held, read = (
        {
            h.name: h.stages
            for h in generated(squared, "sm_90a", _inputs(), held=held, persistent=True).plan.hand_overs
        }
        for held in (True, False)
    )
    assert held == {"Q": 1, "K": 3, "V": 2}, "what is in registers is out of use at once"
    assert read == {"Q": 2, "K": 3, "V": 2}


@pytest.mark.parametrize(
    ("queries", "parameters"),
    [
        (304, {"persistent": False}),
        (304, {"persistent": True, "stages": 2}),  # the program says how many stages
        (
            304,
            {"persistent": True, "again": True},
        ),  # the epilogue reads what the next tile's gemm would overwrite
        (4096, {"persistent": True}),  # long tiles
    ],
    ids=["a tile a block", "two stages", "read again", "long"],
)
def test_it_stays_away(queries: int, parameters: dict[str, Any]) -> None:
    files = generated(squared, "sm_90a", _inputs(queries, 1), **parameters)
    assert files.plan.next_tile is None and "begin_tile" not in files.source


def test_what_the_program_does_with_the_result_later_is_right(require_tool: Any) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(squared, "sm_90a", inputs, persistent=True, again=True)
    result = run(files.source, files.manifest, inputs, **WAYS[2])
    q, k, _ = (array.astype(np.float64) for array in inputs)
    first = np.arange(q.shape[1])[:, None] // 64 * 64 + np.arange(64)[None]
    scores = np.concatenate([q @ k.transpose(0, 2, 1), np.zeros((3, 304, 64))], axis=2)
    last = np.take_along_axis(scores, np.broadcast_to(first, (3, 304, 64)), axis=2)
    assert relative_error(result, _expected(*inputs, 64) + last**2 * 0.125) < 2e-3


@pytest.mark.parametrize("residual", [("before",), ("after",), ("before", "after")], ids=" and ".join)
def test_a_tile_that_is_loaded_once_is_waited_for_wherever_it_is_read(
    residual: tuple[str, ...], require_tool: Any
) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(squared, "sm_90a", inputs, persistent=True, residual=residual)
    assert files.plan.draws_tiles and (files.plan.next_tile is not None) == (residual == ("before",))
    expected = _expected(*inputs, 64) + len(residual) * inputs[2].astype(np.float64)
    for how in WAYS[1:3]:
        assert relative_error(run(files.source, files.manifest, inputs, **how), expected) < 2e-3


def test_no_register_spills_and_no_gemm_waits_for_another(require_tool: Any) -> None:
    require_tool("nvcc")
    files = generated(squared, "sm_90a", _inputs(), block=128, threads=256, persistent=True)
    result = compile_cuda(files.source, load_target("sm_90a"))
    assert result.spills == 0 and "serialized" not in result.log


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("warpgroup_wait<1>();  // O_local is there", "warpgroup_wait<2>();"),
        ("    issue_O_local();\n    begin_tile();", "    begin_tile();\n    issue_O_local();"),
        ("    mbarrier_wait(shared.Q_full, Q_ring.phase);\n", ""),
        ("    if (thread == 0) mbarrier_arrive(shared.Q_empty);\n", ""),
        ("mbarrier_wait(shared.V_empty[V_ring.stage], V_ring.phase);", ""),
        ("    mbarrier_wait(shared.tile_full, round % 2);\n", ""),
        ("    mbarrier_arrive(shared.tile_empty);\n", ""),
    ],
    ids=[
        "a wait too short",
        "the order of the gemms",
        "no wait for Q",
        "Q not let go",
        "no wait for a stage",
        "no wait for the tile",
        "the tile not let go",
    ],
)
def test_no_step_can_be_left_out(old: str, new: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(squared, "sm_90a", inputs, persistent=True)
    text = files.source
    assert old in kernel_text(files)
    changed = text.replace(old, new)
    with pytest.raises(EmulationError):
        for how in WAYS:
            run(changed, files.manifest, inputs, **how)
