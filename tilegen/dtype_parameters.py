"""Parameters for element types: `dtype: T.dtype = T.float16` takes the type of the tensors that are given."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from tilegen.frontend.source import source_of
from tilegen.ir.types import DType, as_dtype
from tilegen.language.tensors import TensorSpec

Function = Callable[..., Any]


def bind_dtypes(
    function: Function, tensors: Mapping[str, TensorSpec], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters, and a value for each one annotated `T.dtype` that is not among them: the element type of the
    first given tensor that the program declares with it, `X: T.Tensor(shape, dtype)`. Where there is none, the
    parameter's default holds. Names of types become types.

    Raises:
        TilegenError: for a value that names no element type.
    """
    bound = dict(parameters)
    for name in dtype_parameters(function):
        if name in bound:
            bound[name] = as_dtype(bound[name])
            continue
        for tensor in _declared_with(function, name):
            if tensor in tensors:
                bound[name] = tensors[tensor].dtype
                break
    return bound


@cache
def dtype_parameters(function: Function) -> tuple[str, ...]:
    """The parameters annotated `T.dtype`, in order."""
    return tuple(name for name, annotation in evaluated_annotations(function) if annotation is DType)


def evaluated_annotations(function: Function) -> Iterator[tuple[str, object]]:
    """The parameters with their annotations, in order; those that only the tile program's body can evaluate are left
    out."""
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):  # from __future__ import annotations
            try:
                annotation = eval(annotation, getattr(function, "__globals__", {}))
            except Exception:  # names that only the body knows
                continue
        yield name, annotation


@cache
def _declared_with(function: Function, parameter: str) -> tuple[str, ...]:
    """The tensors whose declarations in the body name the parameter as their element type, in order."""
    nodes = [node for node in ast.walk(source_of(function).tree) if isinstance(node, ast.AnnAssign)]
    return tuple(
        node.target.id
        for node in sorted(nodes, key=lambda node: node.lineno)
        if isinstance(node.target, ast.Name) and _names_dtype(node.annotation, parameter)
    )


def _names_dtype(annotation: ast.expr, parameter: str) -> bool:
    match annotation:
        case ast.Call(args=[_, ast.Name(id=name), *_]):
            return name == parameter
        case ast.Call(keywords=keywords):
            return any(
                keyword.arg == "dtype"
                and isinstance(keyword.value, ast.Name)
                and keyword.value.id == parameter
                for keyword in keywords
            )
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Name(id=name)])):
            return name == parameter
        case _:
            return False
