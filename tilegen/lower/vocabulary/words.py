"""How comments and the header put words together."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """`A, B and C`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def settled(written: Sequence[str], read: Sequence[str] = ()) -> str:
    """What is over at a barrier: `A and B have been written, C has been read`."""
    done = (written, "written"), ([name for name in read if name not in written], "read")
    parts = [
        f"{listed(names)} {'has' if len(names) == 1 else 'have'} been {what}" for names, what in done if names
    ]
    return ", ".join(parts)


def counted(count: int, thing: str) -> str:
    """`1 load`, `2 loads`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
