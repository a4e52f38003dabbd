"""Prints the statements of the kernel model as logical lines of C++, with the brace rules of the house."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import assert_never

from tilegen.emit.lines import COLUMNS, NO_BREAK, Line, comment_lines, logical_lines, shifted
from tilegen.emit.templating import render_template, template_value
from tilegen.model.expression_text import PrintError, expression_text, lambda_head
from tilegen.model.expressions import CallC, CExpr, Lambda, Literal, Name, Operation
from tilegen.model.statements import (
    AssignC,
    Banner,
    Blank,
    Break,
    Comment,
    CStmt,
    Declare,
    Expression,
    ForC,
    IfC,
    Return,
    Scope,
    Templated,
    WhileC,
)

INDENT = 2
_BANNER_END = 96  # column of the last dash at the outermost level
_INNER_BANNER_END = 99
_FEW = 4  # turns


def print_statements(body: Sequence[CStmt], language: str, indent: int = 0) -> list[Line]:
    """The statements, one logical line each and more for blocks, `indent` columns in.

    Empty lines are dropped at the start and end of a block and where another precedes.

    Raises:
        PrintError: for a statement that C++ has no form for.
        TilegenError: for a template that is missing or lacks a value.
    """
    lines: list[Line] = []
    for statement in body:
        for line in _statement(statement, language, indent):
            if line.blank and (not lines or lines[-1].blank):
                continue
            lines.append(line)
    while lines and lines[-1].blank:
        lines.pop()
    return _close_up(lines)


def _close_up(lines: list[Line]) -> list[Line]:
    """Without the empty lines between statements of one line each that have a comment above them."""
    kept: list[Line] = []
    paragraph: list[Line] = []  # the lines since the last empty one
    for position, line in enumerate(lines):
        if not line.blank:
            paragraph.append(line)
        else:
            end = next((at for at in range(position + 1, len(lines)) if lines[at].blank), len(lines))
            if _one_statement(paragraph) and _one_statement(lines[position + 1 : end]):
                paragraph = []
                continue
            paragraph = []
        kept.append(line)
    return kept


def _one_statement(lines: Sequence[Line]) -> bool:
    """Whether the lines are a comment and a statement of one line, with its directive."""
    code = [line for line in lines if line.code and not line.code.startswith("#")]
    comments = [line for line in lines if not line.code]
    if len(code) != 1 or len(comments) != 1 or lines[0] is not comments[0]:
        return False
    return code[0].code.endswith(";") and fits(code[0].code, code[0].comment, code[0].indent)


def banner_line(title: str, indent: int = 0) -> Line:
    """`// ------ title`, the dashes ending at the same column everywhere on a level."""
    end = _INNER_BANNER_END if indent else _BANNER_END
    return Line("", "-" * (end - indent - 3) + f" {title}", indent)


def _statement(statement: CStmt, language: str, indent: int) -> list[Line]:
    match statement:
        case Comment(text):
            return comment_lines(_comment_text(text), indent)
        case Blank():
            return [Line()]
        case Banner(title):
            return [banner_line(title, indent)]
        case Declare():
            return _declare(statement, language, indent)
        case AssignC(target, value, op, comment):
            return _commented(f"{expression_text(target)} {op} {expression_text(value)};", comment, indent)
        case Expression(expression, comment):
            return _commented(f"{expression_text(expression)};", comment, indent)
        case ForC():
            return _for(statement, language, indent)
        case WhileC(condition, body, comment):
            return _block(f"while ({expression_text(condition)})", comment, body, language, indent)
        case IfC():
            return _if(statement, language, indent)
        case Scope(body):
            inner = print_statements(body, language, indent + INDENT)
            return [Line("{", "", indent), *inner, Line("}", "", indent)]
        case Return(value):
            return [Line("return;" if value is None else f"return {expression_text(value)};", "", indent)]
        case Break():
            return [Line("break;", "", indent)]
        case Templated(template, values):
            context = {name: template_value(value) for name, value in values}
            text = render_template(f"{language}/operations/{template}", context)
            return shifted(logical_lines(text), indent)
        case _:
            assert_never(statement)


def _commented(code: str, comment: str, indent: int) -> list[Line]:
    """The line with its comment behind it, or before it where the two pass column 120."""
    if comment and not fits(code, comment, indent):
        return [*comment_lines(comment, indent), Line(code, "", indent)]
    return [Line(code, comment.replace(NO_BREAK, " "), indent)]


def fits(code: str, comment: str, indent: int) -> bool:
    """Whether the code and its comment end before column 121."""
    return indent + len(code) + (len(comment) + 5 if comment else 0) <= COLUMNS


def _declare(declaration: Declare, language: str, indent: int) -> list[Line]:
    head, comment = declaration_head(declaration), _comment_text(declaration.comment)
    value = declaration.value
    if value is None:
        return _commented(f"{head};", comment, indent)
    if isinstance(value, Lambda):
        return _lambda(head, value, comment, language, indent)
    if isinstance(value, CallC) and value.arguments and _constructs(declaration, value):
        arguments = ", ".join(expression_text(argument) for argument in value.arguments)
        return _commented(f"{head}({arguments});", comment, indent)
    return _commented(f"{head} = {expression_text(value)};", comment, indent)


def _comment_text(comment: str | tuple[str | CExpr, ...]) -> str:
    """A comment whose pieces are text or expressions; it is not to be broken inside these."""
    if isinstance(comment, str):
        return comment
    pieces = []
    for piece in comment:
        if isinstance(piece, str):
            pieces.append(piece[:-1] + NO_BREAK if piece.endswith(" ") else piece)
        else:
            pieces.append(expression_text(piece).replace(" ", NO_BREAK))
    return "".join(pieces)


def _constructs(declaration: Declare, call: CallC) -> bool:
    """`Type name = Type(…)` is written `Type name(…)`."""
    same = call.function == Name(declaration.type_name) and not call.template
    return same and not declaration.structured and not declaration.dimensions and not declaration.reference


def declaration_head(declaration: Declare) -> str:
    """`const float name[4]`, all that comes before the value."""
    if declaration.structured:
        if declaration.value is None:
            raise PrintError("a structured binding needs a value")
        ampersand = "&" if declaration.reference else ""
        return f"const auto{ampersand} [{', '.join(declaration.structured)}]"
    alignment = f"alignas({declaration.alignment}) " if declaration.alignment else ""
    const = "const " if declaration.const else ""
    ampersand = "&" if declaration.reference else ""
    dimensions = "".join(f"[{expression_text(extent)}]" for extent in declaration.dimensions)
    name = f"(&{declaration.name})" if ampersand and dimensions else f"{declaration.name}"
    joint = " " if not ampersand or dimensions else "& "
    others = "".join(f", {other}{dimensions}" for other in declaration.also)
    return f"{alignment}{const}{declaration.type_name}{joint}{name}{dimensions}{others}"


def _lambda(head: str, value: Lambda, comment: str, language: str, indent: int) -> list[Line]:
    body: tuple[CStmt, ...] = value.body  # type: ignore[assignment]
    if len(body) == 1 and isinstance(body[0], Scope):  # the lambda is a scope itself
        body = body[0].body
    opening = f"{head} = {lambda_head(value)} {{"
    inner = print_statements(body, language, indent + INDENT)
    if not inner:
        return _commented(f"{opening}}};", comment, indent)
    if (
        len(inner) == 1
        and not inner[0].comment
        and not comment
        and not isinstance(body[0], ForC | IfC | WhileC)
    ):
        short = f"{opening} {inner[0].code} }};"
        if indent + len(short) <= COLUMNS:
            return [Line(short, "", indent)]
    leading = list(takewhile(lambda line: not line.code, inner))
    if leading and len(leading) < len(inner) and inner[len(leading)].code.startswith("#"):
        # Comments that come first in a lambda, with a directive below, have no stable indent.
        inner = inner[len(leading) :]
        if len(leading) == 1 and not comment and fits(opening, leading[0].comment, indent):
            comment, leading = leading[0].comment, []
        if any(line.comment and not line.code for line in inner):
            # Above the lambda they would seem to speak of all that it does.
            inner = [inner[0], *leading, *inner[1:]]
            leading = []
        above = [replace(line, indent=indent) for line in leading if not line.blank]
        return [*above, *_commented(opening, comment, indent), *inner, Line("};", "", indent)]
    return [*_commented(opening, comment, indent), *inner, Line("};", "", indent)]


def _for(loop: ForC, language: str, indent: int) -> list[Line]:
    condition = loop.condition or Operation("<", Name(loop.variable), loop.stop)
    head = f"{loop.type_name} {loop.variable} = {expression_text(loop.start)}"
    head += f", {loop.turns} = 0" if loop.turns else ""
    test = "" if condition == Literal(True, "bool") else f" {expression_text(condition)}"
    opening = f"for ({head};{test}; {_advance(loop)})"
    lines = _block(opening, loop.comment, loop.body, language, indent)
    if not loop.unroll or (language == "cuda" and _unrolls_itself(loop)):
        return lines
    pragma = "#pragma unroll" if loop.unroll is True else f"#pragma unroll {loop.unroll}"
    first_code = next(position for position, line in enumerate(lines) if line.code)
    return [*lines[:first_code], Line(pragma), *lines[first_code:]]


def _unrolls_itself(loop: ForC) -> bool:
    """Whether nvcc unrolls a loop unasked: a few turns of simple statements."""
    match loop.start, loop.stop, loop.step or Literal(1):
        case Literal(int() as start), Literal(int() as stop), Literal(int() as step):
            turns = -(-(stop - start) // step)
            return turns <= _FEW and all(isinstance(inner, AssignC | Expression) for inner in loop.body)
        case _:
            return False


def _advance(loop: ForC) -> str:
    steps = [f"++{loop.turns}"] if loop.turns else []
    match loop.step:
        case Literal(0):
            pass
        case None | Literal(1):
            steps.insert(0, f"++{loop.variable}")
        case step:
            steps.insert(0, f"{loop.variable} += {expression_text(step)}")
    return ", ".join(steps)


def _if(branch: IfC, language: str, indent: int) -> list[Line]:
    if branch.otherwise:
        return _if_else(branch, "", language, indent)
    return _block(_condition(branch), branch.comment, branch.then, language, indent)


def _condition(branch: IfC) -> str:
    return f"{'if constexpr' if branch.constexpr else 'if'} ({expression_text(branch.condition)})"


def _if_else(branch: IfC, lead: str, language: str, indent: int) -> list[Line]:
    """A branch with braces throughout; `lead` is the `} else ` of the branch that it continues."""
    lines = _opening(f"{lead}{_condition(branch)} {{", branch.comment, indent, inside=bool(lead))
    lines += print_statements(branch.then, language, indent + INDENT)
    match branch.otherwise:
        case ():
            return [*lines, Line("}", "", indent)]
        case (IfC() as nested,):
            return [*lines, *_if_else(nested, "} else ", language, indent)]
        case otherwise:
            inner = print_statements(otherwise, language, indent + INDENT)
            return [*lines, Line("} else {", "", indent), *inner, Line("}", "", indent)]


def _opening(code: str, comment: str, indent: int, inside: bool) -> list[Line]:
    """The line that opens a block; a comment that does not fit goes above it, or inside the block."""
    if not comment or fits(code, comment, indent):
        return [Line(code, comment, indent)]
    if inside:
        return [Line(code, "", indent), *comment_lines(comment, indent + INDENT)]
    return [*comment_lines(comment, indent), Line(code, "", indent)]


def _simple(statement: CStmt) -> bool:
    """May stand behind `if (…)` on the same line."""
    match statement:
        case AssignC() | Expression() | Return() | Break():
            return True
        case _:
            return False


def _nests(statement: CStmt, lines: list[Line]) -> bool:
    """May be all of a loop's body without braces around it: a loop, or a branch with one simple statement."""
    match statement:
        case ForC():
            return True
        case IfC(otherwise=()):
            return len(lines) <= 2
        case _:
            return False


def _block(opening: str, comment: str, body: tuple[CStmt, ...], language: str, indent: int) -> list[Line]:
    """A loop or branch. Its one simple statement stands on the same line if it fits, else below without braces; so does
    a loop that is all of another loop's body. Everything else is in braces."""
    above: list[Line] = []
    if comment and not fits(f"{opening} {{", comment, indent):
        above, comment = comment_lines(comment, indent), ""
    inner = print_statements(body, language, indent + INDENT)
    bare = len(body) == 1 and bool(inner) and not any(line.comment and not line.code for line in inner)
    if bare and _simple(body[0]) and len(inner) == 1:
        joined = f"{opening} {inner[0].code}"
        remark = inner[0].comment or ("" if opening.startswith("for ") else comment)
        if (not comment or remark == comment) and fits(joined, remark, indent):
            return [*above, Line(joined, remark, indent)]
        return [*above, Line(opening, comment, indent), *inner]
    if bare and opening.startswith("for ") and _nests(body[0], inner):
        return [*above, Line(opening, comment, indent), *inner]
    return [*above, Line(f"{opening} {{", comment, indent), *inner, Line("}", "", indent)]
