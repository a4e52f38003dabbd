"""Gemms on Hopper's warpgroup instructions: A from shared memory or registers, B from shared memory.

Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tilegen.atoms import MmaOperand
from tilegen.inference.atoms import shifted, thread_modes, value_modes
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.exchanged import exchanged
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.k_sharing import cannot_share, part_counts
from tilegen.inference.operand_parts import shared_parts
from tilegen.ir.nodes import Gemm
from tilegen.target import Target

ROWS = 64  # of every atom
DEPTH = 16  # of every atom with 16-bit operands
ROW = 16  # elements of the narrowest swizzle, 32 bytes


def why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    """Why the instruction cannot compute this gemm; None when it can."""
    reason = _why_not(gemm, threads, target)
    if reason is None or _exchanges(gemm, threads, target):
        return None
    return reason


def _exchanges(gemm: Gemm, threads: int, target: Target) -> bool:
    """Whether the operands change places: for tiles of more than 64 rows, but not of whole 64s. (Fewer rows wait for
    memory, and the instructions of single warps keep up with it.)"""
    m = gemm.extents[0]
    if m < ROWS or m % ROWS == 0 or _why_not(exchanged(gemm), threads, target) is not None:
        return False
    return gemm.a.buffer.scope == gemm.b.buffer.scope == "shared"


def _why_not(gemm: Gemm, threads: int, target: Target) -> str | None:
    if not target.has("wgmma"):
        return f"{target.name} has no wgmma"
    m, n, k = gemm.extents
    size = target.limits.warpgroup_size
    if threads % size:
        return f"{threads} threads are not whole warpgroups of {size}"
    if m % ROWS:
        return f"wgmma computes {ROWS} rows at once, the tile has {m}"
    if k % DEPTH:
        return f"wgmma multiplies {DEPTH} columns at once, the tile has {k}"
    if gemm.b.buffer.scope != "shared":
        return "wgmma reads B from shared memory"
    if parts := shared_parts(gemm):
        return f"wgmma reads whole shared tiles, not a part of {parts[0].buffer.name}"
    if not gemm.transpose_b and n % ROW:
        return f"wgmma reads rows of B of whole {ROW} elements, the tile has {n}"
    if not any(atom.capability == "wgmma" for atom in target.mma_atoms_for(*gemm.dtypes)):
        a, b, c = gemm.dtypes
        return f"wgmma has no form for {a} * {b} -> {c}"
    if _partition(gemm, threads // size, target) is None:
        most = _most_columns(gemm, threads, target)
        if most < 256 and _partition(gemm, threads // size, target, 256) is not None:
            given = _launch_registers(threads, target)
            return f"{given} registers, which {threads} threads get at launch, hold the sums of {most} columns at most"
        return cannot_share(gemm, threads // size, "warpgroups")
    return None


def _launch_registers(threads: int, target: Target) -> int:
    """What every thread gets, of those that compute and a producer's: ptxas must fit each instruction in it, whatever
    setmaxnreg moves from one to the other later."""
    limits = target.limits
    block = min(threads + limits.warpgroup_size, limits.threads_per_block)
    step = limits.register_granularity
    return min(limits.registers_per_multiprocessor // block // step * step, limits.registers_per_thread)


def _most_columns(gemm: Gemm, threads: int, target: Target) -> int:
    """Of an instruction whose accumulators a thread can hold."""
    bits = ROWS * gemm.c.buffer.dtype.bits  # of a column
    free = _launch_registers(threads, target) - _beside(gemm, target)
    return free * 32 * target.limits.warpgroup_size // bits


def _beside(gemm: Gemm, target: Target) -> int:
    """Registers that ptxas wants beside an instruction's accumulators."""
    bits = ROWS * DEPTH * gemm.a.buffer.dtype.bits if gemm.a.buffer.scope == "fragment" else 0
    assert target.wgmma is not None
    return target.wgmma.registers_beside + bits // (32 * target.limits.warpgroup_size)


def least_registers(gemm: Gemm, decision: GemmDecision, target: Target) -> int:
    """Registers a thread at launch without which ptxas refuses the instruction of a gemm."""
    rows, columns, _ = decision.instruction
    sums = rows * columns * gemm.c.buffer.dtype.bits // (32 * target.limits.warpgroup_size)
    return sums + _beside(gemm, target)


def _partition(
    gemm: Gemm, warpgroups: int, target: Target, most: int | None = None
) -> tuple[int, int, int] | None:
    """(warpgroups along m, along n, parts of k): as the policy says where the tile allows it, rows first otherwise."""
    most = most or min(256, _most_columns(gemm, warpgroups * target.limits.warpgroup_size, target))
    for parts in part_counts(gemm, warpgroups, DEPTH, target):
        found = _of_tile(gemm, warpgroups // parts, most)
        if found is not None:
            return *found, parts
    return None


def _of_tile(gemm: Gemm, warpgroups: int, most: int) -> tuple[int, int] | None:
    """(warpgroups along m, along n) of those that have the same part of k, of `most` columns each."""
    m, n, _ = gemm.extents
    group = 64 if n % 64 == 0 else 32 if n % 32 == 0 else 16 if n % 16 == 0 else 8

    def legal(along_m: int) -> bool:
        along_n = warpgroups // along_m
        return (
            warpgroups % along_m == 0
            and m % (ROWS * along_m) == 0
            and n % (8 * along_n) == 0
            and n // along_n <= most
            and (along_n == 1 or n // along_n % group == 0)
        )

    down = [along_m for along_m in range(warpgroups, 0, -1) if legal(along_m)]
    if not down:
        return None
    along_m = down[-1] if gemm.policy == "full_col" else down[0]
    return along_m, warpgroups // along_m


def decide(gemm: Gemm, threads: int, target: Target) -> GemmDecision:
    """The decision for a gemm that `why_not` has nothing against."""
    if _exchanges(gemm, threads, target):
        decision = _decide(exchanged(gemm), threads, target)
        return replace(decision, c=decision.c.turned(), exchanged=True)
    return _decide(gemm, threads, target)


def _decide(gemm: Gemm, threads: int, target: Target) -> GemmDecision:
    m, n, k = gemm.extents
    partition = _partition(gemm, threads // target.limits.warpgroup_size, target)
    assert partition is not None
    along_m, along_n, parts = partition
    rows, columns, own_k = m // along_m, n // along_n, k // parts
    source: Literal["shared", "register"] = "shared" if gemm.a.buffer.scope == "shared" else "register"
    atom = next(
        atom
        for atom in target.mma_atoms_for(*gemm.dtypes)
        if atom.capability == "wgmma" and atom.n == columns and atom.a.source == source
    )

    def fragment(tile: tuple[int, int], operand: MmaOperand, along_k: int) -> Fragment:
        """The fragment of A (of so many steps along k) or of C (of none)."""
        threads = shifted(thread_modes(operand.layout, ROWS), along_m, (rows, 0))
        threads = shifted(threads, along_n, (0, 0 if along_k else columns))
        threads = shifted(threads, parts, (0, own_k if along_k else 0))
        values = shifted(value_modes(operand.layout, ROWS), along_k, (0, atom.k))
        repeats = rows // ROWS
        return Fragment(tile, threads, ((Mode(repeats, (ROWS, 0)),), values) if repeats > 1 else (values,))

    a = None
    if source == "register":
        a = fragment((m, k), atom.a, own_k // atom.k)
        a = a.turned() if gemm.transpose_a else a
    return GemmDecision(
        family="wgmma",
        atom=atom.name,
        instruction=atom.shape,
        warps=(along_m, along_n),
        repeats=(rows // ROWS, 1),
        k_extent=own_k,
        a_source=source,
        b_source="shared",
        a_major="MN" if gemm.transpose_a else "K",
        b_major="K" if gemm.transpose_b else "MN",
        c=fragment((m, n), atom.c, 0),
        a=a,
        k_parts=parts,
    )
