"""Barriers: none missing, none redundant. What the placement says is checked on text; that nothing is missing is what
the emulator's race detection in the other tests says."""

from __future__ import annotations

import numpy as np
import pytest
import tile_programs as programs
from emulation import emulated, generated, kernel_text, relative_error


def _zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def test_threads_that_meet_only_their_own_elements_do_not_wait() -> None:
    assert "__syncthreads" not in kernel_text(generated(programs.own_elements, "sm_80", [_zeros(64, 64)]))


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_and_need_not(schedule: str, require_tool) -> None:  # type: ignore[no-untyped-def]
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
