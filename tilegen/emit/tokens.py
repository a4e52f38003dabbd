"""Tokens of one printed C++ statement. The printers' own spacing tells binary operators and template brackets."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?:u8|u|U|L)?"(?:[^"\\]|\\.)*"      # string
      | '(?:[^'\\]|\\.)*'                   # character
      | (?:0[xX][0-9a-fA-F]+|\.?[0-9](?:[eE][+-]|[0-9a-zA-Z_.'])*)[uUlLfF]*   # number
      | [A-Za-z_]\w*
      | <<<|>>>|<<=|>>=|->\*?|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|[-+*/%&|^]=|\.\.\.
      | \S""",
    re.VERBOSE,
)


def split_tokens(code: str) -> list[str]:
    """The tokens of a line, in order, without the blanks between them."""
    return _TOKEN.findall(code)


def bracket_balance(code: str) -> int:
    """Opened minus closed parentheses and square brackets."""
    balance = 0
    for token in split_tokens(code):
        if token in ("(", "["):
            balance += 1
        elif token in (")", "]"):
            balance -= 1
    return balance


def spaced_tokens(code: str) -> list[tuple[str, int]]:
    """The tokens of a line with the number of blanks before each."""
    found = []
    end = 0
    for match in _TOKEN.finditer(code):
        found.append((match.group(), match.start() - end))
        end = match.end()
    return found
