"""Stores of whole fragments by stmatrix: which loops are one. Source: PTX ISA, "stmatrix"."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import Loop
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Buffer, Store
from tilegen.lower.vocabulary.conversion import PAIRS, stored_element
from tilegen.target import Target

LANES = (Mode(4, (0, 2)), Mode(8, (1, 0)))  # of an 8 x 8 matrix: pairs along a row, then rows
VALUES = (Mode(2, (0, 1)), Mode(2, (8, 0)))  # registers of two matrices, one above the other


@dataclass(frozen=True, slots=True)
class Matrices:
    """A store of a whole fragment: `transposed` where the tile's rows are the fragment's columns; `columns` counts
    groups of 8 columns."""

    source: Buffer
    target: Buffer
    transposed: bool
    columns: int


def matrices_of(loop: Loop, partition: Fragment, decisions: Decisions, machine: Target) -> Matrices | None:
    """What stmatrix stores of a loop; None where other code does. Its lanes write other elements than they hold."""
    if not machine.has("stmatrix") or len(loop.names) != 2 or not partition.exact:
        return None
    match loop.body:
        case (Store(target, places, value),) if target.scope == "shared" and target.dtype.name in PAIRS:
            load = stored_element(value)
        case _:
            return None
    names = tuple(place.name if isinstance(place, Var) else "" for place in places)
    if load is None or target.rank != 2 or names not in (loop.names, loop.names[::-1]):
        return None
    source = load.buffer
    layout = decisions.layout(target)
    if source.scope != "fragment" or tuple(load.indices) != tuple(loop.vars) or layout.transposed:
        return None
    if layout.group % layout.chunk or layout.padding % layout.chunk:
        return None
    if decisions.fragments.get(source.name) != partition or len(partition.registers) > 2:
        return None
    inner = partition.registers[-1]
    if partition.threads[:2] != LANES or inner[:2] != VALUES or len(inner) > 3:
        return None
    if len(inner) == 3 and inner[2].steps != (0, 8):
        return None
    columns = inner[2].extent if len(inner) == 3 else 1
    return Matrices(source, target, names != loop.names, columns)
