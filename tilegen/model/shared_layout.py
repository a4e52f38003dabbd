"""Where the members of a kernel's SharedStorage lie: order, unions, offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tilegen.errors import TilegenError
from tilegen.model.kernel import SharedMember

_NATURAL = {
    "half": 2, "fp16": 2, "bf16": 2, "__nv_bfloat16": 2, "u16": 2, "i16": 2, "bool": 1, "i8": 1, "u8": 1,
    "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1, "u64": 8, "i64": 8, "double": 8,
}  # fmt: skip


class SharedLayoutError(TilegenError):
    """Members of shared storage that contradict one another."""


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Where each member lies, in bytes from the start; `size` is sizeof(SharedStorage). Members of `explicit` need
    `alignas`: what precedes them does not give them their alignment."""

    offsets: dict[str, int]
    size: int
    alignment: int
    explicit: tuple[str, ...]


def shared_layout(members: Sequence[SharedMember]) -> SharedLayout:
    """The layout that C++ gives a struct of these members.

    Raises:
        SharedLayoutError: when a name occurs twice, or the members of a union do not stand together.
    """
    names = [member.name for member in members]
    if len(set(names)) != len(names):
        raise SharedLayoutError("two members of shared storage have the same name")
    offsets: dict[str, int] = {}
    explicit: list[str] = []
    end = 0
    for group in member_groups(members):
        start = _aligned(end, max(member.alignment for member in group))
        if start != end:
            explicit += [max(group, key=lambda member: member.alignment).name] if group[0].union else []
        if not group[0].union:
            start = end
        placed = [_place(run, start, offsets, explicit) for run in alternatives(group)]
        end = max(end for end, _ in placed)
        if group[0].union:  # the size of a union is a multiple of its alignment
            end = _aligned(end, max(strictest for _, strictest in placed))
    alignment = max((member.alignment for member in members), default=1)
    return SharedLayout(offsets, _aligned(end, alignment), alignment, tuple(explicit))


def _place(
    run: Sequence[SharedMember], start: int, offsets: dict[str, int], explicit: list[str]
) -> tuple[int, int]:
    """Lays members one after another from `start` on; returns where they end, and their strictest alignment as C++
    sees it."""
    position = start
    strictest = 1
    for member in run:
        aligned = _aligned(position, member.alignment)
        if aligned != position:
            explicit.append(member.name)
        offsets[member.name] = aligned
        position = aligned + member.bytes
        strictest = max(
            strictest, member.alignment if member.name in explicit else _natural(member.type_name)
        )
    return position, strictest


def _natural(type_name: str) -> int:
    """The alignment in bytes that C++ gives a type of the emitted files."""
    vector = re.fullmatch(r"[a-z]+(\d+)x(\d+)", type_name)
    if vector:
        return int(vector[1]) // 8 * int(vector[2])
    return _NATURAL.get(type_name, 4)


def member_groups(members: Sequence[SharedMember]) -> list[list[SharedMember]]:
    """Runs of members of one union, and runs of members outside any."""
    groups = [list(group) for _, group in groupby(members, key=lambda member: member.union)]
    unions = [group[0].union for group in groups if group[0].union]
    if len(set(unions)) != len(unions):
        raise SharedLayoutError("the members of a union of shared storage must stand together")
    return groups


def alternatives(group: Sequence[SharedMember]) -> list[list[SharedMember]]:
    """The group's members by alternative; outside unions the group is one run."""
    if not group[0].union:
        return [list(group)]
    ordered = sorted(group, key=lambda member: member.alternative)
    return [list(run) for _, run in groupby(ordered, key=lambda member: member.alternative)]


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
