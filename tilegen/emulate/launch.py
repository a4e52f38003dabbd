"""From NumPy arrays and a manifest to the job that the emulator's program reads, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilegen.calls.scalars import as_number, check_scalar
from tilegen.emulate.errors import EmulationError
from tilegen.emulate.facts import Facts
from tilegen.errors import ArgumentError
from tilegen.formula import FormulaError, compile_formulas, formula_names

Array = np.ndarray[Any, Any]
Number = int | float

_ELEMENTS = {  # as core/nvidia/state.hpp numbers them; what TMA only moves goes by its size
    "float16": 0,
    "bfloat16": 1,
    "float32": 2,
    "float64": 3,
    "int32": 4,
    "uint32": 5,
    "int64": 6,
    "uint64": 7,
    "int16": 8,
    "uint16": 9,
    "int8": 10,
    "uint8": 11,
}
_CHOICES = {"schedule": ("fifo", "reverse", "random"), "asynchronous": ("eager", "lazy", "random")}
_MAX_BOX = 256
_TMA_ALIGNMENT = 16
_REGISTER_FILE = 65536  # of a multiprocessor
_MAX_REGISTERS = 256  # of a thread, as setmaxnreg counts them


@dataclass(frozen=True, slots=True)
class Settings:
    """How the emulated machine behaves where the device leaves it open.

    Raises:
        EmulationError: (kind "argument") a value that no machine has.
    """

    schedule: str
    asynchronous: str
    seed: int
    multiprocessors: int
    timeout: float

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise EmulationError(
                    "argument", f"{name}={getattr(self, name)!r} is none of {', '.join(choices)}"
                )
        for name in ("seed", "multiprocessors"):
            if not isinstance(getattr(self, name), int | np.integer):
                raise EmulationError("argument", f"{name}={getattr(self, name)!r} is no integer")
        if self.multiprocessors < 1:
            raise EmulationError(
                "argument", f"multiprocessors={self.multiprocessors}: there must be one at least"
            )


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type of a manifest's dtype name, ml_dtypes' included."""
    return np.dtype(getattr(ml_dtypes, name, name))


def evaluate(formula: str | Number, names: Mapping[str, Number]) -> Number:
    """The value of a manifest's formula. Raises EmulationError (kind "manifest") if it is none."""
    if not isinstance(formula, str):
        return formula
    try:
        (value,) = compile_formulas([formula], list(names))(*names.values())
    except FormulaError as error:
        raise EmulationError("manifest", str(error)) from error
    return value


def evaluate_int(formula: str | Number, names: Mapping[str, Number]) -> int:
    """evaluate(), for what must be an integer."""
    value = evaluate(formula, names)
    if value != int(value):
        raise EmulationError("manifest", f"'{formula}' is {value}, which is not an integer")
    return int(value)


class Launch:
    """One launch: the tensors' bytes, the values of extents and scalars, and the job text."""

    def __init__(
        self,
        facts: Facts,
        arrays: Sequence[Array] | Mapping[str, Array],
        scalars: Mapping[str, Number],
        settings: Settings,
        resident_blocks: int,
    ) -> None:
        self._facts = facts
        self._settings = settings
        self._resident_blocks = resident_blocks
        self._tensors: list[Mapping[str, Any]] = list(facts["tensors"])
        self._arrays = self._named(arrays)
        cluster = prod(facts.get("cluster", [1, 1, 1]))
        self.names: dict[str, Number] = {
            **scalars,
            "multiprocessors": settings.multiprocessors,
            "clusters": max(1, settings.multiprocessors // cluster),
        }
        self._solve_symbols()
        self._check_scalars(scalars)
        self._shapes = {tensor["name"]: self._shape(tensor) for tensor in self._tensors}
        self._check_shapes()
        self._check_contract()
        self.grid = tuple(evaluate_int(extent, self.names) for extent in facts["grid"])

    def _named(self, arrays: Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
        wanted = [tensor["name"] for tensor in self._tensors if tensor["role"] in ("input", "inout")]
        if not isinstance(arrays, Mapping):
            if len(arrays) != len(wanted):
                count = f"{len(wanted)} array{'' if len(wanted) == 1 else 's'}"
                numbers = [
                    scalar.get("argument") or scalar["name"] for scalar in self._facts.get("scalars", ())
                ]
                given = ", ".join(f"'{name}': …" for name in numbers)
                by_name = f"; numbers are passed by name, scalars={{{given}}}" if numbers else ""
                raise EmulationError(
                    "argument", f"the kernel takes {count} ({', '.join(wanted)}), not {len(arrays)}{by_name}"
                )
            arrays = dict(zip(wanted, arrays, strict=True))
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise EmulationError("argument", f"no array is given for {', '.join(missing)}")
        named = {name: np.asarray(arrays[name]) for name in wanted}
        for tensor in self._tensors:
            array = named.get(tensor["name"])
            if array is not None and array.dtype != dtype_of(tensor["dtype"]):
                raise EmulationError("argument", f"{tensor['name']} is {array.dtype}, not {tensor['dtype']}")
        return named

    def _solve_symbols(self) -> None:
        """Binds each extent that a tensor's shape names alone, and each stride."""
        symbols = set(self._facts.get("symbols", ()))
        for tensor in self._tensors:
            array = self._arrays.get(tensor["name"])
            if array is None:
                continue
            if array.ndim != len(tensor["shape"]):
                raise EmulationError(
                    "argument", f"{tensor['name']} has {array.ndim} dimensions, not {len(tensor['shape'])}"
                )
            for extent, value in zip(tensor["shape"], array.shape, strict=True):
                if isinstance(extent, str) and extent in symbols:
                    self.names.setdefault(extent, value)
        for tensor in self._tensors:
            if (array := self._arrays.get(tensor["name"])) is not None:
                axes = sorted(
                    range(len(tensor.get("strides") or ())), key=lambda axis: array.shape[axis] <= 1
                )
                for axis in axes:
                    if tensor["strides"][axis] in symbols:
                        self.names.setdefault(tensor["strides"][axis], array.strides[axis] // array.itemsize)

    def _check_scalars(self, scalars: Mapping[str, Number]) -> None:
        """Each scalar argument has a value that its type holds, and there is no value for anything else."""
        wanted = {scalar["name"]: scalar for scalar in self._facts.get("scalars", ())}
        called = {name: scalar.get("argument") or name for name, scalar in wanted.items()}
        for name, scalar in wanted.items():
            if name not in scalars:
                raise EmulationError(
                    "argument", f"no value is given for {called[name]}: pass scalars={{'{called[name]}': …}}"
                )
            try:
                check_scalar(called[name], scalar["dtype"], as_number(called[name], scalars[name]))
            except ArgumentError as error:
                raise EmulationError(
                    "argument", f"{called[name]}: expected {error.expected}, got {error.got}"
                ) from None
        read = {
            name
            for parameter in self._facts["parameters"]
            if parameter["kind"] == "scalar"
            for name in formula_names(str(parameter["value"]))
        }
        unknown = [name for name in scalars if name not in {*wanted, *read, *self._facts.get("symbols", ())}]
        if unknown:
            has = ", ".join(called.values()) or "none"
            raise EmulationError("argument", f"the kernel has no scalar {unknown[0]}; it has {has}")

    def _shape(self, tensor: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(evaluate_int(extent, self.names) for extent in tensor["shape"])

    def _check_shapes(self) -> None:
        for name, array in self._arrays.items():
            if array.shape != self._shapes[name]:
                raise EmulationError(
                    "argument", f"{name} has the shape {array.shape}, not {self._shapes[name]}"
                )

    def _check_contract(self) -> None:
        """What the launcher of the file checks before it launches. Arrays are copied to where they are aligned."""
        for requirement in self._facts.get("requirements", ()):
            if not evaluate(requirement["condition"], self.names):
                used = formula_names(requirement["condition"])
                values = ", ".join(f"{name} = {self.names[name]}" for name in used if name in self.names)
                raise EmulationError(
                    "argument",
                    f"the launcher refuses the call: {requirement['text']} is required, but {values}",
                )

    def _strides(self, tensor: Mapping[str, Any]) -> tuple[int, ...]:
        """In elements; row-major unless the manifest says otherwise."""
        if tensor.get("strides") is not None:
            return tuple(evaluate_int(stride, self.names) for stride in tensor["strides"])
        strides: list[int] = []
        step = 1
        for extent in reversed(self._shapes[tensor["name"]]):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def _storage(self, tensor: Mapping[str, Any]) -> tuple[Array, Array]:
        """The bytes of a tensor in memory, and the tensor as a view of them. What nothing has written is all ones: NaN
        in every floating-point type."""
        dtype = dtype_of(tensor["dtype"])
        shape, strides = self._shapes[tensor["name"]], self._strides(tensor)
        elements = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        if 0 in shape:
            elements = 0
        fill = 0 if tensor.get("zeroed") or tensor.get("rests") else 0xFF
        storage = np.full(elements * dtype.itemsize, fill, dtype=np.uint8)
        words = storage.view(
            np.dtype(f"u{dtype.itemsize}")
        )  # as_strided does not know all of ml_dtypes' types
        view = np.lib.stride_tricks.as_strided(
            words, shape, tuple(stride * dtype.itemsize for stride in strides)
        )
        return storage, view.view(dtype)

    def write(self, job: Path, data: Path) -> None:
        """Writes the job and the tensors' bytes."""
        lines = self._configuration()
        with data.open("wb") as file:
            for tensor in self._tensors:
                storage, view = self._storage(tensor)
                array = self._arrays.get(tensor["name"])
                if array is not None:
                    view[...] = array
                file.write(storage.tobytes())
                shift = (
                    dtype_of(tensor["dtype"]).itemsize & -dtype_of(tensor["dtype"]).itemsize
                ).bit_length() - 1
                role = "inout" if tensor.get("zeroed") or tensor.get("rests") else tensor["role"]
                alignment = tensor.get("alignment", _TMA_ALIGNMENT)
                lines.append(f"tensor {tensor['name']} {storage.size} {shift} {role} {alignment}")
        lines += [self._parameter(parameter) for parameter in self._facts["parameters"]]
        job.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def read(self, data: Path) -> tuple[Array, ...]:
        """The outputs after the run."""
        outputs: list[Array] = []
        with data.open("rb") as file:
            for tensor in self._tensors:
                storage, view = self._storage(tensor)
                storage[:] = np.frombuffer(file.read(storage.size), dtype=np.uint8)
                if tensor.get("rests") and storage.any():
                    raise EmulationError("rest", f"{tensor['name']} is not 0 again after the launch")
                if tensor["role"] in ("output", "inout"):
                    outputs.append(view)
        return tuple(outputs)

    def _configuration(self) -> list[str]:
        facts, settings = self._facts, self._settings
        block = [int(extent) for extent in facts["block"]]
        threads = block[0] * block[1] * block[2]
        share = _REGISTER_FILE // (threads * self._resident_blocks) // 8 * 8
        entry = facts.get("registers", {}).get("entry") or min(_MAX_REGISTERS, share)
        cluster = facts.get("cluster", [1, 1, 1])
        for extent, size in zip(self.grid, cluster, strict=True):
            if extent % size != 0:
                raise EmulationError(
                    "manifest", f"the grid {self.grid} is not a multiple of the cluster {cluster}"
                )
        return [
            f"schedule {settings.schedule}",
            f"asynchronous {settings.asynchronous}",
            f"seed {settings.seed}",
            f"multiprocessors {settings.multiprocessors}",
            f"timeout {max(1, round(settings.timeout))}",
            "grid " + " ".join(map(str, self.grid)),
            "block " + " ".join(map(str, block)),
            "cluster " + " ".join(map(str, cluster)),
            f"shared_bytes {facts['shared_bytes']}",
            f"entry_registers {entry}",
            f"wave_size {facts['wave_size']}",
        ]

    def _parameter(self, parameter: Mapping[str, Any]) -> str:
        match parameter["kind"]:
            case "pointer":
                return f"pointer {self._tensor_number(parameter['tensor'])}"
            case "scalar":
                value = np.array(evaluate(parameter["value"], self.names)).astype(
                    dtype_of(parameter["dtype"])
                )
                return "scalar " + " ".join(str(byte) for byte in value.tobytes())
            case "tensor_map":
                return self._tensor_map(parameter)
            case other:
                raise EmulationError(
                    "manifest", f"parameter {parameter['name']} is of the unknown kind {other}"
                )

    def _tensor_number(self, name: str) -> int:
        return [tensor["name"] for tensor in self._tensors].index(name)

    def _tensor_map(self, parameter: Mapping[str, Any]) -> str:
        """The line of a tensor map, after the checks of cuTensorMapEncodeTiled (CUDA driver API)."""
        itemsize = dtype_of(parameter["dtype"]).itemsize
        rank, swizzle = int(parameter["rank"]), int(parameter["swizzle"])
        extents = [evaluate_int(extent, self.names) for extent in parameter["extents"]]
        strides = [itemsize, *(evaluate_int(stride, self.names) for stride in parameter["strides_bytes"])]
        box = [evaluate_int(extent, self.names) for extent in parameter["box"]]
        name = parameter["name"]
        if any(step != 1 for step in parameter.get("element_strides", ())):
            raise EmulationError("tensor-map", f"{name}: element strides other than 1 are not emulated")
        if len(extents) != rank or len(strides) != rank or len(box) != rank:
            raise EmulationError("tensor-map", f"{name}: extents, strides and box do not have rank {rank}")
        if any(stride % _TMA_ALIGNMENT != 0 for stride in strides[1:]):
            raise EmulationError(
                "tensor-map", f"{name}: the strides {strides[1:]} are not multiples of 16 bytes"
            )
        if any(not 1 <= extent <= _MAX_BOX for extent in box):
            raise EmulationError("tensor-map", f"{name}: a box extent of {box} is not between 1 and 256")
        if box[0] * itemsize % _TMA_ALIGNMENT != 0 or (swizzle > 0 and box[0] * itemsize > swizzle):
            raise EmulationError(
                "tensor-map",
                f"{name}: a box row of {box[0] * itemsize} bytes is not a multiple of 16 bytes within the swizzle's "
                f"{swizzle or 'any'} bytes",
            )
        element = _ELEMENTS.get(parameter["dtype"], _ELEMENTS["uint8"])
        dimensions = " ".join(f"{e} {s} {b}" for e, s, b in zip(extents, strides, box, strict=True))
        number = self._tensor_number(parameter["tensor"])
        return f"tensor_map {number} {element} {itemsize} {rank} {swizzle} {dimensions}"
