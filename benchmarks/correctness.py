"""The gate before any timing: results against float64, element by element and in norm, on poisoned outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_MARGIN = 4096  # elements on both sides of an output; a multiple of any alignment
_WHOLE = 1 << 29  # elements up to which a reference covers its whole output
_ROWS = 1024  # rows of a reference that are made at a time


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a right result may be off by.

    `norm` bounds ‖out − ref‖ / ‖ref‖; an element may be off by `relative` · |ref| (twice the output type's rounding)
    plus `absolute` · the root mean square of the reference (the rounding of the sums).
    """

    norm: float
    relative: float
    absolute: float


TOLERANCES = {
    "float16": Tolerance(norm=1e-3, relative=2.0**-10, absolute=1e-3),
    "bfloat16": Tolerance(norm=5e-3, relative=2.0**-7, absolute=1e-3),
    "float32": Tolerance(norm=1e-4, relative=2.0**-16, absolute=1e-3),
}


@dataclass(frozen=True, slots=True)
class Block:
    """The part of an output that `index` selects, as float64."""

    index: tuple[Any, ...]
    values: Any


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a result compares: the relative norm, elements beyond tolerance, elements that are still poison, and whether
    the margins around the output are untouched."""

    norm: float
    mismatches: int
    unwritten: int
    contained: bool
    tolerance: Tolerance

    @property
    def passed(self) -> bool:
        return (
            self.norm <= self.tolerance.norm
            and self.mismatches == 0
            and self.unwritten == 0
            and self.contained
        )

    def __str__(self) -> str:
        text = f"norm {self.norm:.1e}, {self.mismatches} mismatches, {self.unwritten} unwritten"
        return text if self.contained else text + ", written outside"


class Output:
    """A poisoned output with poisoned margins around it; `tensor` is what a kernel writes."""

    def __init__(self, shape: Sequence[int], dtype: Any, device: Any) -> None:
        import torch

        count = math.prod(shape)
        self._whole = torch.empty(count + 2 * _MARGIN, dtype=dtype, device=device)
        self.tensor = self._whole[_MARGIN : _MARGIN + count].view(*shape)
        self.poison()

    def poison(self) -> None:
        """Fills output and margins with NaN."""
        self._whole.fill_(math.nan)

    def contained(self) -> bool:
        """Whether both margins are still poison."""
        inner = self._whole[_MARGIN:-_MARGIN].numel()
        head, tail = self._whole[:_MARGIN], self._whole[_MARGIN + inner :]
        return bool(head.isnan().all()) and bool(tail.isnan().all())


def judge(
    run: Callable[[], Any], output: Output, reference: Sequence[Block], tolerance: Tolerance
) -> Verdict:
    """Poisons the output, runs once and compares. A competitor that makes its own output returns it."""
    output.poison()
    made = run()
    if made is not None and made is not output.tensor:
        output.tensor.copy_(made.view(output.tensor.shape))
    return compare(output, reference, tolerance)


def compare(output: Output, reference: Sequence[Block], tolerance: Tolerance) -> Verdict:
    """Compares an output as it is now with the parts that the reference has; NaN never passes."""
    total = sum(float(block.values.square().sum()) for block in reference)
    count = sum(block.values.numel() for block in reference)
    absolute = tolerance.absolute * math.sqrt(total / count)
    squares, mismatches = 0.0, 0
    for block in reference:
        rows = output.tensor[block.index]
        for first in range(0, rows.shape[0], _ROWS):
            expected = block.values[first : first + _ROWS]
            error = (rows[first : first + _ROWS].double() - expected).abs()
            right = error <= tolerance.relative * expected.abs() + absolute
            mismatches += int((~right).sum())
            squares += float(error.square().sum())
    norm = math.sqrt(squares / total) if total else math.sqrt(squares)
    unwritten = int(output.tensor.isnan().sum())
    return Verdict(norm, mismatches, unwritten, output.contained(), tolerance)


def product(a: Any, b: Any, relu: bool = False, seed: int = 0) -> tuple[Block, ...]:
    """a @ b in float64 for a (M, K) and b (K, N) in any strides: all rows, or 16 random blocks of them where the
    output is too large to keep."""
    import torch

    rows = a.shape[0]
    if rows * b.shape[1] <= _WHOLE:
        starts = list(range(0, rows, _ROWS))
    else:
        generator = torch.Generator().manual_seed(seed)
        starts = sorted({int(s) for s in torch.randint(0, rows - 256, (16,), generator=generator)})
    step = _ROWS if len(starts) * _ROWS >= rows else 256
    wide = b.double()
    blocks = []
    for start in starts:
        values = a[start : start + step].double() @ wide
        blocks.append(
            Block((slice(start, start + values.shape[0]),), values.clamp_(min=0) if relu else values)
        )
    return tuple(blocks)
