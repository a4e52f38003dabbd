"""C++ statements of the kernel model."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.model.expressions import CExpr


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment line (or several, split at newlines) of its own, possibly with expressions in between."""

    text: str | tuple[str | CExpr, ...]


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line; the printer never prints two in a row nor one after an opening brace."""


@dataclass(frozen=True, slots=True)
class Banner:
    """// -------- title, to column 110."""

    title: str


@dataclass(frozen=True, slots=True)
class Declare:
    """type_name name[dimensions…] = value;  `comment` trails the line. `also` are further names that are declared
    alike, without a value."""

    type_name: str
    name: str
    value: CExpr | None = None
    dimensions: tuple[CExpr, ...] = ()
    const: bool = False
    comment: str | tuple[str | CExpr, ...] = ""  # text with expressions in between
    structured: tuple[str, ...] = ()  # const auto [a, b] = value; name is then unused
    reference: bool = False
    alignment: int = 0  # alignas(n) in bytes; 0 for none
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignC:
    """target op value;  op is "=", "+=", …"""

    target: CExpr
    value: CExpr
    op: str = "="
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """expression;"""

    expression: CExpr
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ForC:
    """for (int variable = start; variable < stop; variable += step) { body }

    `unroll`: None prints nothing, True `#pragma unroll`, an integer `#pragma unroll n`. With step 1 it prints
    `++variable`, with step 0 the body moves it on. `condition` replaces `variable < stop`. `turns` is a second
    variable, which counts them from 0.
    """

    variable: str
    start: CExpr
    stop: CExpr
    body: tuple[CStmt, ...]
    step: CExpr | None = None
    unroll: bool | int | None = None
    comment: str = ""
    type_name: str = "int"
    condition: CExpr | None = None
    turns: str = ""


@dataclass(frozen=True, slots=True)
class WhileC:
    condition: CExpr
    body: tuple[CStmt, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class IfC:
    condition: CExpr
    then: tuple[CStmt, ...]
    otherwise: tuple[CStmt, ...] = ()
    comment: str = ""
    constexpr: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """{ body }"""

    body: tuple[CStmt, ...]


@dataclass(frozen=True, slots=True)
class Return:
    value: CExpr | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """break;"""


@dataclass(frozen=True, slots=True)
class Templated:
    """Statements rendered from templates/<language>/operations/<template> with the given values (strings,
    integers, booleans, expressions, which the printer turns into text, and sequences of these)."""

    template: str
    values: tuple[tuple[str, object], ...]


CStmt = (
    Comment
    | Blank
    | Banner
    | Declare
    | AssignC
    | Expression
    | ForC
    | WhileC
    | IfC
    | Scope
    | Return
    | Break
    | Templated
)
