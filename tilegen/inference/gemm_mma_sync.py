"""Gemms on warp instructions (Ampere and later): both operands in registers, read from shared memory by ldmatrix.

Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
"""

from __future__ import annotations

from tilegen.inference.atoms import shifted, thread_modes, value_modes
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.k_sharing import cannot_share, part_counts
from tilegen.ir.nodes import Gemm
from tilegen.target import Target

ROWS, COLUMNS, DEPTH = 16, 8, 16  # of the atom
PAIR = 2 * COLUMNS  # columns of B that one ldmatrix.x4 reads
PART_COLUMNS = 8  # of a row that ldmatrix reads at once


def why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    """Why the instruction cannot compute this gemm; None when it can."""
    if not target.has("mma_sync"):
        return f"{target.name} has no mma.sync"
    k = gemm.extents[2]
    if threads % target.limits.warp_size:
        return f"{threads} threads are not whole warps"
    if k % DEPTH:
        return f"mma.sync multiplies {DEPTH} columns at once, the tile has {k}"
    dtypes = gemm.a.buffer.dtype.name, gemm.b.buffer.dtype.name, gemm.c.buffer.dtype.name
    if not any(atom.shape == (ROWS, COLUMNS, DEPTH) for atom in target.mma_atoms_for(*dtypes)):
        return f"mma.sync has no form for {dtypes[0]} * {dtypes[1]} -> {dtypes[2]}"
    if _partition(gemm, threads // target.limits.warp_size, target) is None:
        return cannot_share(gemm, threads // target.limits.warp_size, "warps")
    return None


def _partition(gemm: Gemm, warps: int, target: Target) -> tuple[int, int, int] | None:
    """(warps along m, along n, parts of k)."""
    for parts in part_counts(gemm, warps, DEPTH, target):
        found = _of_tile(gemm, warps // parts)
        if found is not None:
            return *found, parts
    return None


def _of_tile(gemm: Gemm, warps: int) -> tuple[int, int] | None:
    """(warps along m, along n) of those that have the same part of k: as the policy says, otherwise the split that
    reads the fewest operand bytes."""
    m, n, _ = gemm.extents
    columns = COLUMNS if gemm.b.buffer.scope == "fragment" else PAIR
    legal = [
        (down, warps // down)
        for down in range(1, warps + 1)
        if warps % down == 0 and m % (ROWS * down) == 0 and n % (columns * (warps // down)) == 0
    ]
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
    own_k = k // parts
    rows, columns = m // along_m, n // along_n
    dtypes = gemm.a.buffer.dtype.name, gemm.b.buffer.dtype.name, gemm.c.buffer.dtype.name
    atom = next(a for a in target.mma_atoms_for(*dtypes) if a.shape == (ROWS, COLUMNS, DEPTH))

    def across(modes: tuple[Mode, ...], *steps: tuple[int, int]) -> tuple[Mode, ...]:
        """The modes, and those of warps along m, along n, and along k."""
        for extent, step in zip((along_m, along_n, parts), steps, strict=True):
            modes = shifted(modes, extent, step)
        return modes

    c = Fragment(
        (m, n),
        across(thread_modes(atom.c.layout, ROWS), (rows, 0), (0, columns), (0, 0)),
        (
            (Mode(rows // ROWS, (ROWS, 0)),),
            (Mode(columns // COLUMNS, (0, COLUMNS)),),
            value_modes(atom.c.layout, ROWS),
        ),
    )
    a = b = None
    if gemm.a.buffer.scope == "fragment":
        a = Fragment(
            (m, k),
            across(thread_modes(atom.a.layout, ROWS), (rows, 0), (0, 0), (0, own_k)),
            (
                (Mode(rows // ROWS, (ROWS, 0)),),
                (Mode(own_k // DEPTH, (0, DEPTH)),),
                value_modes(atom.a.layout, ROWS),
            ),
        )
        a = a.turned() if gemm.transpose_a else a
    if gemm.b.buffer.scope == "fragment":
        b = Fragment(  # the atom's B is (n, k)
            (n, k),
            across(thread_modes(atom.b.layout, COLUMNS), (0, 0), (columns, 0), (0, own_k)),
            (
                (Mode(own_k // DEPTH, (0, DEPTH)),),
                (Mode(columns // COLUMNS, (COLUMNS, 0)),),
                value_modes(atom.b.layout, COLUMNS),
            ),
        )
        b = b if gemm.transpose_b else b.turned()
    return GemmDecision(
        family="mma_sync",
        atom=atom.name,
        instruction=atom.shape,
        warps=(along_m, along_n),
        repeats=(rows // ROWS, columns // COLUMNS),
        k_extent=own_k,
        a_source="register" if a is not None else "shared",
        b_source="register" if b is not None else "shared",
        a_major="MN" if gemm.transpose_a else "K",
        b_major="K" if gemm.transpose_b else "MN",
        c=c,
        a=a,
        b=b,
        k_parts=parts,
    )
