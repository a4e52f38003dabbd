"""Finds names of a program that lowered text hides behind names of its own.

A tile program may call its variables as it likes. The text declares names too (`i`, `row`, `mi`, `thread`, …), some of
them inside a user's loop, where what the user called the same would silently mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import cast

from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Buffer, Program
from tilegen.ir.walk import each_node
from tilegen.lower.pipelines.tile_draw import DRAW_MEMBERS
from tilegen.lower.reductions.block_sums import SUM_MEMBERS, sums_of
from tilegen.model.expressions import Lambda
from tilegen.model.statements import CStmt, Declare, ForC, IfC, Scope, WhileC
from tilegen.schedule.plan import Plan


def hidden_names(body: Sequence[CStmt], program: Program, taken: Collection[str] = ()) -> tuple[str, ...]:
    """Names of the program's scalars, tensors and register buffers that `body`, lowered text, declares where the same
    name is in reach already, and names of arguments that are `taken`. Variables of parallel loops are left out: each
    loop finds them free names."""
    declared: tuple[Buffer | Var, ...] = (*program.tensors, *program.scalars, *program.extents)
    arguments = [argument.name for argument in declared]
    search = _Search(frozenset(declared_in(program)))
    search.found.update(dict.fromkeys(name for name in arguments if name in taken))
    search.statements(body, frozenset(arguments))
    return tuple(search.found)


def hidden_tiles(program: Program, plan: Plan) -> tuple[str, ...]:
    """Names of the program's shared tiles that SharedStorage wants for what producer and consumers tell each other."""
    members = {name for hand_over in plan.hand_overs for name in hand_over.barriers}
    members |= set(DRAW_MEMBERS) if plan.draws_tiles else set()
    members |= set(SUM_MEMBERS) if sums_of(program.kernel) is not None else set()
    tiles = (buffer.name for buffer in program.kernel.allocations if buffer.scope == "shared")
    return tuple(name for name in tiles if name in members)


def declared_in(program: Program) -> Iterable[str]:
    """The names of scalars, tensors and register buffers; variables of parallel loops are left out."""
    for node in each_node(program):
        match node:
            case Var(name=name, role=role) if role != "parallel":
                yield name
            case Buffer(name=name, scope=scope) if scope != "shared":
                yield name
            case _:
                pass


class _Search:
    """`found` collects those of `wanted` that are declared where the same name is in reach."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.found: dict[str, None] = {}

    def statements(self, body: Sequence[CStmt], reach: frozenset[str]) -> None:
        for statement in body:
            match statement:
                case Declare(name=name, value=value, structured=structured, also=also):
                    # Of `device = 0, multiprocessors`, both.
                    names = structured or (*re.findall(r"[A-Za-z_]\w*", name), *also)
                    reach = self._declare(names, reach)
                    if isinstance(value, Lambda):
                        inner = self._declare([parameter for _, parameter in value.parameters], reach)
                        self.statements(cast("tuple[CStmt, ...]", value.body), inner)
                case ForC(variable=variable, turns=turns, body=inside):
                    variables = [variable, turns] if turns else [variable]
                    self.statements(inside, self._declare(variables, reach))
                case IfC(then=then, otherwise=otherwise):
                    self.statements(then, reach)
                    self.statements(otherwise, reach)
                case WhileC(body=inside) | Scope(body=inside):
                    self.statements(inside, reach)
                case _:
                    pass

    def _declare(self, names: Sequence[str], reach: frozenset[str]) -> frozenset[str]:
        self.found.update(dict.fromkeys(name for name in names if name in reach and name in self.wanted))
        return reach | frozenset(names)
