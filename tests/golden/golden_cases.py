"""What the golden files hold: the quick start, attention and a product whose k blocks share, for every target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.emission import Emission

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
TARGETS = ("sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950")


@dataclass(frozen=True, slots=True)
class Case:
    """One golden file: a kernel of an example, the shapes that are compiled in, and its parameters."""

    name: str
    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    parameters: tuple[tuple[str, Any], ...] = ()

    def file(self, target: str) -> Path:
        return FOLDER / f"{self.name}.{target}.{'hip' if target.startswith('gfx') else 'cu'}"


MATMUL = Case("matmul_relu", "examples/matmul.py:matmul_relu", ((4096, 4096), (4096, 4096)))
ATTENTION = Case(
    "attention",
    "examples/attention.py:attention",
    ((4, 4096, 32, 128), (4, 4096, 32, 128), (4, 4096, 32, 128)),
    (("causal", True),),
)
SPLIT_K = Case("matmul_split_k", "examples/split_k.py:matmul_split_k", ((16, 14336), (14336, 4096)))
CASES = (MATMUL, ATTENTION, SPLIT_K)


@cache
def emitted(case: Case, target: str) -> Emission:
    """The files of a case as they are emitted now."""
    specs = [T.Tensor(shape, T.float16) for shape in case.shapes]
    return load_kernel(str(ROOT / case.kernel)).emit(*specs, target=target, **dict(case.parameters))
