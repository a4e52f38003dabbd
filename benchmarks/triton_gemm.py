"""Matrix products in Triton: the peer that a Python user would write instead.

A persistent kernel over TMA descriptors for operands whose rows are multiples of 16 bytes, and a plain one over
pointers for the others and for products with few rows.
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

_TMA_BYTES = 16


@triton.jit
def _tile(index, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Walks panels of GROUP tile rows, column by column."""
    panel = index // (GROUP * tiles_n)
    first = panel * GROUP
    rows = min(tiles_m - first, GROUP)
    local = index - panel * GROUP * tiles_n
    return first + local % rows, local // rows


@triton.jit
def _persistent(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    TRANSPOSE_A: tl.constexpr, TRANSPOSE_B: tl.constexpr, HALVES: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for index in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        m, n = _tile(index, tiles_m, tiles_n, GROUP)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            if TRANSPOSE_A:  # noqa: SIM108 (Triton compiles the one branch that is taken)
                left = a.load([k * BLOCK_K, m * BLOCK_M]).T
            else:
                left = a.load([m * BLOCK_M, k * BLOCK_K])
            if TRANSPOSE_B:  # noqa: SIM108
                right = b.load([n * BLOCK_N, k * BLOCK_K]).T
            else:
                right = b.load([k * BLOCK_K, n * BLOCK_N])
            sums = tl.dot(left, right, sums)
        if HALVES:
            both = tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            one, other = tl.split(both)
            c.store([m * BLOCK_M, n * BLOCK_N], one.to(c.dtype))
            c.store([m * BLOCK_M, n * BLOCK_N + BLOCK_N // 2], other.to(c.dtype))
        else:
            c.store([m * BLOCK_M, n * BLOCK_N], sums.to(c.dtype))


@triton.jit
def _plain(
    a, b, c, M, N, K, a_row, a_column, b_row, b_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m, n = _tile(tl.program_id(0), tiles_m, tiles_n, GROUP)
    rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    left = a + (rows % M)[:, None] * a_row + depth[None, :] * a_column
    right = b + depth[:, None] * b_row + (columns % N)[None, :] * b_column
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        inside = depth < K - k * BLOCK_K
        sums = tl.dot(
            tl.load(left, mask=inside[None, :], other=0.0),
            tl.load(right, mask=inside[:, None], other=0.0),
            sums,
        )
        left += BLOCK_K * a_column
        right += BLOCK_K * b_row
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(c.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the peer's search tries."""

    block_M: int
    block_N: int
    block_K: int
    stages: int
    warps: int
    halves: bool = False
    persistent: bool = True

    def __str__(self) -> str:
        kind = ("persistent halves" if self.halves else "persistent") if self.persistent else "grid"
        return f"{self.block_M}x{self.block_N}x{self.block_K} s{self.stages} w{self.warps} {kind}"


_LARGE = (
    Configuration(128, 256, 64, 3, 8),
    Configuration(128, 256, 64, 3, 8, halves=True),
    Configuration(128, 256, 64, 4, 8, halves=True),
    Configuration(256, 128, 64, 3, 8),
    Configuration(128, 128, 64, 4, 8),
    Configuration(128, 128, 64, 4, 4),
    Configuration(128, 256, 64, 3, 8, persistent=False),
    Configuration(128, 128, 64, 4, 4, persistent=False),
)
_FEW_ROWS = (
    Configuration(64, 256, 64, 4, 4),
    Configuration(64, 128, 128, 4, 4),
    Configuration(64, 128, 64, 6, 4, persistent=False),
    Configuration(16, 128, 128, 4, 4, persistent=False),
    Configuration(16, 64, 256, 4, 4, persistent=False),
    Configuration(16, 256, 64, 5, 8, persistent=False),
)
_SOME_ROWS = (Configuration(128, 128, 64, 4, 4), Configuration(128, 128, 128, 3, 8), *_FEW_ROWS[:3])


def configurations(rows: int, strided: bool = True) -> tuple[Configuration, ...]:
    """The configurations for a product with so many rows; `strided` if TMA can read the operands."""
    found = _FEW_ROWS if rows <= 64 else _SOME_ROWS if rows <= 256 else _LARGE
    return tuple(c for c in found if strided or not c.persistent)


def readable_by_tma(*tensors: Any) -> bool:
    """Whether all rows begin at multiples of 16 bytes."""
    return all(t.stride(0) * t.element_size() % _TMA_BYTES == 0 for t in tensors)


def launcher(
    a: Any, b: Any, c: Any, transpose_a: bool, transpose_b: bool, configuration: Configuration
) -> Callable[[], Any]:
    """A launch of C = op(A) · op(B) on the stored operands."""
    rows, columns = c.shape
    depth = a.shape[0] if transpose_a else a.shape[1]
    if configuration.persistent:
        return _persistent_launcher(a, b, c, transpose_a, transpose_b, depth, configuration)
    a_strides = (a.stride(1), a.stride(0)) if transpose_a else (a.stride(0), a.stride(1))
    b_strides = (b.stride(1), b.stride(0)) if transpose_b else (b.stride(0), b.stride(1))
    tiles = triton.cdiv(rows, configuration.block_M) * triton.cdiv(columns, configuration.block_N)

    def run() -> None:
        _plain[(tiles,)](
            a, b, c, rows, columns, depth, *a_strides, *b_strides,
            BLOCK_M=configuration.block_M, BLOCK_N=configuration.block_N, BLOCK_K=configuration.block_K,
            GROUP=8, num_stages=configuration.stages, num_warps=configuration.warps,
        )  # fmt: skip

    return run


def _persistent_launcher(
    a: Any, b: Any, c: Any, transpose_a: bool, transpose_b: bool, depth: int, configuration: Configuration
) -> Callable[[], Any]:
    block_m, block_n, block_k = configuration.block_M, configuration.block_N, configuration.block_K
    rows, columns = c.shape
    tiles = triton.cdiv(rows, block_m) * triton.cdiv(columns, block_n)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    left = TensorDescriptor.from_tensor(a, [block_k, block_m] if transpose_a else [block_m, block_k])
    right = TensorDescriptor.from_tensor(b, [block_n, block_k] if transpose_b else [block_k, block_n])
    out = TensorDescriptor.from_tensor(c, [block_m, block_n // 2 if configuration.halves else block_n])

    def run() -> None:
        _persistent[(min(programs, tiles),)](
            left, right, out, rows, columns, depth,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8,
            TRANSPOSE_A=transpose_a, TRANSPOSE_B=transpose_b, HALVES=configuration.halves, PROGRAMS=programs,
            num_stages=configuration.stages, num_warps=configuration.warps,
        )  # fmt: skip

    return run


def warm(dtype: str, transpose_a: bool, transpose_b: bool, rows: int, position: int) -> str:
    """Compiles one configuration into Triton's cache by running it on a small product; returns what went wrong."""
    configuration = configurations(rows)[position]
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (
        torch.randn((512, 512), generator=generator, device="cuda").to(getattr(torch, dtype)) for _ in "ab"
    )
    try:
        launcher(a, b, torch.empty_like(a), transpose_a, transpose_b, configuration)()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{configuration}: {type(error).__name__}: {error}"[:200]
    return ""


def candidates(
    a: Any, b: Any, c: Any, transpose_a: bool, transpose_b: bool
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes the launch of each configuration."""

    def making(configuration: Configuration) -> Callable[[], Callable[[], Any]]:
        return lambda: launcher(a, b, c, transpose_a, transpose_b, configuration)

    return {str(found): making(found) for found in configurations(c.shape[0], readable_by_tma(a, b, c))}
