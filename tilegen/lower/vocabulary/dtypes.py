"""C++ names of element types by language."""

from __future__ import annotations

from tilegen.ir.types import DType
from tilegen.model.dialect import dialect_of


def type_name(dtype: DType, language: str) -> str:
    """The C++ type of an element.

    Raises:
        DialectError: for a type that the language has no name for.
    """
    return dialect_of(language).type_name(dtype)
