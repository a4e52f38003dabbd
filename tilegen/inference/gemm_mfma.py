"""Gemms on CDNA's matrix cores (v_mfma): which instruction, and which wave computes what.

A and B come from shared memory, A from registers too. Source: CDNA3 ISA, "Matrix Arithmetic Instructions".
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.atoms import MmaAtom
from tilegen.inference.decisions import GemmDecision, Major
from tilegen.inference.lds_layout import operand_conflicts, operand_layout, operand_transfer
from tilegen.inference.mfma_operands import WIDE, accumulator_fragment, lane_k, operand_fragment, step_k
from tilegen.ir.nodes import Gemm
from tilegen.target import Target

__all__ = [
    "decide",
    "lane_k",
    "operand_conflicts",
    "operand_fragment",
    "operand_layout",
    "operand_transfer",
    "step_k",
    "why_not",
]


def why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    """Why the instruction cannot compute this gemm; None when it can."""
    if not target.has("mfma"):
        return f"{target.name} has no mfma"
    size = target.limits.warp_size
    if threads % size:
        return f"{threads} threads are not whole waves of {size}"
    if gemm.b.buffer.scope != "shared":
        return "mfma reads B from shared memory"
    if gemm.a.buffer.scope not in ("shared", "fragment"):
        return "mfma reads A from shared memory or registers"
    if gemm.a.buffer.scope != "shared" and gemm.transpose_a:
        return "mfma takes a transposed A only from shared memory"
    dtypes = _dtypes(gemm)
    if not any(atom.capability == "mfma" for atom in target.mma_atoms_for(*dtypes)):
        return f"mfma has no form for {dtypes[0]} * {dtypes[1]} -> {dtypes[2]}"
    m, n, k = gemm.extents
    if k % 8:
        return f"mfma multiplies 8 columns at once, the tile has {k}"
    if _choice(gemm, threads, target) is None:
        return (
            f"{threads // size} waves cannot share a tile of {m} x {n} x {k} in blocks of 32 x 32 or 16 x 16"
        )
    sums, limit = m * n // threads, target.limits.accumulation_registers_per_thread
    if sums > limit:
        return f"the tile takes {sums} accumulation registers of each thread, there are {limit}; use more threads"
    return None


def decide(gemm: Gemm, threads: int, target: Target) -> GemmDecision:
    """The decision for a gemm that `why_not` has nothing against."""
    choice = _choice(gemm, threads, target)
    assert choice is not None
    atom, waves = choice
    m, n, k = gemm.extents
    a_major: Major = "MN" if gemm.transpose_a else "K"
    b_major: Major = "K" if gemm.transpose_b else "MN"
    decision = GemmDecision(
        family="mfma",
        atom=atom.name,
        instruction=atom.shape,
        warps=waves,
        repeats=(m // (waves[0] * atom.m), n // (waves[1] * atom.n)),
        k_extent=k,
        a_source="shared",
        b_source="shared",
        a_major=a_major,
        b_major=b_major,
        c=accumulator_fragment(atom.m, (m, n), waves),
    )
    if gemm.a.buffer.scope == "shared":
        return decision
    return replace(decision, a_source="register", a=operand_fragment(decision, "a"))


def _dtypes(gemm: Gemm) -> tuple[str, str, str]:
    return gemm.a.buffer.dtype.name, gemm.b.buffer.dtype.name, gemm.c.buffer.dtype.name


def _choice(gemm: Gemm, threads: int, target: Target) -> tuple[MmaAtom, tuple[int, int]] | None:
    """The instruction and the waves (along m, along n): the larger block first, as it reads fewer operands."""
    _, _, k = gemm.extents
    atoms = [atom for atom in target.mma_atoms_for(*_dtypes(gemm)) if atom.capability == "mfma"]
    for size in sorted({atom.m for atom in atoms}, reverse=True):
        waves = _partition(gemm, threads // target.limits.warp_size, size)
        if waves is None:
            continue
        groups = target.limits.warp_size // size
        wide = k % (WIDE * groups) == 0
        for atom in atoms:
            if atom.m == size and (wide or (atom.k < WIDE * groups and k % atom.k == 0)):
                return atom, waves
    return None


def _partition(gemm: Gemm, waves: int, size: int) -> tuple[int, int] | None:
    """(waves along m, along n): as the policy says where the tile allows it, else the fewest operand bytes."""
    m, n, _ = gemm.extents
    legal = [
        (along_m, waves // along_m)
        for along_m in range(1, waves + 1)
        if waves % along_m == 0 and m % (size * along_m) == 0 and n % (size * (waves // along_m)) == 0
    ]
    if not legal:
        return None
    if gemm.policy == "full_row" or gemm.a.buffer.scope != "shared":
        return max(legal, key=lambda pair: pair[0])
    if gemm.policy == "full_col":
        return max(legal, key=lambda pair: pair[1])
    return min(legal, key=lambda pair: (m // pair[0] + n // pair[1], abs(pair[0] - pair[1]), pair[1]))
