"""What a launcher checks of its arguments: the contract's conditions, turned round, in 64 bits where they need it."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.model.expressions import CallC, CExpr, Literal, Name, Operation, Prefix, StaticCast, Ternary
from tilegen.model.kernel import KernelModel
from tilegen.model.statements import CStmt, IfC
from tilegen.model.transform import rewritten

_NEGATIONS = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def contract_checks(model: KernelModel, refuse: CStmt) -> list[CStmt]:
    """One check for the requirements of each remark, with the extents' signs, and one for each alignment."""
    statements: list[CStmt] = []
    for remark in dict.fromkeys(("", *(requirement.remark for requirement in model.requirements))):
        extents = [] if remark else _extent_checks(model)
        checks = _without_implied([*extents, *_requirement_checks(model, remark)])
        statements += [IfC(any_of(checks), (refuse,), comment=remark)] if checks else []
    return statements + _alignment_checks(model, refuse)


def any_of(conditions: Sequence[CExpr]) -> CExpr:
    return joined("||", conditions)


def joined(op: str, operands: Sequence[CExpr]) -> CExpr:
    """a op b op …"""
    total = operands[0]
    for operand in operands[1:]:
        total = Operation(op, total, operand)
    return total


def _extent_checks(model: KernelModel) -> list[CExpr]:
    return [Operation("<", Name(extent), Literal(0)) for extent in model.extents]


def _requirement_checks(model: KernelModel, remark: str) -> list[CExpr]:
    return [
        _negated(_widened(condition, model))
        for requirement in model.requirements
        if requirement.remark == remark
        for condition in _conjuncts(requirement.condition)
    ]


def _without_implied(checks: Sequence[CExpr]) -> list[CExpr]:
    """Each check once, without those that another one implies: x < 0 beside x <= 0, x > 9 beside x > 5."""
    return [check for check in dict.fromkeys(checks) if not any(_implied(check, other) for other in checks)]


def _implied(check: CExpr, other: CExpr) -> bool:
    """Whether whatever fails `check` fails `other`, a stricter one."""
    match check, other:
        case Operation("<", x, Literal(0)), Operation("<=", y, Literal(0)):
            return x == y
        case Operation(">", x, Literal(int(a))), Operation(">", y, Literal(int(b))):
            return x == y and a > b
    return False


def _conjuncts(condition: CExpr) -> list[CExpr]:
    match condition:
        case Operation("&&", left, right):
            return [*_conjuncts(left), *_conjuncts(right)]
        case _:
            return [condition]


def _negated(condition: CExpr) -> CExpr:
    match condition:
        case Operation(op, left, right) if op in _NEGATIONS:
            return Operation(_NEGATIONS[op], left, right)
        case Operation("&&", left, right):
            return Operation("||", _negated(left), _negated(right))
        case Operation("||", left, right):
            return Operation("&&", _negated(left), _negated(right))
        case Prefix("!", operand):
            return operand
        case _:
            return Prefix("!", condition)


def _alignment_checks(model: KernelModel, refuse: CStmt) -> list[CStmt]:
    """One check for all tensors of an alignment: the union of their addresses has no bit below it."""
    statements: list[CStmt] = []
    wanted = {tensor.alignment for tensor in model.tensors if tensor.alignment > tensor.dtype.bits // 8}
    for alignment in sorted(wanted, reverse=True):
        aligned = [Name(tensor.name) for tensor in model.tensors if tensor.alignment == alignment]
        addresses = joined("|", [StaticCast("u64", name, functional=True) for name in aligned])
        misaligned = Operation("!=", Operation("%", addresses, Literal(alignment)), Literal(0))
        statements.append(IfC(misaligned, (refuse,)))
    return statements


def _widened(expression: CExpr, model: KernelModel) -> CExpr:
    """The expression in 64 bits, where it multiplies extents."""
    if not _multiplies_extents(expression, model):
        return expression
    return in_64_bits(expression, model)


def in_64_bits(expression: CExpr, model: KernelModel) -> CExpr:
    wide = "i64" if _compares_differences(expression) else "u64"
    integers = (name for name, dtype in model.scalars if dtype.is_integer)
    counts = (*model.extents, *integers, "multiprocessors", "clusters")
    names = {count: StaticCast(wide, Name(count), functional=True) for count in counts}
    return rewritten(expression, lambda node: names.get(node.name) if isinstance(node, Name) else None)


def _compares_differences(expression: CExpr) -> bool:
    """Whether a minimum or maximum is of a difference, which may be negative."""
    return any(
        isinstance(part, Operation) and part.op == "-"
        for node in _parts(expression)
        if isinstance(node, Ternary)
        or (isinstance(node, CallC) and node.function in (Name("min"), Name("max")))
        for part in _parts(node)
    )


def _multiplies_extents(expression: CExpr, model: KernelModel) -> bool:
    computes = any(isinstance(part, Operation) and part.op in ("*", "+") for part in _parts(expression))
    return computes and bool(model.extents)


def _parts(expression: CExpr) -> list[CExpr]:
    """The expression and what it is made of."""
    found: list[CExpr] = []
    rewritten(expression, found.append)
    return found
