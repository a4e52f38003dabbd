"""Shorthand for kernel-model expressions; integer literals fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.model.expressions import CallC, CExpr, Index, Literal, Member, Name, Operation

Operand = CExpr | int | str


def expr(value: Operand) -> CExpr:
    """Integers become literals, strings identifiers."""
    match value:
        case bool():
            return Literal(value, "bool")
        case int():
            return Literal(value)
        case str():
            return Name(value)
        case _:
            return value


def value_of(operand: CExpr) -> int | None:
    """The value of an integer literal, else None."""
    if isinstance(operand, Literal) and operand.type_name == "int" and not isinstance(operand.value, float):
        return int(operand.value)
    return None


def add(*operands: Operand) -> CExpr:
    """The sum; literals are collected at the end."""
    constant = 0
    total: CExpr | None = None
    for operand in _terms(operands):
        value = value_of(operand)
        if value is not None:
            constant += value
        else:
            total = operand if total is None else Operation("+", total, operand)
    if total is None:
        return Literal(constant)
    if constant == 0:
        return total
    return (
        Operation("+", total, Literal(constant))
        if constant > 0
        else Operation("-", total, Literal(-constant))
    )


def _terms(operands: Iterable[Operand]) -> Iterator[CExpr]:
    """The operands, sums among them term by term."""
    for operand in map(expr, operands):
        if isinstance(operand, Operation) and operand.op == "+":
            yield from _terms((operand.left, operand.right))
        elif isinstance(operand, Operation) and operand.op == "-" and value_of(operand.right) is not None:
            yield from _terms((operand.left, -(value_of(operand.right) or 0)))
        else:
            yield operand


def sub(left: Operand, right: Operand) -> CExpr:
    a, b = expr(left), expr(right)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return Literal(x - y)
    return a if y == 0 else Operation("-", a, b)


def mul(left: Operand, right: Operand) -> CExpr:
    """The product; a literal goes to the left, as in `16 * warp`."""
    a, b = expr(left), expr(right)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return Literal(x * y)
    if x == 0 or y == 0:
        return Literal(0)
    if x == 1:
        return b
    if y == 1:
        return a
    return Operation("*", b, a) if y is not None else Operation("*", a, b)


def product(left: Operand, right: Operand) -> CExpr:
    """left * right, written from left to right without brackets where right is a product itself."""
    a, b = expr(left), expr(right)
    if isinstance(b, Operation) and b.op == "*":
        return product(product(a, b.left), b.right)
    return Operation("*", a, b)


def div(left: Operand, right: Operand) -> CExpr:
    """Division of a non-negative integer."""
    a, b = expr(left), expr(right)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return Literal(x // y)
    return a if y == 1 else Operation("/", a, b)


def mod(left: Operand, right: Operand) -> CExpr:
    a, b = expr(left), expr(right)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return Literal(x % y)
    return Literal(0) if y == 1 else Operation("%", a, b)


def operation(op: str, left: Operand, right: Operand) -> CExpr:
    return Operation(op, expr(left), expr(right))


def conjunction(conditions: Iterable[CExpr]) -> CExpr | None:
    """All conditions joined by &&, None for none."""
    total: CExpr | None = None
    for condition in conditions:
        total = condition if total is None else Operation("&&", total, condition)
    return total


def call(function: Operand, *arguments: Operand, template: tuple[Operand, ...] = ()) -> CExpr:
    return CallC(expr(function), tuple(map(expr, arguments)), tuple(map(expr, template)))


def index(base: Operand, *indices: Operand) -> CExpr:
    result = expr(base)
    for position in indices:
        result = Index(result, expr(position))
    return result


def member(base: Operand, name: str) -> CExpr:
    return Member(expr(base), name)
