"""Barriers: none missing, none redundant. What the placement says is checked on text; that nothing is missing is what
the emulator's race detection in the other tests says."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
import tile_programs as programs
from emulation import emulated, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.lower.synchronisation import barriers


def _zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def test_threads_that_meet_only_their_own_elements_do_not_wait() -> None:
    assert "__syncthreads" not in kernel_text(generated(programs.own_elements, "sm_80", [_zeros(64, 64)]))


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_and_need_not(schedule: str, require_tool) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    (result,) = emulated(programs.own_elements, "sm_80", [x], {"schedule": schedule, "seed": 4})
    assert relative_error(result, 2 * x.astype(np.float64)) < 1e-7


def test_one_barrier_between_a_tile_and_its_transposed_reading() -> None:
    text = kernel_text(generated(programs.transpose, "sm_80", [_zeros(64, 64, dtype=np.float16)]))
    assert text.count("__syncthreads") == 1


def test_a_loop_waits_before_it_overwrites_what_the_last_iteration_read() -> None:
    text = kernel_text(generated(programs.mirrored_sum, "sm_80", [_zeros(32, 64)]))
    loop = text[text.index("for (int k") :]
    first, second = loop.index("__syncthreads"), loop.rindex("__syncthreads")
    assert first < loop.index("shared.s[row]") < second


def test_scratch_is_not_overwritten_while_it_is_read() -> None:
    text = kernel_text(
        generated(
            programs.layer_norm,
            "sm_90a",
            [_zeros(2, 1000, dtype=np.float16), _zeros(1000, dtype=np.float16)],
            cols=1000,
        )
    )
    # Two reductions across warps, one barrier in each: they take turns with two buffers.
    assert text.count("__syncthreads") == 2
    text = kernel_text(generated(programs.running_reduction, "sm_90a", [_zeros(3, 144)]))
    assert text[text.index("for (int k") :].count("__syncthreads") == 2


def test_cdna_waits_for_lds_alone() -> None:
    text = kernel_text(generated(programs.mirrored_sum, "gfx942", [_zeros(32, 64)]))
    assert "__syncthreads" not in text
    assert text.count("block_sync_lds") == 2


def shared_before_loop(X, W, rows: int = 16, n: int = 64, rewrites: bool = False, threads: int = 64):
    """Y[i] = the sum over tiles k of X[0, :] * W[k, i, :]: X's tile is filled once, in front of the loop."""
    K = T.const("K")
    X: T.Tensor((rows, n), T.float32)
    W: T.Tensor((K, rows, n), T.float32)
    Y = T.empty((rows,), T.float32)
    with T.Kernel(1, threads=threads):
        x = T.alloc_shared((rows, n), T.float32)
        w = T.alloc_fragment((rows, n), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.copy(X, x)
        T.clear(total)
        for k in T.serial(K):
            T.copy(W[k, 0, 0], w)
            for i, j in T.Parallel(rows, n):
                w[i, j] = w[i, j] * x[rows - 1 - i, n - 1 - j]
            T.reduce_sum(w, total, dim=1, clear=False)
            if rewrites:
                for i, j in T.Parallel(rows, n):
                    x[i, j] = x[i, j] + 1.0
        T.copy(total, Y)
    return Y


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("rewrites", [False, True])
def test_what_a_loop_waits_for_once_stands_in_front_of_it(require_tool, target: str, rewrites: bool) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (4, 16, 64)))
    files = generated(shared_before_loop, target, [x, w], rewrites=rewrites)
    text, wait = kernel_text(files), "block_sync_lds" if target == "gfx942" else "__syncthreads"
    before, inside = text[: text.index("for (int k")], text[text.index("for (int k") :]
    assert before.count(wait) == (0 if rewrites else 1)
    assert inside.count(wait) == (2 if rewrites else 0)
    values = x.astype(np.float64)[::-1, ::-1] + np.arange(4 if rewrites else 1)[:, None, None]
    for mode in ({"schedule": "random", "seed": 1}, {"schedule": "reverse"}):
        found = run(files.source, files.manifest, [x, w], **mode)
        assert relative_error(found, (values * w).sum((0, 2))) < 1e-5


def deep(X, threads: int = 64):
    """Loops in loops, behind what they all wait for once."""
    X: T.Tensor((64,), T.float32)
    Y = T.empty((64,), T.float32)
    with T.Kernel(1, threads=threads):
        x = T.alloc_shared((64,), T.float32)
        y = T.alloc_fragment((64,), T.float32)
        T.copy(X, x)
        T.clear(y)
        for _a in T.serial(2):
            for _b in T.serial(2):
                for _c in T.serial(2):
                    for _d in T.serial(2):
                        for _e in T.serial(2):
                            for _f in T.serial(2):
                                for i in T.Parallel(64):
                                    y[i] = y[i] + x[63 - i]
        T.copy(y, Y)
    return Y


def test_loops_in_loops_are_walked_a_few_times_each(require_tool, monkeypatch) -> None:
    """Twice a loop as it is placed, four times in a trial: 6 ** 6 if trials had trials."""
    require_tool("host_compiler")
    x = np.arange(64, dtype=np.float32)
    visits = []
    leaf = barriers._Placement.leaf
    monkeypatch.setattr(barriers._Placement, "leaf", lambda *given: visits.append(None) or leaf(*given))
    files = generated(deep, "sm_80", [x])
    assert 0 < len(visits) < 1000
    assert kernel_text(files).count("__syncthreads") == 1
    (found,) = emulated(deep, "sm_80", [x], {"schedule": "reverse"})
    np.testing.assert_array_equal(found, 64 * x[::-1])
