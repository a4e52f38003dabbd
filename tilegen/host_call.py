"""A call on arrays in host memory: the emitted text runs in the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tilegen.emission import Emission
from tilegen.runtime.arrays import ArrayFacts, Framework, framework_of
from tilegen.runtime.binding import Scalar, allocated, bind_shapes, check_count, supplied


@dataclass(frozen=True, slots=True)
class HostCall:
    """An emission with the framework that its results go to; `run` is `PreparedCall.run` without a device.

    `results` says where each returned tensor is among the call's arrays followed by the allocated ones.
    """

    emission: Emission
    framework: Framework
    results: tuple[int, ...]

    def run(
        self,
        arrays: Sequence[Any],
        pointers: list[int],
        out: Sequence[Any],
        scalars: Sequence[Scalar],
        stream: int | None,
    ) -> Any:
        """Emulates, and returns the outputs in the call's framework; `out` is filled if it is given."""
        manifest = self.emission.manifest
        host = [self.framework.to_numpy(array) for array in arrays]
        numbers = {scalar.name: value for scalar, value in zip(manifest.scalars, scalars, strict=True)}
        written = self.emission.emulate_all(*host, scalars=numbers)
        for position, values in zip(supplied(manifest), host, strict=True):
            if manifest.tensors[position].role != "input":
                numpy.copyto(values, written[manifest.tensors[position].name])
        made = [written[manifest.tensors[position].name] for position in allocated(manifest)]
        for target, values in zip(out, made, strict=bool(out)):
            numpy.copyto(self.framework.to_numpy(target), values)
        every = (*arrays, *(out or [self.framework.from_numpy(values) for values in made]))
        results = tuple(every[position] for position in self.results)
        if not results:
            return None
        return results[0] if len(results) == 1 else results


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
    if outputs:
        check_count(manifest, made, len(outputs))
    facts: dict[int, ArrayFacts] = {}
    for position, array in zip((*inputs, *(made if outputs else ())), (*arrays, *outputs), strict=True):
        facts[position] = framework_of(array, manifest.tensors[position].name).facts(array)
    bind_shapes(manifest, facts, scalars)
    place = {manifest.tensors[position].name: index for index, position in enumerate((*inputs, *made))}
    return HostCall(
        emission, framework_of((*arrays, *outputs)[0]), tuple(place[name] for name in manifest.outputs)
    )
