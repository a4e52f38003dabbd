"""Chooses the matrix instructions of each gemm, and fixes the layouts that they demand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions, GemmDecision
from tilegen.inference.fragment import Fragment
from tilegen.inference.operand_parts import refuse_columns, refuse_parts
from tilegen.inference.shared import SharedLayout, swizzled
from tilegen.ir.nodes import Buffer, Gemm
from tilegen.target import Target

FAMILIES = ("wgmma", "mfma", "mma_sync")
"""In order of preference. The module `gemm_<family>` answers why_not(gemm, threads, target) and
decide(gemm, threads, target); where shared operands want another layout than the hardware's swizzle, it offers
operand_layout(decision, which, buffer, target), says READS_ANY_LAYOUT = True where it can do with any, and
PART_COLUMNS where parts of shared tiles must begin at a multiple of so many columns, and is_last_resort(gemm, threads,
target) where warps that share k would do better than what it can do."""


def family_module(family: str) -> ModuleType:
    return import_module(f"tilegen.inference.gemm_{family}")


def decide_gemms(
    gemms: list[Gemm], threads: int, target: Target, decisions: Decisions, whole: Collection[str] = ()
) -> None:
    """Decides all gemms and the fragments and shared layouts of their operands.

    One family computes them all where one can, so that what one gemm writes is what the next reads. Of accumulators
    that are named in `whole`, warps hold parts of sums only where no family can share out rows and columns.

    Raises:
        ProgramError: when no family can compute a gemm, an operand is part of a fragment, or two gemms want different
            layouts of one buffer.
    """
    for gemm in gemms:
        refuse_parts(gemm)
    asked = _rows_beside_register_operands(gemms)
    reasons = _reasons(asked, threads, target)
    asked = [
        gemm
        if _well_shared(gemm, at, reasons, threads, target)
        or (gemm.c.buffer.name in whole and _some_family(reasons, at))
        else _sharing_k(gemm, threads, target)
        for at, gemm in enumerate(asked)
    ]
    reasons = _reasons(asked, threads, target)
    common = next((family for family in FAMILIES if not any(reasons[family])), None)
    owners: dict[str, Gemm] = {}
    for position, gemm in enumerate(gemms):
        able = [family for family in FAMILIES if reasons[family][position] is None]
        if not able:
            why_not = {family: reasons[family][position] for family in FAMILIES}
            raise _no_family(gemm, why_not, threads, target)
        family = common or able[0]
        decision = family_module(family).decide(asked[position], threads, target)
        decision = replace(decision, passed_over=_passed_over(family, position, reasons, target))
        refuse_columns(gemm, getattr(family_module(family), "PART_COLUMNS", 1), decisions.divisors)
        decisions.gemms[gemm] = decision
        _fix_fragments(gemm, decision, owners, decisions)
        _fix_shared(gemm, decision, owners, decisions, target)


def _reasons(gemms: list[Gemm], threads: int, target: Target) -> dict[str, list[str | None]]:
    """Why each family cannot compute each gemm."""
    return {family: [family_module(family).why_not(g, threads, target) for g in gemms] for family in FAMILIES}


def _passed_over(family: str, position: int, reasons: dict[str, list[str | None]], target: Target) -> str:
    """Why no faster family of the target's computes a gemm; nothing where the fastest does."""
    faster = [name for name in FAMILIES[: FAMILIES.index(family)] if target.has(name)]
    if not faster:
        return ""
    why = reasons[faster[0]]
    own = why[position] or next(reason for reason in why if reason)  # one family computes all gemms
    return f"not by {faster[0]}: {own}"


def _well_shared(
    gemm: Gemm, position: int, reasons: dict[str, list[str | None]], threads: int, target: Target
) -> bool:
    """Whether a family computes the gemm as its rows and columns are shared, not only as a last resort."""
    return any(
        reasons[family][position] is None and not _is_last_resort(family, gemm, threads, target)
        for family in FAMILIES
    )


def _is_last_resort(family: str, gemm: Gemm, threads: int, target: Target) -> bool:
    asked = getattr(family_module(family), "is_last_resort", None)
    return asked is not None and bool(asked(gemm, threads, target))


def _some_family(reasons: dict[str, list[str | None]], position: int) -> bool:
    return any(reasons[family][position] is None for family in FAMILIES)


def _sharing_k(gemm: Gemm, threads: int, target: Target) -> Gemm:
    """The gemm with warps that share its k, where that helps: they cannot share its rows and columns."""
    shared = replace(gemm, policy="sliced_k")
    return shared if _fits(shared, threads, target) else gemm


def _rows_beside_register_operands(gemms: list[Gemm]) -> list[Gemm]:
    """Gemms with the policy that is meant. An A operand in registers wants whole rows in one warp; what has its rows
    (the scores of attention, its statistics) is best split alike, else rows are exchanged and reduced across warps.
    """
    rows = [gemm.extents[0] for gemm in gemms if gemm.a.buffer.scope == "fragment"]
    return [
        replace(gemm, policy="full_row") if gemm.policy == "square" and gemm.extents[0] in rows else gemm
        for gemm in gemms
    ]


def _no_family(gemm: Gemm, reasons: dict[str, str | None], threads: int, target: Target) -> ProgramError:
    operands = gemm.a.buffer.dtype, gemm.b.buffer.dtype, gemm.c.buffer.dtype
    offered = [atom for atom in target.mma_atoms if target.has(atom.capability)]
    if offered and not target.mma_atoms_for(*(dtype.name for dtype in operands)):
        forms = dict.fromkeys(f"{a.a.dtype} * {a.b.dtype} -> {a.c.dtype}" for a in offered)
        left, right, sum_ = operands
        return ProgramError(
            gemm.location,
            f"there is no matrix product {left} * {right} -> {sum_} on {target.name}, only {' and '.join(forms)}",
            remedy=f"convert {gemm.a.buffer.name} and {gemm.b.buffer.name}: T.copy to tiles of T.{offered[0].a.dtype} "
            f"does, with an accumulator of T.{offered[0].c.dtype}",
        )
    known = [f"{family}: {reason}" for family, reason in reasons.items() if target.has(family)]
    listed = "; ".join(known or [f"{target.name} has no matrix instructions"])
    m, n, k = gemm.extents
    return ProgramError(
        gemm.location,
        f"no matrix instruction of {target.name} computes this {m} x {n} x {k} gemm ({listed})",
        remedy=_remedy(gemm, threads, target),
    )


def _remedy(gemm: Gemm, threads: int, target: Target) -> str:
    """What makes a matrix instruction fit: another policy, where that alone does."""
    by_policy = replace(gemm, policy="square")
    if gemm.policy != by_policy.policy and _fits(by_policy, threads, target):
        return "leave out the policy: T.GemmWarpPolicy.Square fits"
    return "change the block shape, the number of threads or the element types"


def _fits(gemm: Gemm, threads: int, target: Target) -> bool:
    return _some_family(_reasons([gemm], threads, target), 0)


def _fix_fragments(gemm: Gemm, decision: GemmDecision, owners: dict[str, Gemm], decisions: Decisions) -> None:
    for which, buffer, layout in (
        ("accumulator", gemm.c.buffer, decision.c),
        ("operand A", gemm.a.buffer, decision.a),
        ("operand B", gemm.b.buffer, decision.b),
    ):
        if layout is None or buffer.scope != "fragment":
            continue
        known = decisions.fragments.get(buffer.name)
        if known is not None and known != layout:
            raise _clash(buffer, gemm, layout, owners[buffer.name], known)
        decisions.fragments[buffer.name] = layout
        decisions.reasons[buffer.name] = f"{which} of {decision.atom} at {gemm.location}"
        owners.setdefault(buffer.name, gemm)


def _clash(
    buffer: Buffer, gemm: Gemm, wanted: Fragment | SharedLayout, owner: Gemm, known: Fragment | SharedLayout
) -> ProgramError:
    other = f"{buffer.name}_2"
    return ProgramError(
        gemm.location,
        f"this gemm needs {buffer.name} as {wanted}, but it is laid out as {known}",
        related=[(owner.location, f"because of this gemm, which needs {known}")],
        remedy=f"give one of them a copy: allocate {other} like {buffer.name} and write T.copy({buffer.name}, {other}) "
        "between the two",
    )


def _fix_shared(
    gemm: Gemm, decision: GemmDecision, owners: dict[str, Gemm], decisions: Decisions, target: Target
) -> None:
    for which, region in (("a", gemm.a), ("b", gemm.b)):
        buffer = region.buffer
        if buffer.scope != "shared":
            continue
        layout = _operand_layout(decision, which, buffer, target)
        known = decisions.shared.get(buffer.name)
        if known is not None and known != layout:
            if buffer.name not in owners or _reads_any_layout(decision):
                continue  # the user's annotation stands; the lowering checks what it can read
            raise _clash(buffer, gemm, layout, owners[buffer.name], known)
        decisions.shared[buffer.name] = layout
        decisions.reasons[buffer.name] = f"operand {which.upper()} of {decision.atom} at {gemm.location}"
        owners.setdefault(buffer.name, gemm)


def _reads_any_layout(decision: GemmDecision) -> bool:
    """Whether operands may lie in shared memory as another gemm wants them, if at a cost."""
    return bool(getattr(family_module(decision.family), "READS_ANY_LAYOUT", False))


def _operand_layout(decision: GemmDecision, which: str, buffer: Buffer, target: Target) -> SharedLayout:
    choose = getattr(family_module(decision.family), "operand_layout", None)
    if choose is not None:
        layout = choose(decision, which, buffer, target)
        assert isinstance(layout, SharedLayout)
        return layout
    return swizzled(buffer.extents, buffer.dtype)
