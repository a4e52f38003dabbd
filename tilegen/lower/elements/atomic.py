"""Atomic updates of memory: the target's instructions that need no answer, the language's functions for the rest.

Source: PTX ISA, "red"; CUDA C++ Programming Guide, "Atomic Functions".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics import ProgramError
from tilegen.ir.nodes import AtomicOp, Buffer
from tilegen.ir.types import DType
from tilegen.location import Location
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Prefix, Reinterpret
from tilegen.model.statements import CStmt, Expression
from tilegen.target import Target


@dataclass(frozen=True, slots=True)
class VectorAtomic:
    """An addition of several neighbours: the primitive's type, its function and the type of its value; `pair` says that
    its address has that type too."""

    elements: int
    type: str
    function: str
    vector: str
    pair: bool


_VECTORS = {
    ("cuda", "float32", 4): VectorAtomic(4, "f32x4", "reduce_add_v4", "float4", False),
    ("cuda", "float32", 2): VectorAtomic(2, "f32x2", "reduce_add_v2", "float2", False),
    ("cuda", "float16", 2): VectorAtomic(2, "f16x2", "reduce_add", "half2", True),
    ("cuda", "bfloat16", 2): VectorAtomic(2, "bf16x2", "reduce_add", "__nv_bfloat162", True),
    ("hip", "float16", 2): VectorAtomic(2, "f16x2", "reduce_add", "fp16x2", True),
    ("hip", "bfloat16", 2): VectorAtomic(2, "bf16x2", "reduce_add", "bf16x2", True),
}
_FUNCTIONS = {"add": "atomicAdd", "max": "atomicMax", "min": "atomicMin"}
_EXTREMES = {
    "cuda": {"float16": "f16", "bfloat16": "bf16", "float32": "f32"},
    "hip": {"float32": "f32"},
}


def vector_atomic(target: Target, op: AtomicOp, buffer: Buffer, limit: int) -> VectorAtomic | None:
    """The widest addition of at most `limit` neighbours in global memory, None where there is none."""
    if buffer.scope != "global" or op != "add":
        return None
    offered = [
        atom.elements for atom in target.atomics if (atom.operation, atom.dtype) == (op, buffer.dtype.name)
    ]
    for elements in sorted(offered, reverse=True):
        found = _VECTORS.get((target.language, buffer.dtype.name, elements))
        if found is not None and elements <= limit:
            return found
    return None


def vector_update(context: Context, atomic: VectorAtomic, target: CExpr, values: CExpr) -> CStmt:
    """Adds the neighbours from `values` on to those from `target` on."""
    context.primitive("atomic_add", type=atomic.type)
    address: CExpr = Prefix("&", target)
    if atomic.pair:
        address = Reinterpret(f"{atomic.vector}*", address, dereference=False)
    return Expression(c.call(atomic.function, address, Reinterpret(atomic.vector, values, const=True)))


def atomic_update(
    context: Context, op: AtomicOp, buffer: Buffer, target: CExpr, value: CExpr, location: Location
) -> CStmt:
    """target op= value, in one step for all threads; the old value is not needed.

    Raises:
        ProgramError: for an element type that the target cannot update atomically.
    """
    dtype, address = buffer.dtype, Prefix("&", target)
    if dtype.is_float and op != "add":
        if dtype.name not in _EXTREMES[context.target.language]:
            raise _unsupported(context, op, dtype, location)
        context.primitive("atomic_extreme", op=op, type=_EXTREMES[context.target.language][dtype.name])
        return Expression(c.call(f"atomic_{op}", address, value))
    if op == "add" and dtype.is_float:
        return _float_addition(context, buffer, address, value, location)
    if dtype.bits < 32:
        raise _unsupported(context, op, dtype, location)
    if dtype.name == "int64" and op == "add":  # two's complement: the sum is the same
        return Expression(
            c.call("atomicAdd", Reinterpret("u64*", address, dereference=False), c.call("u64", value))
        )
    return Expression(c.call(_FUNCTIONS[op], address, value))


def _float_addition(
    context: Context, buffer: Buffer, address: CExpr, value: CExpr, location: Location
) -> CStmt:
    dtype = buffer.dtype
    if dtype.bits < (32 if context.target.language == "hip" else 16):
        raise _unsupported(context, "add", dtype, location)
    if buffer.scope == "global" and dtype.name == "float32":
        context.primitive("atomic_add", type="f32")
        return Expression(c.call("reduce_add", address, value))
    return Expression(c.call("atomicAdd", address, value))


def _unsupported(context: Context, op: AtomicOp, dtype: DType, location: Location) -> ProgramError:
    return ProgramError(
        location,
        f"{context.target.name} has no atomic {op} of single {dtype} elements",
        remedy="accumulate in float32 or int32, and convert in a second kernel",
    )
