"""A call on arrays in host memory: the emitted text runs in the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tilegen.calls.arguments import (
    Apart,
    allocated,
    arrays_apart,
    check_apart,
    check_count,
    check_outputs,
    supplied,
)
from tilegen.calls.arrays import ArrayFacts, Framework, facts_of, framework_of
from tilegen.calls.binding import bind_shapes
from tilegen.calls.scalars import Scalar
from tilegen.emission import Emission
from tilegen.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class HostCall:
    """An emission with the framework that its results go to; `run` is `PreparedCall.run` without a device.

    `framework` allocates the results; `results` says where each returned tensor is among the call's arrays followed by
    the allocated ones.
    """

    emission: Emission
    framework: Framework
    results: tuple[int, ...]
    apart: tuple[Apart, ...]

    def run(
        self,
        arrays: Sequence[Any],
        pointers: list[int],
        out: Sequence[Any],
        scalars: Sequence[Scalar],
        stream: int | None,
    ) -> Any:
        """Emulates, and returns the outputs in the call's framework; `out` is filled if it is given.

        Raises:
            ArgumentError: arrays that cannot be written, or that share memory with one that is.
            EmulationError: what the emulated machine finds wrong.
        """
        check_apart(self.apart, pointers)
        manifest = self.emission.manifest
        host = [framework_of(array).to_numpy(array) for array in arrays]
        ready = [framework_of(array).to_numpy(array) for array in out]
        for position, values in zip(
            (*supplied(manifest), *allocated(manifest)), (*host, *ready), strict=False
        ):
            if manifest.tensors[position].role != "input":
                _check_writable(manifest.tensors[position].name, values)
        numbers = {scalar.name: value for scalar, value in zip(manifest.scalars, scalars, strict=True)}
        written = self.emission.emulate_all(*host, scalars=numbers)
        for position, values in zip(supplied(manifest), host, strict=True):
            if manifest.tensors[position].role != "input":
                numpy.copyto(values, written[manifest.tensors[position].name])
        made = [written[manifest.tensors[position].name] for position in allocated(manifest)]
        for target, values in zip(ready, made, strict=bool(out)):
            numpy.copyto(target, values)
        every = (*arrays, *(out or [self.framework.from_numpy(values) for values in made]))
        results = tuple(every[position] for position in self.results)
        if not results:
            return None
        return results[0] if len(results) == 1 else results


def _check_writable(name: str, values: numpy.ndarray[Any, Any]) -> None:
    if not values.flags.writeable:
        raise ArgumentError(name, "an array that can be written", "a read-only one", "pass a copy of it")


def prepare_host_call(
    emission: Emission, arrays: Sequence[Any], outputs: Sequence[Any], scalars: Mapping[str, Scalar]
) -> HostCall:
    """Checks the contract as a launch would.

    Raises:
        ArgumentError: arrays that break it.
    """
    manifest = emission.manifest
    inputs, made = supplied(manifest), allocated(manifest)
    check_count(manifest, inputs, len(arrays))
    check_outputs(manifest, made, len(outputs))
    facts: dict[int, ArrayFacts] = {}
    for position, array in zip((*inputs, *(made if outputs else ())), (*arrays, *outputs), strict=True):
        facts[position] = facts_of(array, manifest.tensors[position].name)
    bind_shapes(manifest, facts, scalars)
    places = {position: index for index, position in enumerate((*inputs, *made))}
    names = {manifest.tensors[position].name: index for position, index in places.items()}
    return HostCall(
        emission,
        framework_of((*arrays, *outputs)[0]),
        tuple(names[name] for name in manifest.outputs),
        arrays_apart(manifest, facts, places),
    )
