"""Holds a call's arrays against the manifest: solves the extents, checks the contract, evaluates the launch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy

from tilegen.formula import compile_formulas, formula_names
from tilegen.manifest import Manifest, PointerParameter, ScalarParameter, Tensor, TensorMapParameter
from tilegen.runtime.arrays import ArrayFacts, is_row_major, numpy_dtype, row_major_bytes
from tilegen.runtime.errors import ArgumentError
from tilegen.runtime.launch import BoundCall, LiveScalarSlot, PointerSlot, ScalarSlot, Slot, TensorMapSlot
from tilegen.runtime.tensor_map import TensorMapRecipe

Scalar = int | float | bool


def as_number(name: str, value: object) -> Scalar:
    """A call's value for a scalar parameter as a Python number.

    Raises:
        ArgumentError: if it is none.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise ArgumentError(name, "a number", repr(value), "pass a Python number, such as array.item()")
    return value


def check_scalar(name: str, dtype: str, value: Scalar) -> None:
    """Raises ArgumentError for a number that an argument's element type cannot hold."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        if not isinstance(value, int):
            raise ArgumentError(name, f"an integer ({dtype})", repr(value), "round it yourself")
        limits = numpy.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise ArgumentError(
                name, f"an integer that {dtype} holds", f"{value:,}", "declare the argument with a wider type"
            )
    elif isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise ArgumentError(
                name, f"a number ({dtype})", "an integer beyond all floats", "pass a float"
            ) from None


def whole_numbers(scalars: Sequence[Scalar]) -> tuple[int | None, ...]:
    """What of a call's scalars may decide its launch: integers, each at its place."""
    return tuple(scalar if isinstance(scalar, int) else None for scalar in scalars)


@dataclass(frozen=True, slots=True)
class Apart:
    """Two arrays of a call, the first one written, that must not share memory: their names, their places among the
    call's addresses and their sizes in bytes."""

    names: tuple[str, str]
    places: tuple[int, int]
    sizes: tuple[int, int]


class ContractError(ArgumentError):
    """Arrays that fit the program but not what the emitted text assumes of them, such as K % 8 == 0."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """A call's extents by name, and the shape of every tensor, given or to be allocated, in launch order."""

    extents: Mapping[str, int]
    tensors: tuple[tuple[int, ...], ...]


def allocated(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that a call makes and returns, in return order."""
    positions = {tensor.name: position for position, tensor in enumerate(manifest.tensors)}
    return tuple(
        positions[name] for name in manifest.outputs if manifest.tensors[positions[name]].role == "output"
    )


def supplied(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that the caller passes, in launch order."""
    other = {*allocated(manifest), *scratch(manifest)}
    return tuple(position for position in range(len(manifest.tensors)) if position not in other)


def scratch(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that a call makes for the kernel alone."""
    return tuple(p for p, tensor in enumerate(manifest.tensors) if tensor.role == "scratch")


def check_count(manifest: Manifest, positions: Sequence[int], given: int) -> None:
    """Raises ArgumentError unless as many arrays are given as there are positions to fill."""
    if given != len(positions):
        names = ", ".join(manifest.tensors[position].name for position in positions)
        count = f"{len(positions)} array{'' if len(positions) == 1 else 's'}"
        numbers = ", ".join(f"{scalar.keyword}=…" for scalar in manifest.scalars)
        remedy = "pass the arrays in the program's order" + (
            f", numbers by name: {numbers}" if numbers else ""
        )
        raise ArgumentError("list", f"{count} ({names})", f"{given}", remedy)


def arrays_apart(
    manifest: Manifest, facts: Mapping[int, ArrayFacts], places: Mapping[int, int]
) -> tuple[Apart, ...]:
    """The pairs of given arrays that the kernel takes to be apart: what it writes, and everything else.

    `facts` and `places` are by position in `manifest.tensors`.
    """
    sizes = {position: _span(array) for position, array in facts.items()}
    pairs = []
    for written in facts:
        if manifest.tensors[written].role == "input":
            continue
        for other in facts:
            if other == written or (manifest.tensors[other].role != "input" and other < written):
                continue
            names = manifest.tensors[written].name, manifest.tensors[other].name
            pairs.append(Apart(names, (places[written], places[other]), (sizes[written], sizes[other])))
    return tuple(pairs)


def check_apart(pairs: Sequence[Apart], addresses: Sequence[int]) -> None:
    """Raises ArgumentError where two such arrays share memory."""
    for pair in pairs:
        first, second = addresses[pair.places[0]], addresses[pair.places[1]]
        if first < second + pair.sizes[1] and second < first + pair.sizes[0]:
            raise ArgumentError(
                pair.names[0],
                f"memory that {pair.names[1]} does not use",
                "arrays that overlap",
                "pass a copy of one of them: a tensor that is written overlaps no other",
            )


def _span(array: ArrayFacts) -> int:
    """The bytes from an array's first element to the end of its last one."""
    if 0 in array.shape:
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return (1 + last) * numpy_dtype(array.dtype).itemsize


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
        if not _evaluate((requirement.condition,), environment)[0]:
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
        facts[position].shape if position in facts else _evaluate(tensor.shape, environment)
        for position, tensor in enumerate(manifest.tensors)
    )
    return Shapes(extents, shapes)


def bind_call(
    manifest: Manifest,
    shapes: Shapes,
    scalars: Mapping[str, Scalar],
    multiprocessors: int,
    clusters: Callable[[], int] = lambda: 0,
) -> BoundCall:
    """The launch for these shapes: grid, block, shared memory and the kernel's parameters. `clusters` counts those that
    the device runs at once; it is asked where the grid is made of them."""
    environment = {**shapes.extents, **scalars, "multiprocessors": multiprocessors}
    if any("clusters" in formula_names(extent) for extent in manifest.grid):
        environment["clusters"] = clusters()
    sizes = [
        (position, row_major_bytes(shapes.tensors[position], tensor.dtype))
        for position, tensor in enumerate(manifest.tensors)
        if tensor.zeroed
    ]
    zeroed = tuple((position, size) for position, size in sizes if size)
    grid_x, grid_y, grid_z = _evaluate(manifest.grid, environment)
    if min(grid_x, grid_y, grid_z) <= 0:
        return BoundCall((0, 0, 0), manifest.block, 0, (), zeroed)  # no block has anything to do
    positions = {tensor.name: position for position, tensor in enumerate(manifest.tensors)}
    names = [scalar.name for scalar in manifest.scalars]
    slots: list[Slot] = []
    for parameter in manifest.parameters:
        match parameter:
            case PointerParameter():
                slots.append(PointerSlot(positions[parameter.tensor]))
            case TensorMapParameter():
                recipe = _recipe(parameter, environment)
                slots.append(TensorMapSlot(positions[parameter.tensor], recipe))
            case ScalarParameter():
                slots.append(_scalar_slot(parameter, names, environment))
    # On HIP the kernel declares its LDS itself; shared_bytes only reports it.
    dynamic = manifest.shared_bytes if manifest.language == "cuda" else 0
    return BoundCall((grid_x, grid_y, grid_z), manifest.block, dynamic, tuple(slots), zeroed)


def _recipe(parameter: TensorMapParameter, environment: Mapping[str, Scalar]) -> TensorMapRecipe:
    return TensorMapRecipe(
        parameter.tensor,
        parameter.dtype,
        _evaluate(parameter.extents, environment),
        _evaluate(parameter.strides_bytes, environment),
        parameter.box,
        parameter.swizzle,
    )


def _scalar_slot(
    parameter: ScalarParameter, names: Sequence[str], environment: Mapping[str, Scalar]
) -> ScalarSlot | LiveScalarSlot:
    """A user's scalar is filled in at each launch; a formula over extents is known now."""
    dtype = numpy_dtype(parameter.dtype)
    if parameter.value in names:
        return LiveScalarSlot(names.index(parameter.value), dtype.name)
    (value,) = _evaluate((parameter.value,), environment)
    if dtype.kind in "iu" and not numpy.iinfo(dtype).min <= value <= numpy.iinfo(dtype).max:
        raise ArgumentError(
            parameter.name,
            f"an extent that {dtype.name} holds",
            f"{value:,}",
            "give the tensors more axes, or declare the extent as T.dynamic(name, 'int64')",
        )
    return ScalarSlot(numpy.asarray(value, dtype).tobytes())


@lru_cache(maxsize=4096)
def _compiled(formulas: tuple[str, ...]) -> tuple[tuple[str, ...], object]:
    names = tuple(dict.fromkeys(name for formula in formulas for name in formula_names(formula)))
    return names, compile_formulas(formulas, names)


def _evaluate(formulas: tuple[str, ...], environment: Mapping[str, Scalar]) -> tuple[int, ...]:
    names, function = _compiled(formulas)
    assert callable(function)
    values: tuple[int, ...] = function(*(environment[name] for name in names))
    return values


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
    shape = _evaluate(tensor.shape, environment)
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
        strides = _evaluate(tensor.strides, environment)
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
