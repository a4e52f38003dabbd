"""Gemms on CDNA's matrix cores (v_mfma): which instruction, and which wave computes what.

A and B come from shared memory or from registers. Source: CDNA3 ISA, "Matrix Arithmetic Instructions".
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.atoms import MmaAtom
from tilegen.inference.decisions import GemmDecision, Major
from tilegen.inference.k_sharing import cannot_share, part_counts
from tilegen.inference.lds_layout import operand_conflicts, operand_layout, operand_transfer
from tilegen.inference.mfma_operands import WIDE, accumulator_fragment, lane_k, operand_fragment, step_k
from tilegen.ir.nodes import Gemm
from tilegen.target import Target

__all__ = [
    "READS_ANY_LAYOUT",
    "decide",
    "lane_k",
    "operand_conflicts",
    "operand_fragment",
    "operand_layout",
    "operand_transfer",
    "step_k",
    "why_not",
]


LEAST_DEPTH = 8  # of the instructions
READS_ANY_LAYOUT = True  # lanes address LDS themselves, if element by element


def why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    """Why the instruction cannot compute this gemm; None when it can."""
    if not target.has("mfma"):
        return f"{target.name} has no mfma"
    size = target.limits.warp_size
    if threads % size:
        return f"{threads} threads are not whole waves of {size}"
    for name, operand in (("A", gemm.a), ("B", gemm.b)):
        if operand.buffer.scope not in ("shared", "fragment"):
            return f"mfma reads {name} from shared memory or registers"
    if not any(atom.capability == "mfma" for atom in target.mma_atoms_for(*gemm.dtypes)):
        a, b, c = gemm.dtypes
        return f"mfma has no form for {a} * {b} -> {c}"
    m, n, k = gemm.extents
    if k % LEAST_DEPTH:
        return f"mfma multiplies {LEAST_DEPTH} columns at once, the tile has {k}"
    choice = _choice(gemm, threads, target)
    if choice is None:
        if gemm.policy == "sliced_k":
            return cannot_share(gemm, threads // size, "waves")
        return (
            f"{threads // size} waves cannot share a tile of {m} x {n} x {k} in blocks of 32 x 32 or 16 x 16"
        )
    sums, limit = m * n * choice[2] // threads, target.limits.accumulation_registers_per_thread
    if sums > limit:
        return f"the tile takes {sums} accumulation registers of each thread, there are {limit}; use more threads"
    return None


def decide(gemm: Gemm, threads: int, target: Target) -> GemmDecision:
    """The decision for a gemm that `why_not` has nothing against."""
    choice = _choice(gemm, threads, target)
    assert choice is not None
    atom, waves, parts = choice
    m, n, k = gemm.extents
    a_major: Major = "MN" if gemm.transpose_a else "K"
    b_major: Major = "K" if gemm.transpose_b else "MN"
    decision = GemmDecision(
        family="mfma",
        atom=atom.name,
        instruction=atom.shape,
        warps=waves,
        repeats=(m // (waves[0] * atom.m), n // (waves[1] * atom.n)),
        k_extent=k // parts,
        a_source="shared",
        b_source="shared",
        a_major=a_major,
        b_major=b_major,
        c=accumulator_fragment(atom.m, (m, n), waves, parts),
        k_parts=parts,
    )
    if gemm.a.buffer.scope == "fragment":
        a = operand_fragment(decision, "a")
        decision = replace(decision, a_source="register", a=a.turned() if gemm.transpose_a else a)
    if gemm.b.buffer.scope == "fragment":
        b = operand_fragment(decision, "b")
        decision = replace(decision, b_source="register", b=b if gemm.transpose_b else b.turned())
    return decision


def _choice(gemm: Gemm, threads: int, target: Target) -> tuple[MmaAtom, tuple[int, int], int] | None:
    """The instruction, the waves (along m, along n), and the parts of k."""
    waves = threads // target.limits.warp_size
    for parts in part_counts(gemm, waves, LEAST_DEPTH, target):
        found = _of_tile(gemm, waves // parts, gemm.extents[2] // parts, target)
        if found is not None:
            return *found, parts
    return None


def _of_tile(gemm: Gemm, waves: int, k: int, target: Target) -> tuple[MmaAtom, tuple[int, int]] | None:
    """The instruction and the waves (along m, along n) that have the same `k`: as the policy says where the tile allows
    it, a larger block before a smaller one (it reads fewer operands), then the fewest operand bytes.

    An A operand in registers wants all waves along m: they would hold copies of it otherwise.
    """
    m, n, _ = gemm.extents
    rows_first = gemm.policy == "full_row" or gemm.a.buffer.scope != "shared"
    best: tuple[tuple[int, ...], MmaAtom, tuple[int, int]] | None = None
    for atom in target.mma_atoms_for(*gemm.dtypes):
        groups = target.limits.warp_size // atom.m
        wide = k % (WIDE * groups) == 0
        if atom.capability != "mfma" or not (wide or (atom.k < WIDE * groups and k % atom.k == 0)):
            continue
        for along_m in range(1, waves + 1):
            along_n = waves // along_m
            if waves % along_m or m % (atom.m * along_m) or n % (atom.n * along_n):
                continue
            asked = along_m if rows_first else along_n if gemm.policy == "full_col" else 0
            cost = (-asked, -atom.m, m // along_m + n // along_n, abs(along_m - along_n), along_n)
            if best is None or cost < best[0]:
                best = (cost, atom, (along_m, along_n))
    return best[1:] if best is not None else None
