"""Device primitives in the emulator against NumPy, and NumPy against what a GPU gave (see record_primitives.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from probes import all_probes, on_emulator, poison

RECORD = Path(__file__).parent / "data" / "primitives.npz"
PROBES = all_probes()


def same(result, expected):
    """Bit by bit, but for elements that nothing writes (NaN in the expected values)."""
    if result.shape != expected.shape:
        return False
    if expected.dtype.name == "bfloat16":
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    if expected.dtype.kind == "f":
        written = ~np.isnan(expected)
        return bool(np.array_equal(result[written], expected[written]))
    return bool(np.array_equal(result, expected))


@pytest.mark.parametrize("name", PROBES)
def test_the_emulator_gives_numpys_answer(require_tool, name):
    require_tool("host_compiler")
    probe = PROBES[name]()
    assert same(on_emulator(probe, schedule="random", asynchronous="random", seed=3), probe.expected)


@pytest.mark.parametrize("name", PROBES)
def test_what_nothing_writes_has_all_bits_set_in_any_type(name):
    last = PROBES[name]().manifest.tensors[-1]
    shape = tuple(map(int, last.shape))
    array = poison(shape, last.dtype)
    assert array.shape == shape and array.dtype == last.dtype
    assert set(array.tobytes()) == {0xFF}


@pytest.mark.parametrize("name", PROBES)
def test_the_recorded_device_gives_numpys_answer(name):
    if not RECORD.is_file():
        pytest.skip("nothing was recorded: run tests/gpu/record_primitives.py on a machine with a Hopper GPU")
    with np.load(RECORD) as record:
        assert same(record[name], PROBES[name]().expected)
