"""The text of a kernel's SharedStorage struct."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.emit.expressions import expression_text
from tilegen.emit.lines import Line
from tilegen.model.kernel import SharedMember
from tilegen.model.shared_layout import SharedLayout, alternatives, member_groups, shared_layout

_INDENT = 2


def shared_lines(members: Sequence[SharedMember]) -> list[Line]:
    """`struct alignas(n) SharedStorage { … };`, nothing without members.

    Raises:
        SharedLayoutError: as `shared_layout`.
    """
    if not members:
        return []
    layout = shared_layout(members)
    groups = member_groups(members)
    if len(groups) == 1 and groups[0][0].union:
        kind, body = "union", _union_body(groups[0], layout, _INDENT)
    else:
        kind, body = "struct", []
        for group in groups:
            if group[0].union:
                inner = _union_body(group, layout, 2 * _INDENT)
                body += [Line("union {", "", _INDENT), *inner, Line("};", "", _INDENT)]
            else:
                body += [_member(member, layout, _INDENT) for member in group]
    return [Line(f"{kind} alignas({layout.alignment}) SharedStorage {{"), *body, Line("};")]


def _union_body(group: Sequence[SharedMember], layout: SharedLayout, indent: int) -> list[Line]:
    lines: list[Line] = []
    for run in alternatives(group):
        if len(run) == 1:
            lines.append(_member(run[0], layout, indent))
        else:
            inner = [_member(member, layout, indent + _INDENT) for member in run]
            lines += [Line("struct {", "", indent), *inner, Line("};", "", indent)]
    return lines


def _member(member: SharedMember, layout: SharedLayout, indent: int) -> Line:
    dimensions = "".join(f"[{expression_text(extent)}]" for extent in member.dimensions)
    alignas = f"alignas({member.alignment}) " if member.name in layout.explicit else ""
    return Line(f"{alignas}{member.type_name} {member.name}{dimensions};", member.comment, indent)
