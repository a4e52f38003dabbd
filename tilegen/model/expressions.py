"""C++ expressions of the kernel model. The printer adds parentheses by precedence, none here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier, possibly qualified: `kBlockM`, `SM90_64x256x16_F32F16F16_SS<Major::K, Major::MN>::fma`."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer, a boolean, or a float with its C++ suffix decided by `type_name` ("float", "double", "half");
    "hex" is an int in hexadecimal digits."""

    value: int | float | bool
    type_name: str = "int"


@dataclass(frozen=True, slots=True)
class Index:
    """base[index]."""

    base: CExpr
    index: CExpr


@dataclass(frozen=True, slots=True)
class Member:
    """base.name."""

    base: CExpr
    name: str


@dataclass(frozen=True, slots=True)
class CallC:
    """function(arguments…); `template` arguments print between < and >."""

    function: CExpr
    arguments: tuple[CExpr, ...] = ()
    template: tuple[CExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A binary operator by its C++ spelling."""

    op: str
    left: CExpr
    right: CExpr


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix operator: -, !, ~, &, *, ++."""

    op: str
    operand: CExpr


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: CExpr
    then: CExpr
    otherwise: CExpr


@dataclass(frozen=True, slots=True)
class StaticCast:
    """static_cast<type_name>(operand); `functional` prints type_name(operand)."""

    type_name: str
    operand: CExpr
    functional: bool = False


@dataclass(frozen=True, slots=True)
class Reinterpret:
    """*reinterpret_cast<type_name*>(&operand), or without `dereference` reinterpret_cast<type_name>(operand)."""

    type_name: str
    operand: CExpr
    dereference: bool = True
    const: bool = False


@dataclass(frozen=True, slots=True)
class Braces:
    """{a, b, …}."""

    items: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    """[&](parameters) { body }: the body is a tuple of statements of tilegen.model.statements. Of the names in `copies`
    the lambda has copies."""

    parameters: tuple[tuple[str, str], ...]  # (type, name)
    body: tuple[object, ...]
    copies: tuple[str, ...] = ()


CExpr = (
    Name
    | Literal
    | Index
    | Member
    | CallC
    | Operation
    | Prefix
    | Ternary
    | StaticCast
    | Reinterpret
    | Braces
    | Lambda
)
