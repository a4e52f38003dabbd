"""The GEMM cases that the benchmarks measure, by name or as MxNxK."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks.schedules import Problem
from tilegen.errors import TilegenError

Kind = Literal["matmul", "quick_start"]
Layout = Literal["NN", "NT", "TN", "TT"]
LAYOUTS: tuple[Layout, ...] = ("NN", "NT", "TN")
DTYPES = ("float16", "bfloat16")
_DTYPE_NAMES = {"fp16": "float16", "bf16": "bfloat16", "float16": "float16", "bfloat16": "bfloat16"}

SIZES = {
    "square8192": (8192, 8192, 8192),
    "square4096": (4096, 4096, 4096),
    "thin": (8192, 8192, 1024),
    "wide": (4096, 28672, 8192),
    "skinny128": (128, 28672, 8192),
    "skinny16": (16, 28672, 8192),
}
# Sizes that no schedule was ever tuned for: the default schedule is held against the search there.
UNSEEN = (
    (3072, 5120, 2560),
    (5000, 7000, 3000),
    (1536, 8960, 1536),
    (6144, 1024, 4096),
    (2560, 9728, 2560),
    (1000, 1000, 10000),
    (16, 4096, 14336),
    (64, 4096, 4096),
    (256, 4096, 4096),
    (512, 512, 16384),
    (512, 2048, 8192),
)


class UnknownCase(TilegenError):
    """A case, dtype or layout that there is not."""


@dataclass(frozen=True, slots=True)
class GemmCase:
    """One product C = op(A) · op(B) (`layout`: T where an operand is stored transposed), for one target's file.

    `bar` is the least ratio to cuBLAS that the case must reach; `compare_default` times the default schedule too.
    """

    problem: Problem
    dtype: str = "float16"
    layout: Layout = "NN"
    kind: Kind = "matmul"
    target: str = "sm_90a"
    bar: float = 0.0
    compare_default: bool = False

    @property
    def name(self) -> str:
        size = f"{self.problem.M}x{self.problem.N}x{self.problem.K}"
        short = {"float16": "fp16", "bfloat16": "bf16"}[self.dtype]
        kind = " quick start" if self.kind == "quick_start" else ""
        target = "" if self.target == "sm_90a" else f" {self.target}"
        return f"{size} {short} {self.layout}{kind}{target}"

    @property
    def transposes(self) -> tuple[bool, bool]:
        return self.layout[0] == "T", self.layout[1] == "T"

    @property
    def stored(self) -> Problem:
        """The problem with its layout, for the model of schedules."""
        return replace(self.problem, transpose_A=self.transposes[0], transpose_B=self.transposes[1])

    @property
    def stored_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of A and B as they lie in memory."""
        m, n, k = self.problem.M, self.problem.N, self.problem.K
        transpose_a, transpose_b = self.transposes
        return (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)

    @property
    def flops(self) -> int:
        return 2 * self.problem.M * self.problem.N * self.problem.K

    def specs(self) -> tuple[Any, Any]:
        """The tensors for `emit`."""
        import tilegen.language as T

        a, b = self.stored_shapes
        return T.Tensor(a, self.dtype), T.Tensor(b, self.dtype)

    def fixed_parameters(self) -> dict[str, Any]:
        """The parameters of `kernels.matmul` that are no schedule."""
        if self.kind == "quick_start":
            return {}
        transpose_a, transpose_b = self.transposes
        return {
            "dtype": self.dtype,
            "out_dtype": self.dtype,
            "transpose_A": transpose_a,
            "transpose_B": transpose_b,
        }


def acceptance_cases(
    dtypes: tuple[str, ...] = DTYPES, layouts: tuple[Layout, ...] = LAYOUTS
) -> list[GemmCase]:
    """Every case that issue 2's table names, the most telling first."""
    large = [SIZES[name] for name in ("square8192", "square4096", "thin", "wide")]
    cases = []
    for dtype in dtypes:
        for layout in layouts:
            cases += [GemmCase(Problem(*size), dtype, layout, bar=0.99) for size in large]
    cases += [GemmCase(Problem(*SIZES[name]), bar=1.0) for name in ("skinny128", "skinny16")]
    cases.append(GemmCase(Problem(*SIZES["square8192"]), kind="quick_start", bar=0.85))
    cases += [
        GemmCase(Problem(*SIZES[name]), target="sm_80", bar=0.6) for name in ("square4096", "square8192")
    ]
    cases += [GemmCase(Problem(*size), compare_default=True) for size in UNSEEN]
    return cases


def parse_size(text: str) -> Problem:
    """A size's name, or MxNxK.

    Raises:
        UnknownCase: for anything else.
    """
    if text in SIZES:
        return Problem(*SIZES[text])
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if match is None:
        raise UnknownCase(
            f"'{text}' is no case\n  remedy: name one of {', '.join(SIZES)}, or give a size as 4096x4096x1024"
        )
    return Problem(*(int(extent) for extent in match.groups()))


def parse_dtypes(text: str) -> tuple[str, ...]:
    """ "fp16,bf16" as dtypes.

    Raises:
        UnknownCase: for other names.
    """
    names = text.split(",")
    unknown = [name for name in names if name not in _DTYPE_NAMES]
    if unknown:
        raise UnknownCase(f"'{unknown[0]}' is no element type of this benchmark\n  remedy: fp16 or bf16")
    return tuple(_DTYPE_NAMES[name] for name in names)


def parse_layouts(text: str) -> tuple[Layout, ...]:
    """ "NN,NT,TN" as layouts.

    Raises:
        UnknownCase: for other names.
    """
    known: dict[str, Layout] = {"NN": "NN", "NT": "NT", "TN": "TN", "TT": "TT"}
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownCase(f"'{unknown[0]}' is no layout\n  remedy: NN, NT, TN or TT (T: stored transposed)")
    return tuple(known[name] for name in names)
