"""What the kernel is launched with: grid, block, shared memory and its parameters, evaluated for a call's shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy

from tilegen.calls.arrays import numpy_dtype, row_major_bytes
from tilegen.calls.binding import Shapes
from tilegen.calls.scalars import Scalar
from tilegen.errors import ArgumentError
from tilegen.formula import evaluate, formula_names
from tilegen.manifest import Manifest, PointerParameter, ScalarParameter, TensorMapParameter
from tilegen.runtime.launch import BoundCall, LiveScalarSlot, PointerSlot, ScalarSlot, Slot, TensorMapSlot
from tilegen.runtime.tensor_map import TensorMapRecipe
from tilegen.target import Target, load_target


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
    grid_x, grid_y, grid_z = evaluate(manifest.grid, environment)
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
                recipe = _recipe(parameter, environment, load_target(manifest.target))
                slots.append(TensorMapSlot(positions[parameter.tensor], recipe))
            case ScalarParameter():
                slots.append(_scalar_slot(parameter, names, environment))
    # On HIP the kernel declares its LDS itself; shared_bytes only reports it.
    dynamic = manifest.shared_bytes if manifest.language == "cuda" else 0
    return BoundCall((grid_x, grid_y, grid_z), manifest.block, dynamic, tuple(slots), zeroed)


def _recipe(
    parameter: TensorMapParameter, environment: Mapping[str, Scalar], target: Target
) -> TensorMapRecipe:
    assert target.tma is not None  # else the manifest has no such parameter
    return TensorMapRecipe(
        parameter.tensor,
        parameter.dtype,
        evaluate(parameter.extents, environment),
        evaluate(parameter.strides_bytes, environment),
        parameter.box,
        parameter.swizzle,
        target.tma,
    )


def _scalar_slot(
    parameter: ScalarParameter, names: Sequence[str], environment: Mapping[str, Scalar]
) -> ScalarSlot | LiveScalarSlot:
    """A user's scalar is filled in at each launch; a formula over extents is known now."""
    dtype = numpy_dtype(parameter.dtype)
    if parameter.value in names:
        return LiveScalarSlot(names.index(parameter.value), dtype.name)
    (value,) = evaluate((parameter.value,), environment)
    if dtype.kind in "iu" and not numpy.iinfo(dtype).min <= value <= numpy.iinfo(dtype).max:
        raise ArgumentError(
            parameter.name,
            f"an extent that {dtype.name} holds",
            f"{value:,}",
            "give the tensors more axes, or declare the extent as T.dynamic(name, 'int64')",
        )
    return ScalarSlot(numpy.asarray(value, dtype).tobytes())
