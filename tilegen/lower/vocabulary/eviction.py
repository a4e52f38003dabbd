"""What a copy tells L2 of the lines that it touches: loads and stores under an eviction policy.

Source: PTX ISA, "createpolicy" and the .level::cache_hint of ld, st, cp.async and cp.async.bulk.tensor.
"""

from __future__ import annotations

from tilegen.ir.nodes import Copy
from tilegen.ir.types import DType
from tilegen.lower.vocabulary.addresses import as_vector, vector_type, zero_vector
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Prefix, Reinterpret, Ternary
from tilegen.model.statements import AssignC, CStmt, Expression

_SMALLEST = 4  # bytes that one hinted access of a thread moves


def eviction_hint(context: Context, statement: object) -> str:
    """The eviction policy of a copy; empty for other statements, and where the target's caches take no hints."""
    if isinstance(statement, Copy) and context.target.has("l2_eviction"):
        return statement.eviction
    return ""


def load_vector(
    context: Context, statement: object, element: CExpr, dtype: DType, elements: int, inside: CExpr | None
) -> CExpr:
    """The `elements` neighbours in global memory from `element` on, read under the statement's policy; zeros where they
    are not `inside`."""
    hint, size = eviction_hint(context, statement), elements * dtype.bytes
    language = context.target.language
    if not hint or size < _SMALLEST:
        return guarded(
            as_vector(element, dtype, elements, language, const=True), dtype, elements, language, inside
        )
    vector = vector_type(dtype, elements, language)
    context.primitive("load_hint", hint=hint, vector=vector, guarded=inside is not None)
    address = _address(element, dtype, elements, language, "const ")
    return c.call(f"load_{hint}", address, *([] if inside is None else [inside]))


def guarded(value: CExpr, dtype: DType, elements: int, language: str, inside: CExpr | None) -> CExpr:
    """A vector, or zeros where it is not `inside`."""
    return value if inside is None else Ternary(inside, value, zero_vector(dtype, elements, language))


def store_vector(
    context: Context, statement: object, element: CExpr, value: CExpr, dtype: DType, elements: int
) -> CStmt:
    """Writes the vector `value` to global memory from `element` on, under the statement's policy."""
    hint, size = eviction_hint(context, statement), elements * dtype.bytes
    language = context.target.language
    if not hint or size < _SMALLEST:
        return AssignC(as_vector(element, dtype, elements, language), value)
    context.primitive("store_hint", hint=hint, vector=vector_type(dtype, elements, language))
    return Expression(c.call(f"store_{hint}", _address(element, dtype, elements, language), value))


def _address(element: CExpr, dtype: DType, elements: int, language: str, const: str = "") -> CExpr:
    pointer = f"{const}{vector_type(dtype, elements, language)}*"
    return Reinterpret(pointer, Prefix("&", element), dereference=False)
