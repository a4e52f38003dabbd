"""Where a token lands when it is put on the current line or on a new one: indents, alignment, forbidden breaks."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from tilegen.emit.annotate import ASSIGNMENT, COMMA, CONDITIONAL, EQUALITY, RELATIONAL, Token, starts_name
from tilegen.emit.lines import COLUMNS

CONTINUATION = 4
_EXCESS = 1_000_000
_FIRST_SHIFT = 120  # the cost of a break before the first << behind a short left side
_FIRST_BREAK = 15  # the cost of the first break inside a group


class Group:
    """An open bracket or group of operands: where what it holds is indented, and what may still be broken in it."""

    __slots__ = (
        "break_next",
        "broken",
        "builder",
        "call_column",
        "call_start",
        "chained",
        "first_shift",
        "indent",
        "last_space",
        "operator_wrapped",
        "question",
        "rigid",
        "rigid_operand",
        "subscripts",
        "variable",
    )

    def __init__(self, indent: int, last_space: int, rigid: bool) -> None:
        self.indent = indent
        self.last_space = last_space
        self.rigid = rigid
        self.rigid_operand = False
        self.break_next = False
        self.broken = False
        self.builder = False
        self.call_column = 0
        self.call_start = 0
        self.chained = False
        self.first_shift = 0
        self.operator_wrapped = True
        self.question = 0
        self.subscripts = 0
        self.variable = 0

    def copy(self) -> Group:
        twin = Group.__new__(Group)
        twin.break_next = self.break_next
        twin.broken = self.broken
        twin.builder = self.builder
        twin.call_column = self.call_column
        twin.call_start = self.call_start
        twin.chained = self.chained
        twin.first_shift = self.first_shift
        twin.indent = self.indent
        twin.last_space = self.last_space
        twin.operator_wrapped = self.operator_wrapped
        twin.question = self.question
        twin.rigid = self.rigid
        twin.rigid_operand = self.rigid_operand
        twin.subscripts = self.subscripts
        twin.variable = self.variable
        return twin

    def key(self) -> tuple[int | bool, ...]:
        return _FIELDS(self)


_FIELDS = attrgetter(*Group.__slots__)


@dataclass(slots=True)
class State:
    """A statement laid out up to token `position`; `breaks` are the positions of the tokens that start a line and
    the columns where they stand."""

    tokens: list[Token]
    first_indent: int
    column: int
    position: int
    groups: list[Group]
    line_level: int = 0
    lowest_level: int = 0
    breaks: tuple[tuple[int, int], ...] = ()

    def copy(self) -> State:
        return State(
            self.tokens,
            self.first_indent,
            self.column,
            self.position,
            [group.copy() for group in self.groups],
            self.line_level,
            self.lowest_level,
            self.breaks,
        )

    def key(self) -> tuple[object, ...]:
        return (*self.place(), tuple(group.key() for group in self.groups))

    def place(self) -> tuple[object, ...]:
        """The key without the brackets that are open."""
        return (self.position, self.column, self.line_level, self.lowest_level)

    @property
    def done(self) -> bool:
        return self.position == len(self.tokens)


def initial_state(tokens: list[Token], indent: int) -> State:
    """The state with the first token placed."""
    state = State(tokens, indent, indent, 0, [Group(indent, indent, False)])
    _advance(state, False)
    return state


def may_break(state: State) -> bool:
    current, previous = state.tokens[state.position], state.tokens[state.position - 1]
    group = state.groups[-1]
    if not current.can_break:
        return False
    if (
        previous.text == "{"
        and previous.position
        and state.tokens[previous.position - 1].text in ("{", "(", ",")
    ):
        return False
    if (
        previous.opening
        and previous.text != "{"
        and state.lowest_level < state.line_level
        and state.lowest_level < current.nesting
    ):
        return False
    if current.kind == "member" and group.builder:
        return False
    if current.kind not in ("binary", "comma") and group.rigid_operand:
        return False
    return not group.rigid


def must_break(state: State) -> bool:
    tokens = state.tokens
    current, previous = tokens[state.position], tokens[state.position - 1]
    group = state.groups[-1]
    wanted = previous.kind == "comma" or previous.text == ";" or current.kind == "conditional"
    if wanted and group.break_next and not current.closing and current.kind != "comment":
        return True
    if group.chained and current.kind == "conditional" and current.text == ":":
        return True
    column = new_line_column(state)
    if current.kind == "member" and current.next_operator >= 0:
        length = tokens[current.next_operator].end - current.end
        outside = state.column > column or current.nesting < state.line_level
        if state.column + length > COLUMNS and outside:
            return True
    if _continues_calls(tokens, current) and (group.call_column or group.break_next):
        return True
    if state.column <= column:
        return False
    if previous.kind == "binary" and current.can_break:
        before = tokens[previous.position - 1]
        comparison = previous.level in (RELATIONAL, EQUALITY) and previous.text != ">>"
        counts = (not comparison or before.ends_operands) and previous.level != ASSIGNMENT
        if counts and group.break_next and current.kind != "comment":
            return True
    elif current.kind == "binary" and current.can_break and group.break_next:
        return True
    return False


def _continues_calls(tokens: list[Token], token: Token) -> bool:
    return token.kind == "member" and tokens[token.position - 1].closing


def put_on_line(state: State) -> int:
    """Puts the next token on the current line; returns the cost."""
    tokens = state.tokens
    current, previous = tokens[state.position], tokens[state.position - 1]
    group = state.groups[-1]
    if current.text == "=" and group.variable == 0 and (current.nesting == 0 or tokens[0].text == "for"):
        group.variable = state.column - previous.width
    if previous.opening and current.kind != "comment":
        group.indent = state.column + current.spaces
    if _continues_calls(tokens, current) and state.column > new_line_column(state):
        group.builder = True
    if current.kind == "member" and previous.text == ")" and previous.end - tokens[previous.partner].end > 10:
        group.rigid = True
    if current.kind != "comment" and _fixes_operand(previous, group):
        group.rigid_operand = True
    state.column += current.spaces
    before = tokens[previous.position - 1] if previous.position else None
    condition = previous.text == "(" and before is not None and before.text in ("for", "if", "constexpr")
    if condition or previous.kind == "comma":
        group.last_space = state.column
    elif previous.kind in ("binary", "conditional"):
        operand = previous.level != ASSIGNMENT and (
            previous.text != "<<" or previous.operator_index != 0 or previous.next_operator >= 0
        )
        if operand or current.starts_operands:
            group.last_space = state.column
    elif previous.opening and previous.partner + 1 < len(tokens):
        follows = tokens[previous.partner + 1]
        if follows.kind == "member" and len(state.groups) > 1 and state.groups[-2].call_column == 0:
            group.last_space = state.column
    return _advance(state, False)


def _fixes_operand(previous: Token, group: Group) -> bool:
    """Whether the operand behind `previous`, on the same line, must not be broken itself."""
    colon = previous.kind == "conditional" and previous.text == ":"
    if not (previous.kind in ("binary", "comma") or colon) or previous.level in (ASSIGNMENT, RELATIONAL):
        return False
    leads = previous.text == "<<" or previous.kind == "conditional"
    two = previous.operator_index == 0 and previous.next_operator < 0 and previous.kind != "conditional"
    return (not leads and not two) or (leads and not group.operator_wrapped)


def put_on_new_line(state: State) -> int:
    """Puts the next token on a new line; returns the cost."""
    tokens = state.tokens
    current, previous = tokens[state.position], tokens[state.position - 1]
    group = state.groups[-1]
    cost = 0 if group.broken else _FIRST_BREAK
    group.broken = True
    cost += current.cost
    shift = current.text == "<<" and current.kind == "binary"
    if shift and group.first_shift == 0 and (state.column <= COLUMNS // 3 or group.break_next):
        cost += _FIRST_SHIFT
    state.column = new_line_column(state)
    state.breaks = (*state.breaks, (state.position, state.column))
    if current.kind == "member" and group.call_column == 0:
        group.call_column = state.column
    if previous.kind in ("comma", "binary") or previous.text == ";":
        group.break_next = False
    if previous.template and previous.closing and current.nesting == 0:
        group.break_next = False
    if current.text == "?" or previous.text == "?":
        group.break_next = True
    if current.kind == "binary":
        group.break_next = False
    group.last_space = state.column + (3 if shift else 0)
    state.line_level = state.lowest_level = current.nesting
    for outer in state.groups[:-1]:
        outer.break_next = True
    plain = previous.kind not in ("comma", "colon", "binary") and previous.text not in (":", ";")
    after_template = previous.template and previous.closing and current.nesting == 0
    if plain and not after_template and current.kind != "binary" and not previous.opening:
        group.break_next = True
    return cost + _advance(state, True)


def new_line_column(state: State) -> int:
    """The column where the next token stands if a new line starts with it."""
    tokens = state.tokens
    current, previous = tokens[state.position], tokens[state.position - 1]
    group = state.groups[-1]
    continuation = max(group.last_space, group.indent) + CONTINUATION
    if current.text == "<<" and current.kind == "binary" and group.first_shift:
        return group.first_shift
    if current.kind == "member":
        return group.call_column or continuation
    colon = current.kind == "conditional" and current.text == ":"
    if group.question and (colon or previous.kind == "conditional"):
        following = tokens[current.position + 1] if colon else current
        if (colon or previous.text == ":") and following.opens and following.opens[-1] == CONDITIONAL:
            return group.indent - CONTINUATION
        return group.question
    if previous.kind == "comma" and group.variable:
        return group.variable
    if current.text == "[":
        return group.subscripts or continuation
    if starts_name(tokens, current.position) or previous.text in ("::", "="):
        return continuation
    if previous.text == ")" and current.kind not in ("binary", "conditional", "colon", "comment"):
        return continuation
    if group.indent == state.first_indent and previous.text != "}":
        return group.indent + CONTINUATION
    return group.indent


def _advance(state: State, new_line: bool) -> int:
    """Moves past the next token, which stands at the state's column: opens and closes groups; returns the cost of the
    columns past the limit."""
    current = state.tokens[state.position]
    group = state.groups[-1]
    if current.kind in ("comma", "binary"):
        group.rigid_operand = False
    if current.text == "<<" and current.kind == "binary":
        if group.first_shift == 0:
            group.first_shift = state.column
        else:
            group.operator_wrapped = new_line
    elif current.kind == "binary":
        group.operator_wrapped = new_line
    if current.kind == "conditional" and state.tokens[state.position - 1].kind != "conditional":
        group.operator_wrapped = new_line
    if current.text == "[" and group.subscripts == 0:
        group.subscripts = state.column
    if current.text == "?":
        group.question = state.column
    if not current.opening and not current.closing and current.kind != "reference":
        state.lowest_level = min(state.lowest_level, current.nesting)
    if current.kind == "member":
        group.call_start = state.column if current.next_operator >= 0 else 0
    _open_operands(state, current, new_line)
    if current.closing and len(state.groups) > 1:
        state.groups.pop()
        follows = state.tokens[current.position + 1] if current.position + 1 < len(state.tokens) else None
        if current.text == "]" and follows is not None and follows.text != "[":
            state.groups[-1].subscripts = 0
    if current.opening:
        _open_bracket(state, current)
    for _ in range(current.closes):
        if len(state.groups) == 1:
            break
        variable = state.groups.pop().variable
        state.groups[-1].variable = variable
    state.column += current.width
    state.position += 1
    return _EXCESS * max(0, state.column - COLUMNS)


def _open_operands(state: State, current: Token, new_line: bool) -> None:
    if not current.opens:
        return
    previous = state.tokens[current.position - 1] if current.position else None
    flush = previous is not None and (
        previous.opening or previous.text in (";", "return") or previous.level == ASSIGNMENT
    )
    for level in reversed(current.opens):
        outer = state.groups[-1]
        inner = outer.copy()
        inner.broken = False
        inner.operator_wrapped = True
        inner.chained = False
        inner.rigid = inner.rigid or outer.rigid_operand
        if previous is None or previous.text != "return" or level > 0:
            inner.indent = max(state.column, inner.indent, outer.last_space)
        if level > 0:
            inner.last_space = max(inner.last_space, state.column)
        if level != CONDITIONAL and current.kind != "unary":
            inner.call_start = state.column
        chained = level == CONDITIONAL and previous is not None and previous.text == ":"
        if chained and previous is not None and previous.kind == "conditional":
            inner.chained = True
        elif level == CONDITIONAL or (not flush and level > ASSIGNMENT):
            inner.indent += CONTINUATION
        if (previous is not None and not previous.opening) or level != COMMA:
            inner.break_next = False
        state.groups.append(inner)
        flush = False


def _open_bracket(state: State, current: Token) -> None:
    group = state.groups[-1]
    last_space = group.last_space
    if current.text == "{":
        indent = group.last_space + CONTINUATION
    else:
        indent = max(group.last_space, group.call_start) + CONTINUATION
        if current.template and _inside_parentheses(state, current):
            indent = max(indent, group.indent)
            last_space = max(last_space, group.indent)
    rigid = group.rigid or group.rigid_operand or (current.template and group.builder)
    state.groups.append(Group(indent, last_space, rigid))


def _inside_parentheses(state: State, current: Token) -> bool:
    """Whether the innermost bracket around the token is a parenthesis."""
    depth = 0
    for token in reversed(state.tokens[: current.position]):
        if token.closing:
            depth += 1
        elif token.opening:
            if depth == 0:
                return token.text == "("
            depth -= 1
    return False
