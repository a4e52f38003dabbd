"""The benchmarks by name, with their cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import attention, dequant_gemm, row_kernels, transpose
from benchmarks.own import EXAMPLES
from benchmarks.runner import Case


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark of examples: its cases, what measures one, and the examples that it needs."""

    name: str
    cases: Sequence[Case]
    function: Callable[..., Any]
    examples: tuple[str, ...]

    def missing(self) -> list[str]:
        """The examples that are not in the repository."""
        return [name for name in self.examples if not (EXAMPLES / f"{name}.py").is_file()]


BENCHMARKS = (
    Benchmark("attention", attention.CASES, attention.run_case, ("attention",)),
    Benchmark("row_kernels", row_kernels.CASES, row_kernels.run_case, ("softmax", "rms_norm", "layer_norm")),
    Benchmark("dequant_gemm", dequant_gemm.CASES, dequant_gemm.run_case, ("dequant_gemm",)),
    Benchmark("transpose", transpose.CASES, transpose.run_case, ("transpose",)),
)
