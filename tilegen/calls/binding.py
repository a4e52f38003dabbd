"""Holds a call's arrays against the manifest: solves the extents and checks the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.calls.arrays import ArrayFacts, is_row_major
from tilegen.calls.scalars import Scalar, check_scalar
from tilegen.errors import ArgumentError
from tilegen.formula import evaluate, formula_names
from tilegen.manifest import Manifest, Tensor


class ContractError(ArgumentError):
    """Arrays that fit the program but not what the emitted text assumes of them, such as K % 8 == 0."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """A call's extents by name, and the shape of every tensor, given or to be allocated, in launch order."""

    extents: Mapping[str, int]
    tensors: tuple[tuple[int, ...], ...]


def bind_shapes(manifest: Manifest, facts: Mapping[int, ArrayFacts], scalars: Mapping[str, Scalar]) -> Shapes:
    """Solves the extents from the arrays at hand and checks everything that the contract says of them.

    `facts` has the arrays by their position in `manifest.tensors`; the others are to be allocated.

    Raises:
        ArgumentError: a wrong dtype, rank, shape, stride or alignment, or arrays on different devices.
        ContractError: a requirement of the emitted text that does not hold.
    """
    try:
        return _bound_shapes(manifest, facts, scalars)
    except ArgumentError as error:
        if not manifest.called:
            raise
        parts = (error.argument, error.expected, error.got, error.remedy)
        raise type(error)(*(_as_called(part, manifest.called) for part in parts)) from None


def _as_called(text: str, called: Mapping[str, str]) -> str:
    """The text with the program's own names of extents."""
    return re.sub(r"[A-Za-z_]\w*", lambda name: called.get(name[0], name[0]), text)


def _bound_shapes(
    manifest: Manifest, facts: Mapping[int, ArrayFacts], scalars: Mapping[str, Scalar]
) -> Shapes:
    _check_devices(manifest, facts)
    extents: dict[str, int] = {}
    for position, array in facts.items():
        _check_kind(manifest.tensors[position], array)
    for position, array in facts.items():
        _solve(manifest.tensors[position], array, extents)
    for position, array in facts.items():
        _solve_strides(manifest.tensors[position], array, extents)
    environment = _environment(manifest, extents, scalars)
    for position, array in facts.items():
        _check_layout(manifest.tensors[position], array, environment)
    for requirement in manifest.requirements:
        if not evaluate((requirement.condition,), environment)[0]:
            names = formula_names(requirement.condition)
            known = ", ".join(f"{name} = {environment[name]}" for name in names)
            fixed = ", ".join(f"'{name}': {environment[name]}" for name in names)
            raise ContractError(
                _blamed(manifest, requirement.condition),
                requirement.text,
                known or "a call that breaks it",
                f"pad the array, or emit the kernel for these shapes: emit(dims={{{fixed}}})",
            )
    shapes = tuple(
        facts[position].shape if position in facts else evaluate(tensor.shape, environment)
        for position, tensor in enumerate(manifest.tensors)
    )
    return Shapes(extents, shapes)


def _environment(
    manifest: Manifest, extents: Mapping[str, int], scalars: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    for symbol in manifest.symbols:
        if symbol not in extents:
            raise ArgumentError(
                symbol,
                "an extent or a stride that some array of the call has by itself",
                "only expressions over it",
                "pass an array with an axis of that extent",
            )
    for scalar in manifest.scalars:
        if scalar.name not in scalars:
            raise ArgumentError(scalar.name, f"a number ({scalar.dtype})", "nothing", f"pass {scalar.name}=…")
        check_scalar(scalar.name, scalar.dtype, scalars[scalar.name])
    return {**extents, **scalars}


def _check_devices(manifest: Manifest, facts: Mapping[int, ArrayFacts]) -> None:
    first = next(iter(facts.items()), None)
    for position, array in facts.items():
        assert first is not None
        if array.device != first[1].device:
            raise ArgumentError(
                manifest.tensors[position].name,
                f"an array on {first[1].device}, where {manifest.tensors[first[0]].name} is",
                f"one on {array.device}",
                "move the arrays of a call to one device",
            )


def _check_kind(tensor: Tensor, array: ArrayFacts) -> None:
    if array.dtype != tensor.dtype:
        raise ArgumentError(
            tensor.name,
            f"dtype {tensor.dtype}",
            array.dtype,
            f"convert it to {tensor.dtype}, or emit for {array.dtype}",
        )
    if len(array.shape) != len(tensor.shape):
        raise ArgumentError(
            tensor.name,
            f"{len(tensor.shape)} axes ({_listing(tensor.shape)})",
            f"shape {array.shape}",
            "reshape the array",
        )


def _solve(tensor: Tensor, array: ArrayFacts, extents: dict[str, int]) -> None:
    """Binds the names that stand alone on an axis."""
    for axis, (formula, extent) in enumerate(zip(tensor.shape, array.shape, strict=True)):
        if not formula.isidentifier():
            continue
        known = extents.setdefault(formula, extent)
        if known != extent:
            raise ArgumentError(
                tensor.name,
                f"{formula} = {known} on axis {axis}, as in the arrays before it",
                f"{extent} (shape {array.shape})",
                "pass arrays whose shapes agree",
            )


def _solve_strides(tensor: Tensor, array: ArrayFacts, extents: dict[str, int]) -> None:
    """Binds the names that strides have and no axis; of an axis of one element any stride will do."""
    for axis in sorted(range(len(tensor.strides or ())), key=lambda axis: array.shape[axis] <= 1):
        formula = (tensor.strides or ())[axis]
        if formula.isidentifier():
            extents.setdefault(formula, array.strides[axis])


def _check_layout(tensor: Tensor, array: ArrayFacts, environment: Mapping[str, Scalar]) -> None:
    shape = evaluate(tensor.shape, environment)
    if shape != tuple(array.shape):
        raise ArgumentError(
            tensor.name,
            f"shape {shape} = {_listing(tensor.shape)}",
            str(tuple(array.shape)),
            "pass arrays of the shapes that the kernel is made for",
        )
    if tensor.strides is None:
        if not is_row_major(array.shape, array.strides):
            raise ArgumentError(
                tensor.name,
                "a row-major array without gaps",
                f"strides {array.strides} for shape {array.shape}",
                "pass a contiguous copy, or emit the kernel for these strides",
            )
    else:
        strides = evaluate(tensor.strides, environment)
        wrong = [a for a, extent in enumerate(shape) if extent > 1 and strides[a] != array.strides[a]]
        if wrong:
            raise ArgumentError(
                tensor.name, f"strides {strides}", str(array.strides), "emit the kernel for these strides"
            )
    if array.alignment < min(tensor.alignment, 16):
        raise ArgumentError(
            tensor.name,
            f"an address that is a multiple of {tensor.alignment} bytes",
            f"a multiple of {array.alignment} only",
            "pass a contiguous copy instead of a view that starts inside another array",
        )


def _blamed(manifest: Manifest, condition: str) -> str:
    """The tensors with an axis that a condition speaks of."""
    names = set(formula_names(condition))
    found = [tensor.name for tensor in manifest.tensors if names & set(tensor.shape)]
    return ", ".join(found) or "list"


def _listing(formulas: Sequence[str]) -> str:
    return f"[{', '.join(formulas)}]"
