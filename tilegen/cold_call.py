"""The cold path of a call: which text its arrays have, the kernel that is compiled of it, and the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.building import CallError, Definition, build_emission, hashable
from tilegen.calls.arrays import ArrayFacts, facts_of
from tilegen.calls.binding import ContractError
from tilegen.emission import Emission
from tilegen.host_call import HostCall, prepare_host_call
from tilegen.language.tensors import TensorSpec, spec_of_array
from tilegen.opening import opened
from tilegen.runtime.compilation import Backend
from tilegen.runtime.compiled import CompiledKernel, PreparedCall
from tilegen.runtime.devices import resolve_target, target_of_device
from tilegen.runtime.loading import compute_capability
from tilegen.target import Target


@dataclass(frozen=True, slots=True)
class ColdCall:
    """A call as it was never seen before: its arrays, the outputs that it brings, what is known of the arrays by name,
    and its numbers in the order of the program's scalar parameters."""

    arrays: Sequence[Any]
    outputs: Sequence[Any]
    facts: Mapping[str, ArrayFacts]
    scalars: Sequence[Any]

    def target(self, wanted: str) -> Target:
        """The call's target; "auto" asks the device that the arrays are on."""
        if wanted == "auto":
            for array in self.facts.values():
                if array.on_gpu:
                    return target_of_device(compute_capability(array.device_index))
        return resolve_target(wanted)


class Kernels:
    """The kernels of a program's texts, each compiled once."""

    def __init__(self, backend: Backend | None) -> None:
        self._backend = backend
        self._compiled: dict[str, CompiledKernel] = {}

    def of(self, emission: Emission) -> CompiledKernel:
        if emission.source not in self._compiled:
            self._compiled[emission.source] = CompiledKernel(
                emission.source, emission.manifest, emission.target, self._backend, lazy=True
            )
        return self._compiled[emission.source]

    def prepare(self, emission: Emission, call: ColdCall) -> PreparedCall | HostCall:
        """The launch of an emitted kernel for a call's arrays: on the GPU that they are on, else emulated.

        Raises:
            CallError: neither arrays nor outputs are given.
            ContractError: a requirement of the text that does not hold.
        """
        places = list(call.facts.values()) or [facts_of(array, "out") for array in call.outputs]
        if not places:
            raise CallError(
                f"{emission.name} is given no array, so that nothing says where its outputs are to be\n"
                "  remedy: pass them, out=… (several as a tuple)"
            )
        if any(array.on_gpu for array in places):
            return self.of(emission).prepare(call.arrays, call.outputs, call.scalars)
        names = [scalar.name for scalar in emission.manifest.scalars]
        scalars = dict(zip(names, call.scalars, strict=True))
        return prepare_host_call(emission, call.arrays, call.outputs, scalars)


class Specialisations:
    """The texts of a tile program for the arrays that it was called with. Extents named in `dynamic` stay open."""

    def __init__(self, definition: Definition, dynamic: Sequence[str], backend: Backend | None) -> None:
        self._definition = definition
        self._dynamic = dynamic
        self._kernels = Kernels(backend)
        self.emissions: dict[Any, Emission] = {}

    def prepare(
        self, call: ColdCall, parameters: Mapping[str, Any], target: Target
    ) -> PreparedCall | HostCall:
        """The launch of the first text whose assumptions hold here: with the open extents, with these shapes compiled
        in, and (where extents stay open) one that assumes nothing of the length of rows. `parameters` are those of the
        generation."""
        attempts = [(self._dynamic, True), ((), True), ((), False)]
        *others, last = attempts[0 if self._dynamic else 1 :]
        for dynamic, whole_rows in others:
            try:
                emission = self._emission(call, parameters, target, dynamic, whole_rows)
                return self._kernels.prepare(emission, call)
            except ContractError:
                pass
        return self._kernels.prepare(self._emission(call, parameters, target, *last), call)

    def _emission(
        self,
        call: ColdCall,
        parameters: Mapping[str, Any],
        target: Target,
        dynamic: Sequence[str],
        whole_rows: bool,
    ) -> Emission:
        specs = {name: spec_of(array) for name, array in call.facts.items()}
        if dynamic or any(0 in spec.shape for spec in specs.values()):
            specs = opened(self._definition, specs, parameters, dynamic, target)
        key = (target.name, tuple(specs.items()), hashable(parameters), whole_rows)
        if key not in self.emissions:
            self.emissions[key] = build_emission(
                self._definition, target, specs, parameters, whole_rows=whole_rows
            )
        return self.emissions[key]


def spec_of(array: ArrayFacts) -> TensorSpec:
    """The spec of a tensor that is like this array."""
    return spec_of_array(array.shape, array.dtype, None if array.row_major else array.strides)
