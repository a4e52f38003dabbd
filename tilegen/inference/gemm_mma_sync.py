"""Gemms on warp instructions (Ampere and later): both operands in registers, read from shared memory by ldmatrix.

Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.atoms import MmaOperand
from tilegen.inference.atoms import shifted, thread_modes, value_modes
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.k_sharing import cannot_share, part_counts
from tilegen.ir.nodes import Gemm
from tilegen.target import Target

ROWS, COLUMNS, DEPTH = 16, 8, 16  # of the atom
PAIR = 2 * COLUMNS  # columns of B that one ldmatrix.x4 reads
PART_COLUMNS = 8  # of a row that ldmatrix reads at once
_ATOM = (ROWS, COLUMNS, DEPTH)


def why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    """Why the instruction cannot compute this gemm; None when it can."""
    if not target.has("mma_sync"):
        return f"{target.name} has no mma.sync"
    k = gemm.extents[2]
    if threads % target.limits.warp_size:
        return f"{threads} threads are not whole warps"
    if k % DEPTH:
        return f"mma.sync multiplies {DEPTH} columns at once, the tile has {k}"
    if not any(atom.shape == _ATOM for atom in target.mma_atoms_for(*gemm.dtypes)):
        a, b, c = gemm.dtypes
        return f"mma.sync has no form for {a} * {b} -> {c}"
    if _partition(gemm, threads // target.limits.warp_size, target) is None:
        return cannot_share(gemm, threads // target.limits.warp_size, "warps")
    return None


def _partition(gemm: Gemm, warps: int, target: Target) -> tuple[int, int, int] | None:
    """(warps along m, along n, parts of k); pairs of columns where there is a choice, for one load reads them."""
    for parts in part_counts(gemm, warps, DEPTH, target):
        for columns in (PAIR, COLUMNS):
            found = _of_tile(gemm, warps // parts, columns)
            if found is not None:
                return *found, parts
    return None


def is_last_resort(gemm: Gemm, threads: int, target: Target) -> bool:
    """Whether warps would have odd numbers of tiles of 8 columns, where warps that share k do better if they can: of A
    in registers no two warps need the same part then, and wgmma may be what multiplies."""
    if gemm.b.buffer.scope == "fragment" or not (gemm.a.buffer.scope == "fragment" or target.has("wgmma")):
        return False
    warps = threads // target.limits.warp_size
    counts = part_counts(gemm, warps, DEPTH, target)
    return not any(_of_tile(gemm, warps // parts, PAIR) for parts in counts)


def _of_tile(gemm: Gemm, warps: int, columns: int) -> tuple[int, int] | None:
    """(warps along m, along n) of those that have the same part of k, each with a multiple of `columns`: as the policy
    says, otherwise the split that reads the fewest operand bytes."""
    m, n, _ = gemm.extents
    splits = [(down, warps // down) for down in range(1, warps + 1) if warps % down == 0]
    legal = [(down, along) for down, along in splits if not (m % (ROWS * down) or n % (columns * along))]
    if not legal:
        return None
    match gemm.policy:
        case "full_row":
            return legal[-1]
        case "full_col":
            return legal[0]
        case "square" | "sliced_k":
            # A register A operand stays where its producer left it: whole rows in one warp.
            if gemm.a.buffer.scope == "fragment":
                return legal[-1]
            return min(legal, key=lambda split: (m // split[0] + n // split[1], split[1]))


def decide(gemm: Gemm, threads: int, target: Target) -> GemmDecision:
    """The decision for a gemm that `why_not` has nothing against."""
    m, n, k = gemm.extents
    partition = _partition(gemm, threads // target.limits.warp_size, target)
    assert partition is not None
    along_m, along_n, parts = partition
    atom = next(a for a in target.mma_atoms_for(*gemm.dtypes) if a.shape == _ATOM)
    own = _Tiles(partition, (m // along_m, n // along_n, k // parts))
    a = own.fragment((m, k), atom.a, (0, 2)) if gemm.a.buffer.scope == "fragment" else None
    b = own.fragment((n, k), atom.b, (1, 2)) if gemm.b.buffer.scope == "fragment" else None
    if a is not None and gemm.transpose_a:
        a = a.turned()
    if b is not None and not gemm.transpose_b:  # the atom's B is (n, k)
        b = b.turned()
    return GemmDecision(
        family="mma_sync",
        atom=atom.name,
        instruction=atom.shape,
        warps=(along_m, along_n),
        repeats=(own.extents[0] // ROWS, own.extents[1] // COLUMNS),
        k_extent=own.extents[2],
        a_source="register" if a is not None else "shared",
        b_source="register" if b is not None else "shared",
        a_major="MN" if gemm.transpose_a else "K",
        b_major="K" if gemm.transpose_b else "MN",
        c=own.fragment((m, n), atom.c, (0, 1)),
        a=a,
        b=b,
        k_parts=parts,
    )


@dataclass(frozen=True, slots=True)
class _Tiles:
    """How a tile is cut along (m, n, k): into `parts`, one a warp, of `extents` elements each."""

    parts: tuple[int, int, int]
    extents: tuple[int, int, int]

    def fragment(self, tile: tuple[int, int], operand: MmaOperand, axes: tuple[int, int]) -> Fragment:
        """The fragment of an operand whose rows and columns lie along these `axes` of (m, n, k)."""
        rows, columns = (_ATOM[axis] for axis in axes)
        threads = thread_modes(operand.layout, rows)
        for axis, count in enumerate(self.parts):
            steps = [self.extents[axis] if axis == own else 0 for own in axes]
            threads = shifted(threads, count, (steps[0], steps[1]))
        down = Mode(self.extents[axes[0]] // rows, (rows, 0))
        across = Mode(self.extents[axes[1]] // columns, (0, columns))
        # B's registers go along k first: a step of k reads its own.
        repeats = ((across,), (down,)) if axes == (1, 2) else ((down,), (across,))
        return Fragment(tile, threads, (*repeats, value_modes(operand.layout, rows)))
