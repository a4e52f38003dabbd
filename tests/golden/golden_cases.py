"""What the golden files hold: the quick start and attention, for every target."""

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
_NARROW = {"block_N": 64}  # Q, K and V of 128 columns in 64 KiB of LDS, or in 99 KiB with two stages


@dataclass(frozen=True, slots=True)
class Case:
    """One golden file: a kernel of an example, the shapes that are compiled in, and its parameters on each target."""

    name: str
    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    parameters: tuple[tuple[str, Any], ...] = ()
    narrow: tuple[str, ...] = ()  # targets that need smaller tiles

    def file(self, target: str) -> Path:
        return FOLDER / f"{self.name}.{target}.{'hip' if target.startswith('gfx') else 'cu'}"


MATMUL = Case("matmul_relu", "examples/matmul.py:matmul_relu", ((4096, 4096), (4096, 4096)))
ATTENTION = Case(
    "attention",
    "examples/attention.py:attention",
    ((4, 4096, 32, 128), (4, 4096, 32, 128), (4, 4096, 32, 128)),
    (("causal", True),),
    ("sm_89", "gfx90a", "gfx942"),
)
CASES = (MATMUL, ATTENTION)


@cache
def emitted(case: Case, target: str) -> Emission:
    """The files of a case as they are emitted now."""
    specs = [T.Tensor(shape, T.float16) for shape in case.shapes]
    parameters = dict(case.parameters) | (_NARROW if target in case.narrow else {})
    return load_kernel(str(ROOT / case.kernel)).emit(*specs, target=target, **parameters)
