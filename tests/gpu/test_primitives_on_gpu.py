"""Device primitives on the GPU against NumPy."""

from __future__ import annotations

import pytest
from probes import all_probes
from record_primitives import run_probe


@pytest.mark.parametrize("name", all_probes())
def test_the_gpu_gives_numpys_answer(on_gpu, name):
    _, agrees = on_gpu(run_probe, name)
    assert agrees
