"""Layouts of registered operations: what they demand, what follows from what is known, and where that clashes."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment
from tilegen.inference.operations import OperationCall, TileLayout, call_of, fragments_of, registered
from tilegen.ir.nodes import Buffer, CustomOperation, Stmt
from tilegen.target import Target


def custom_calls(statements: list[Stmt], threads: int, target: Target) -> list[OperationCall]:
    """The calls of registered operations, each found possible by its operation.

    Raises:
        ProgramError: when an operation refuses its call.
    """
    calls = []
    for statement in statements:
        if isinstance(statement, CustomOperation):
            call = call_of(statement, threads, target)
            registered(statement.operation).check(call)
            calls.append(call)
    return calls


def take_demands(calls: list[OperationCall], decisions: Decisions) -> None:
    """Gives tiles the layouts that operations demand.

    Raises:
        ProgramError: when two statements demand different layouts of one tile.
    """
    for call in calls:
        demanded = registered(call.statement.operation).demands(call)
        for parameter, layout in demanded.items():
            buffer = call.tiles[parameter].buffer
            if isinstance(layout, Fragment):
                known: TileLayout | None = decisions.fragments.get(buffer.name)
                if known is not None and not (
                    isinstance(known, Fragment) and known.same_distribution(layout)
                ):
                    raise _clash(call, parameter, buffer, layout, known, decisions)
                decisions.fragments.setdefault(buffer.name, layout)
            else:
                known = decisions.shared.get(buffer.name)
                if known is not None and known != layout:
                    raise _clash(call, parameter, buffer, layout, known, decisions)
                decisions.shared.setdefault(buffer.name, layout)
            decisions.reasons.setdefault(
                buffer.name, f"{call.statement.operation} at {call.statement.location} demands it"
            )


def through_operation(call: OperationCall, decisions: Decisions) -> bool:
    """Carries layouts from an operation's known tiles to the others; whether one became known."""
    changed = False
    for parameter, layout in _offered(call, decisions).items():
        buffer = call.tiles[parameter].buffer
        if buffer.scope == "fragment" and buffer.name not in decisions.fragments:
            decisions.fragments[buffer.name] = layout
            decisions.reasons[buffer.name] = (
                f"{call.statement.operation} at {call.statement.location} offers it"
            )
            changed = True
    return changed


def check_offers(calls: list[OperationCall], decisions: Decisions) -> None:
    """Raises ProgramError where a fragment is laid out otherwise than an operation needs it beside its other tiles."""
    for call in calls:
        for parameter, layout in _offered(call, decisions).items():
            buffer = call.tiles[parameter].buffer
            known = decisions.fragments[buffer.name]
            if not known.same_distribution(layout):
                raise _clash(call, parameter, buffer, layout, known, decisions)


def _offered(call: OperationCall, decisions: Decisions) -> dict[str, Fragment]:
    known: dict[str, TileLayout] = {
        parameter: decisions.fragments[buffer.name]
        for parameter, buffer in fragments_of(call)
        if buffer.name in decisions.fragments
    }
    for parameter, region in call.tiles.items():
        if region.buffer.scope == "shared" and region.buffer.name in decisions.shared:
            known[parameter] = decisions.shared[region.buffer.name]
    return dict(registered(call.statement.operation).offers(call, known))


def _clash(
    call: OperationCall,
    parameter: str,
    buffer: Buffer,
    wanted: TileLayout,
    known: TileLayout,
    decisions: Decisions,
) -> ProgramError:
    name = call.statement.operation
    kind = "fragment" if isinstance(wanted, Fragment) else "shared tile"
    return ProgramError(
        call.statement.location,
        f"{name} needs {buffer.name} ({parameter}) laid out as {wanted}, but it is laid out as {known}",
        related=[
            (buffer.location, f"{buffer.name}: {decisions.reasons.get(buffer.name, 'by another statement')}")
        ],
        remedy=f"copy {buffer.name} to a {kind} of its own with T.copy, and pass that to {name}",
    )
