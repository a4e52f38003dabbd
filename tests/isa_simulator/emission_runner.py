"""Compiles an emission for CDNA and runs the code object in the ISA simulator, launched as its manifest says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from cdna_simulator import Report, simulate
from cdna_simulator.simulate import Order

from tilegen.emission import Emission
from tilegen.formula import compile_formulas
from tilegen.manifest import PointerParameter, ScalarParameter, Tensor
from tilegen.toolchain import compile_hip

Array = np.ndarray[Any, Any]


def simulate_emission(
    emission: Emission,
    folder: Path,
    *arrays: Array,
    scalars: Mapping[str, int | float] | None = None,
    order: Order = "forward",
    seed: int = 0,
    multiprocessors: int = 3,
) -> tuple[tuple[Array, ...], Report]:
    """The kernel's outputs (in the manifest's order, updated arguments included) and what the simulator counted.

    `arrays` are the tensors that are no outputs; they are not changed. `folder` takes the code object.
    """
    manifest = emission.manifest
    given = [tensor for tensor in manifest.tensors if tensor.role not in ("output", "scratch")]
    tensors = {tensor.name: array.copy() for tensor, array in zip(given, arrays, strict=True)}
    names: dict[str, int | float] = {**(scalars or {}), "multiprocessors": multiprocessors}
    for tensor in given:
        for extent, value in zip(tensor.shape, tensors[tensor.name].shape, strict=True):
            if extent in manifest.symbols:
                names[extent] = value
    for tensor in manifest.tensors:
        if tensor.role in ("output", "scratch"):
            tensors[tensor.name] = _empty(tensor, names)
        elif tensor.zeroed:
            tensors[tensor.name][...] = 0
    compiled = compile_hip(emission.source, emission.target)
    path = folder / f"{emission.name}.{emission.target.name}.hsaco"
    path.write_bytes(compiled.binary)
    report = simulate(
        path,
        emission.name,
        [_evaluate(extent, names) for extent in manifest.grid],
        manifest.block,
        [_argument(parameter, tensors, names) for parameter in manifest.parameters],
        dynamic_lds=manifest.shared_bytes - compiled.shared,
        order=order,
        seed=seed,
    )
    for tensor in manifest.tensors:
        assert not tensor.rests or not tensors[tensor.name].any(), f"{tensor.name} is not 0 again"
    written = [tensor.name for tensor in manifest.tensors if tensor.role not in ("input", "scratch")]
    return tuple(tensors[name] for name in written), report


def _argument(parameter: object, tensors: Mapping[str, Array], names: Mapping[str, int | float]) -> Any:
    match parameter:
        case PointerParameter():
            return tensors[parameter.tensor]
        case ScalarParameter():
            return _dtype(parameter.dtype).type(_evaluate(parameter.value, names))
        case _:
            raise AssertionError(f"no CDNA kernel takes {parameter}")


def _empty(tensor: Tensor, names: Mapping[str, int | float]) -> Array:
    """A row-major output or scratch memory: zeros where the launcher zeroes and what rests at 0, else bytes that are
    NaN in every float type."""
    assert tensor.strides is None, "a strided output would need its own buffer"
    shape = tuple(int(_evaluate(extent, names)) for extent in tensor.shape)
    dtype = _dtype(tensor.dtype)
    fill = 0x00 if tensor.zeroed or tensor.rests else 0xFF
    count = int(np.prod(shape)) * dtype.itemsize
    return np.full(count, fill, np.uint8).view(dtype).reshape(shape)


def _evaluate(formula: str, names: Mapping[str, int | float]) -> int | float:
    (value,) = compile_formulas([formula], list(names))(*names.values())
    return value


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))
