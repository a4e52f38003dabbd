"""How comments and the header put words together."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """`A, B and C`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def counted(count: int, thing: str) -> str:
    """`1 load`, `2 loads`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
