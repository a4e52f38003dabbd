"""Atomic updates of memory."""

from __future__ import annotations

from tilegen.ir.nodes import AtomicOp, Buffer
from tilegen.lower.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Prefix
from tilegen.model.statements import CStmt, Expression

_FUNCTIONS = {"add": "atomicAdd", "max": "atomicMax", "min": "atomicMin"}


def atomic_update(context: Context, op: AtomicOp, buffer: Buffer, target: CExpr, value: CExpr) -> CStmt:
    """target op= value, in one step for all threads; the old value is not needed."""
    return Expression(c.call(_FUNCTIONS[op], Prefix("&", target), value))
