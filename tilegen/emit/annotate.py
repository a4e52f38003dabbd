"""What each token of a statement is, and what a line break before it costs, by the rules of the Google C++ style.

The costs are those that clang-format documents and shows for the style: breaks deep inside brackets cost more than
breaks outside, after commas less than after operators, after weak operators less than after strong ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.emit.tokens import spaced_tokens

COMMA, ASSIGNMENT, CONDITIONAL, RELATIONAL, EQUALITY = 1, 2, 3, 10, 9
MEMBER = 17  # the level of . and ->, above that of unary operators
UNARY = 16
_LEVELS = {
    ",": 1, "=": 2, "+=": 2, "-=": 2, "*=": 2, "/=": 2, "%=": 2, "&=": 2, "|=": 2, "^=": 2, "<<=": 2, ">>=": 2,
    "?": 3, "||": 4, "&&": 5, "|": 6, "^": 7, "&": 8, "==": 9, "!=": 9, "<": 10, ">": 10, "<=": 10, ">=": 10,
    "<<": 12, ">>": 10, "+": 13, "-": 13, "*": 14, "/": 14, "%": 14,
}  # fmt: skip
# >> is taken for two comparisons, as clang-format takes it.
_OPENING = {"(": 1, "[": 10, "{": 1, "<": 10, "<<<": 10}
_KEYWORDS = frozenset((
    "return", "if", "else", "for", "while", "const", "constexpr", "static", "extern", "struct", "union", "template",
    "class", "typename", "sizeof", "new", "using", "static_assert", "alignas", "asm", "volatile", "operator", "public",
    "break",
))  # fmt: skip
_TYPE_WORDS = frozenset((
    "int", "float", "double", "bool", "char", "short", "long", "unsigned", "signed", "void", "auto",
))  # fmt: skip


@dataclass(slots=True, eq=False)
class Token:
    """`spaces` stand before it. `level` is the precedence of a binary operator, `?`, `:` or comma, else 0.
    `opens` and `closes` list the groups of operands that begin and end at the token, `opens` from the inside out."""

    text: str
    spaces: int
    position: int = 0
    kind: str = ""  # binary, unary, conditional, comma, member, open, close, name, reference, string, comment
    level: int = 0
    nesting: int = 0
    strength: int = 1
    partner: int = -1
    arguments: int = 0
    template: bool = False  # of < and >
    grouping: bool = False  # ( after an operator
    opens: list[int] = field(default_factory=list)
    closes: int = 0
    ends_operands: bool = False
    starts_operands: bool = False
    operator_index: int = 0
    next_operator: int = -1
    can_break: bool = False
    cost: int = 0
    end: int = 0  # columns from the start of the unbroken statement to the token's end

    @property
    def width(self) -> int:
        return len(self.text)

    @property
    def opening(self) -> bool:
        return self.kind == "open"

    @property
    def closing(self) -> bool:
        return self.kind == "close"


def annotated(code: str, comment: str) -> list[Token]:
    """The tokens of a statement printed on one line, with everything that breaking it needs."""
    tokens = [Token(text, spaces, position) for position, (text, spaces) in enumerate(spaced_tokens(code))]
    _classify(tokens)
    if comment:
        tokens.append(Token(f"// {comment}", 2, len(tokens), "comment"))
    _Grouping(tokens).statement()
    declaration = _is_function(tokens)
    column = 0
    for position, token in enumerate(tokens):
        column += token.spaces + token.width
        token.end = column
        if position:
            token.can_break = _can_break(tokens, position)
            token.cost = 20 * token.strength + _cost(tokens, position, declaration)
    return tokens


# --------------------------------------------------------------------------------------------- kinds


def _classify(tokens: list[Token]) -> None:
    open_brackets: list[int] = []
    for position, token in enumerate(tokens):
        following = tokens[position + 1].spaces if position + 1 < len(tokens) else 0
        token.kind = _kind(tokens, position, following)
        token.template = token.text[0] in "<>" and token.kind in ("open", "close")
        if token.closing and open_brackets:
            token.partner = open_brackets.pop()
            tokens[token.partner].partner = position
        if token.kind in ("binary", "conditional", "comma"):
            token.level = CONDITIONAL if token.kind == "conditional" else _LEVELS.get(token.text, 0)
        token.nesting = len(open_brackets) + token.closing
        inner = open_brackets if not token.closing else [*open_brackets, token.partner]
        token.strength = 1 + sum(_OPENING[tokens[bracket].text] for bracket in inner)
        if open_brackets and not token.closing:
            outer = tokens[open_brackets[-1]]
            if token.kind == "comma":
                outer.arguments += 1
            elif outer.arguments == 0:
                outer.arguments = 1
        if token.opening:
            previous = tokens[position - 1] if position else None
            token.grouping = token.text == "(" and previous is not None and previous.kind == "binary"
            open_brackets.append(position)
        if token.closing:
            token.nesting = len(open_brackets)


def _kind(tokens: list[Token], position: int, following: int) -> str:
    token = tokens[position]
    previous = tokens[position - 1] if position else None
    text = token.text
    if text[0] == '"' or text[-1] == '"':
        return "string"
    if text in ("(", "[", "{"):
        return "open"
    if text in (")", "]", "}"):
        return "close"
    if text == ",":
        return "comma"
    if text in (".", "->"):
        return "member"
    if text in ("?", ":"):
        return "conditional" if text == "?" or _has_question(tokens, position) else "colon"
    if text in ("<", "<<<") and not token.spaces:
        return "open"
    if text in (">", ">>>") and not token.spaces:
        return "close"
    if text in ("*", "&", "&&") and previous is not None and not token.spaces and not previous.opening:
        return "reference"
    if text in _LEVELS and token.spaces and following:
        return "binary"
    if text in ("-", "+", "!", "~", "*", "&", "++", "--"):
        return "unary"
    return "name" if text[0].isalpha() or text[0] == "_" else ""


def _has_question(tokens: list[Token], position: int) -> bool:
    depth = 0
    for token in reversed(tokens[:position]):
        if token.kind == "close":
            depth += 1
        elif token.kind == "open":
            depth -= 1
            if depth < 0:
                return False
        elif token.text == "?" and depth == 0:
            return True
    return False


def starts_name(tokens: list[Token], position: int) -> bool:
    """Whether the token is the name that a declaration declares."""
    token, previous = tokens[position], tokens[position - 1]
    if token.kind != "name" or token.text in _KEYWORDS or token.text in _TYPE_WORDS:
        return False
    if previous.kind == "reference" or (previous.template and previous.closing and token.spaces):
        return True
    if previous.kind != "name" or previous.text in _KEYWORDS - {"const"}:
        return False
    return previous.text != "const"


def _is_function(tokens: list[Token]) -> bool:
    """Whether the line declares a function: it ends in `{` or `;` after a parameter list and holds no assignment."""
    if tokens[0].text in ("return", "if", "for", "while", "else", "}", "static_assert"):
        return False
    names = [position for position in range(1, len(tokens)) if starts_name(tokens, position)]
    for position in names:
        token = tokens[position]
        if token.nesting == 0 and position + 1 < len(tokens) and tokens[position + 1].text == "(":
            inside = tokens[position + 2 : tokens[position + 1].partner]
            return tokens[0].text in ("extern", "static") or tokens[-1].text == "{" or not inside
    return False


# --------------------------------------------------------------------------------------------- operands


class _Grouping:
    """Marks where the operands of each run of operators of one level begin and end, by precedence climbing."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    def statement(self) -> None:
        self._run(0)

    @property
    def _current(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _next(self) -> None:
        self._position += 1
        while self._current is not None and self._current.kind == "comment":
            self._position += 1

    def _level(self) -> int:
        token = self._current
        if token is None or token.kind not in ("conditional", "binary", "comma", "member", "colon"):
            return 0 if token is not None and token.text == ";" else -1
        if token.kind == "member":
            return MEMBER
        return COMMA if token.kind == "colon" else token.level

    def _run(self, level: int) -> None:
        while self._current is not None and self._current.text == "return":
            self._next()
        if self._current is None or level > MEMBER:
            return
        if level == CONDITIONAL:
            self._conditional()
            return
        if level == UNARY:
            self._unary()
            return
        start = self._position
        latest: Token | None = None
        count = 0
        while self._current is not None:
            self._run(level + 1)
            token, found = self._current, self._level()
            if token is None or token.closing or (found != -1 and found < level):
                break
            if found == CONDITIONAL and level == ASSIGNMENT and token.text == ":":
                break
            if token.opening:
                while self._current is not None and not self._current.closing:
                    self._next()
                    self._run(0)
                self._next()
                continue
            if found == level:
                if latest is not None:
                    latest.next_operator = self._position
                latest = token
                count += token.text == ">>"
                token.operator_index = count
                count += 1
            self._next()
        if latest is not None and (self._current is not None or level > 0):
            self._group(start, 0 if level == MEMBER else level)

    def _conditional(self) -> None:
        start = self._position
        self._run(CONDITIONAL + 1)
        if self._current is None or self._current.text != "?":
            return
        self._next()
        self._run(ASSIGNMENT)
        if self._current is None or self._current.text != ":":
            return
        self._next()
        self._run(ASSIGNMENT)
        self._group(start, CONDITIONAL)

    def _unary(self) -> None:
        operators = []
        while self._current is not None and self._current.kind == "unary":
            operators.append(self._position)
            self._next()
        self._run(MEMBER)
        for position in reversed(operators):
            self._group(position, 0)

    def _group(self, start: int, level: int) -> None:
        self._tokens[start].opens.append(level)
        if level:
            self._tokens[start].starts_operands = True
        if self._position <= len(self._tokens):
            last = self._tokens[self._position - 1]
            while last.kind == "comment":
                last = self._tokens[last.position - 1]
            last.closes += 1
            if level:
                last.ends_operands = True


# --------------------------------------------------------------------------------------------- breaks


def _can_break(tokens: list[Token], position: int) -> bool:
    right, left = tokens[position], tokens[position - 1]
    if right.kind == "comment":
        return False
    if starts_name(tokens, position):
        return True
    if right.kind == "reference" or left.kind == "reference":
        return False
    if right.kind == "conditional":
        return True
    if left.kind == "conditional":
        return False
    if left.text == "=" and right.text == "{":
        return False
    if left.text == "(" and left.grouping:
        return False
    if right.closing:
        return False
    if left.kind == "binary":
        return left.text != "<<"
    if left.kind in ("comma", "colon") or left.text in ("::", ";") or (left.opening and left.text == "{"):
        return True
    if (
        right.kind in ("member", "colon")
        or (right.text == "<<" and right.kind == "binary")
        or right.text == "["
    ):
        return True
    if left.text == ")" and right.kind == "name" and (right.text == "const" or right.text not in _KEYWORDS):
        return True
    if left.kind == "name" and left.text not in _KEYWORDS and right.kind == "string":
        return True
    return left.opening and left.text != "["


def _cost(tokens: list[Token], position: int, declaration: bool) -> int:
    right, left = tokens[position], tokens[position - 1]
    before = tokens[position - 2] if position > 1 else None
    in_for = tokens[0].text == "for"
    if left.text == ";":
        return 0
    if right.text == "[":
        if left.text == "]":
            return 200
        is_lambda = left.text in ("=", "(", ",")
        if not is_lambda:
            return 500
        if left.text == "=":
            return 35
    if left.text == "::":
        return 500
    if starts_name(tokens, position):
        return 200
    if left.text in ("struct", "union", "class"):
        return 5000
    if left.kind == "colon":
        return 2
    if right.kind == "member":
        following = right.next_operator
        return 35 if following >= 0 and tokens[following - 1].closing else 150
    if in_for and left.text == "=":
        return 4
    if left.text == "(" and declaration:
        return 100
    if (
        left.text == "("
        and before is not None
        and (before.text in ("for", "if") or _constexpr_if(tokens, position))
    ):
        return 1000
    if left.text == "=" and declaration:
        return 110
    if left.opening and left.template:
        return 100
    if left.opening:
        return 1 if left.arguments > 1 else 19
    if left.kind == "unary":
        return 60
    if left.kind == "comma":
        return 1
    if right.text == "<<" and right.kind == "binary":
        return 1 if right.operator_index else 2
    if left.kind == "conditional":
        return CONDITIONAL
    level = (left.level if left.kind == "binary" else 0) or (right.level if right.kind != "name" else 0)
    return level or 3


def _constexpr_if(tokens: list[Token], position: int) -> bool:
    return position > 2 and tokens[position - 2].text == "constexpr" and tokens[position - 3].text == "if"
