"""The constants of a file in the order of its configuration: the problem, the program, who computes, the rest."""

from __future__ import annotations

import re
from dataclasses import replace

from tilegen.ir.expressions import Const
from tilegen.lower.gemms import own_k
from tilegen.lower.vocabulary.context import OWN_CONSTANTS, Context, constant_name
from tilegen.model.expressions import Literal
from tilegen.model.kernel import Constant

_COUNTS = re.compile(r"kTiles\w*|kSection|kRasterGroup|kCluster|kClusterMask")
_THREADS = ("kWarpgroup", "kConsumers", "kConsumerRows", "kConsumerColumns", own_k.CONSTANT, "kThreads")
_REGISTERS = ("kEntryRegisters", "kProducerRegisters", "kConsumerRegisters")
_STAGES = re.compile(r"k\w*Stages\w*")
_BARRIER = re.compile(r"k\w+Barrier")


def ordered_constants(context: Context) -> list[Constant]:
    """Extents of tensors, the program's own names (its parameters first), counts of tiles, threads, registers, stages;
    then the rest in the order of its use, numbers of barriers last. Plain numbers of a kind share a line."""
    extents = _extents(context)
    parameters = [constant_name(name) for name, _ in context.program.parameters]
    named = [name for name in context.constants if not OWN_CONSTANTS.fullmatch(name) and name not in extents]
    counts = [name for name in context.constants if _COUNTS.fullmatch(name)]
    stages = [name for name in context.constants if _STAGES.fullmatch(name)]
    own = dict.fromkeys([*(name for name in parameters if name in named), *named])
    order = dict.fromkeys([*extents, *own, *counts, *_THREADS, *_REGISTERS, *stages])
    barriers = [name for name in context.constants if _BARRIER.fullmatch(name) and name not in order]
    rest = [name for name in context.constants if name not in order and name not in barriers]
    rank = {name: position for position, name in enumerate((*order, *rest, *barriers))}
    found = sorted(context.constants.values(), key=lambda constant: rank[constant.name])
    return [_on_a_line(constant, extents, own) for constant in found]


def _on_a_line(constant: Constant, extents: dict[str, None], own: dict[str, None]) -> Constant:
    """The constant, marked where it shares a line with those beside it."""
    if not isinstance(constant.value, Literal) or constant.comment:
        return constant
    if constant.name in extents:
        return replace(constant, comment="of the tensors' shapes", shares_line=True)
    if constant.name in own:
        return replace(constant, shares_line=True)
    if constant.name in _REGISTERS:
        return replace(constant, comment="of a thread, once the roles part", shares_line=True)
    return constant


def _extents(context: Context) -> dict[str, None]:
    """The constants that are named after a tensor's extent, in the order of the tensors."""
    shapes = [extent for tensor in context.program.tensors for extent in tensor.shape]
    names = [constant_name(extent.name) for extent in shapes if isinstance(extent, Const) and extent.name]
    return dict.fromkeys(name for name in names if name in context.constants)
