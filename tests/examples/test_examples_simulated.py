"""Every emitted example for CDNA2 and CDNA3, compiled and run in the ISA simulator: right, and no bank conflict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emission_runner import simulate_emission
from example_cases import arrays, cases, emission, example

STORES_IN_PIECES = ("dequant_gemm",)  # clang 19 cuts stores of four int to LDS in pieces, which conflict


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


@pytest.mark.parametrize(("name", "target"), cases("hip", targets=("gfx90a", "gfx942")))
def test_the_compiled_kernel_is_right(
    require_tool: Callable[[str], None], tmp_path: Path, name: str, target: str
) -> None:
    require_tool("hip")
    require_tool("llvm_objdump")
    inputs = arrays(name, target)
    outputs, report = simulate_emission(emission(name, target), tmp_path, *inputs, order="random", seed=3)
    expected = as_tuple(example(name).expected(inputs, example(name).parameters_for(target)))
    for output, reference in zip(outputs, expected, strict=True):
        difference = output.astype(np.float64) - np.asarray(reference, np.float64)
        assert np.linalg.norm(difference) <= example(name).tolerance * np.linalg.norm(
            np.asarray(reference, np.float64)
        )
    if name in STORES_IN_PIECES:
        assert all(count.conflict_cycles == 0 for kind, count in report.banks.items() if "read" in kind)
    else:
        assert report.bank_conflicts == 0, report.banks
