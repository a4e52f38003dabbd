"""The text of a kernel's SharedStorage struct."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.emit.lines import Line
from tilegen.model.expression_text import expression_text
from tilegen.model.kernel import SharedMember
from tilegen.model.shared_layout import SharedLayout, alternatives, member_groups, shared_layout

_INDENT = 2
_BARRIER = "u64"  # an mbarrier


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
                body += [_members(run, layout, _INDENT) for run in _declared_together(group, layout)]
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
    return _members([member], layout, indent)


def _members(members: Sequence[SharedMember], layout: SharedLayout, indent: int) -> Line:
    """`u64 full[kStages], empty[kStages];`"""
    first = members[0]
    alignas = f"alignas({first.alignment}) " if first.name in layout.explicit else ""
    names = ", ".join(f"{member.name}{_dimensions(member)}" for member in members)
    return Line(f"{alignas}{first.type_name} {names};", first.comment, indent)


def _dimensions(member: SharedMember) -> str:
    return "".join(f"[{expression_text(extent)}]" for extent in member.dimensions)


def _declared_together(members: Sequence[SharedMember], layout: SharedLayout) -> list[list[SharedMember]]:
    """The members in runs that a line declares: barriers of one shape, two at a time; everything else alone."""
    runs: list[list[SharedMember]] = []
    for member in members:
        last = runs[-1][-1] if runs else None
        alike = last is not None and last.type_name == member.type_name == _BARRIER and len(runs[-1]) == 1
        if alike and last is not None and _dimensions(last) == _dimensions(member) and not member.comment:
            runs[-1].append(member)
        else:
            runs.append([member])
    return runs
