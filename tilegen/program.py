"""A tile program, specialised, as a Python function; and calls of emitted kernels wherever the arrays are."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.building import (
    CallError,
    Definition,
    Fixed,
    OutIdx,
    assign,
    build_emission,
    parameter_names,
    scalar_parameters,
)
from tilegen.emission import Emission
from tilegen.host_call import HostCall, prepare_host_call
from tilegen.language.functions import PrimFunc
from tilegen.runtime.arrays import ArrayFacts, facts_of, is_array
from tilegen.runtime.binding import ContractError, as_number, whole_numbers
from tilegen.runtime.compilation import Backend
from tilegen.runtime.compiled import CompiledKernel, PreparedCall, as_outputs, probe_all
from tilegen.runtime.devices import resolve_target, target_of_device
from tilegen.runtime.loading import compute_capability
from tilegen.runtime.profiler import Profiler, TensorSupplyType
from tilegen.target import Target

# Options of TileLang's own back-ends.
_FOREIGN_OPTIONS = (
    "execution_backend",
    "verbose",
    "pass_configs",
    "target_host",
    "compile_flags",
    "debug_root_path",
)
# TileLang's names for "the GPU that is here"
_ALIASES = {"cuda": "auto", "hip": "auto", "rocm": "auto"}


def target_alias(name: str) -> str:
    """A target's name as tilegen spells it."""
    return _ALIASES.get(name, name)


class CompiledProgram:
    """A tile program, specialised: what `tilegen.compile` and the `compile` of a `tilegen.jit` function return. Emitted
    and compiled on first use."""

    def __init__(
        self,
        definition: Definition,
        target: str,
        backend: Backend | None = None,
        fixed: Fixed | None = None,
    ) -> None:
        self._definition = definition
        self._fixed = fixed or Fixed()
        self._target = target_alias(target)
        self._backend = backend
        self._emissions: dict[tuple[str, str | None, bool], Emission] = {}
        self._compiled: dict[str, CompiledKernel] = {}
        self._calls: dict[Any, PreparedCall | HostCall] = {}
        self._lock = threading.RLock()
        self.__name__ = definition.python.__name__

    def __repr__(self) -> str:
        return f"<tilegen program {self.__name__} for {self._target}>"

    def emit(
        self, target: str | None = None, name: str | None = None, dims: Mapping[str, int] | None = None
    ) -> Emission:
        """The emitted files for a target (the program's own by default)."""
        chosen = resolve_target(self._target if target is None else target_alias(target))
        return self._emit(chosen, name, dims)

    def _emit(
        self,
        target: Target,
        name: str | None,
        dims: Mapping[str, int] | None = None,
        whole_rows: bool = True,
    ) -> Emission:
        key = (target.name, name, whole_rows)
        with self._lock:
            if dims or key not in self._emissions:
                fixed = self._fixed
                emission = build_emission(
                    self._definition,
                    target,
                    fixed.tensors,
                    fixed.parameters,
                    {**fixed.dims, **(dims or {})},
                    name,
                    whole_rows=whole_rows,
                )
                if dims:
                    return emission
                self._emissions[key] = emission
            return self._emissions[key]

    @property
    def emission(self) -> Emission:
        """What is emitted for the program's own target."""
        return self.emit()

    def get_kernel_source(self) -> str:
        """The emitted text."""
        return self.emission.source

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """Times the kernel on the GPU, on arrays that hold what `tensor_supply_type` says."""
        return self.compiled.get_profiler(tensor_supply_type)

    @property
    def compiled(self) -> CompiledKernel:
        """The compiled kernel for the program's own target."""
        return compile_once(self.emission, self._compiled, self._backend)

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the program; the tensors that `out_idx` names are allocated and returned.

        Raises:
            ArgumentError: arrays that break the kernel's contract.
            CallError: values that do not fit the program's parameters.
        """
        arrays, values = self._sorted(arguments, keywords)
        outputs = as_outputs(out)
        pointers, key = probe_all(arrays, outputs)
        lookup = (len(arrays), *key, whole_numbers(values))
        prepared = self._calls.get(lookup)
        if prepared is None:
            with self._lock:
                facts = {str(i): facts_of(array, str(i)) for i, array in enumerate(arrays, 1)}
                prepared = self._bind(arrays, outputs, facts, values)
                self._calls[lookup] = prepared
        return prepared.run(arrays, pointers, outputs, values, None)

    def _bind(
        self,
        arrays: Sequence[Any],
        outputs: Sequence[Any],
        facts: Mapping[str, ArrayFacts],
        values: Sequence[Any],
    ) -> PreparedCall | HostCall:
        """A call of the text that assumes whole rows, or, where these arrays have others, of one for any length."""
        target = target_of_call(self._target, facts)

        def prepare(whole_rows: bool) -> PreparedCall | HostCall:
            emission = self._emit(target, None, whole_rows=whole_rows)
            return prepare_call(emission, arrays, outputs, facts, values, self._compiled, self._backend)

        try:
            return prepare(whole_rows=True)
        except ContractError:
            return prepare(whole_rows=False)

    def _sorted(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The call's arrays, and its numbers in the order of the program's scalar parameters."""
        if any(map(is_array, keywords.values())):
            named = assign(self._definition.python, arguments, keywords, is_array)
            order = parameter_names(self._definition.python)
            arguments = tuple(named.tensors[name] for name in order if name in named.tensors)
            keywords = {**named.scalars, **named.parameters}
        every = scalar_parameters(self._definition.python)
        names = tuple(name for name in every if name not in self._fixed.parameters)
        numbers = [value for value in arguments if not is_array(value)]
        unnamed = [name for name in names if name not in keywords]
        if len(numbers) > len(unnamed):
            takes = f"takes {len(names)} numbers ({', '.join(names)})" if names else "takes arrays only"
            raise CallError(f"{self.__name__} {takes}, but is given {numbers[-1]!r} as well")
        given = {**dict(zip(unnamed, numbers, strict=False)), **keywords}
        for name in given:
            if name not in names:
                raise CallError(f"{self.__name__} has no number called {name}")
        for name in names:
            if name not in given:
                raise CallError(f"{self.__name__} needs a number for {name}")
        arrays = tuple(value for value in arguments if is_array(value))
        return arrays, tuple(as_number(name, given[name]) for name in names)


def compile(
    function: PrimFunc,
    out_idx: OutIdx = None,
    target: str = "auto",
    backend: Backend | None = None,
    **options: Any,
) -> CompiledProgram:
    """Compiles a lazy tile program (`T.prim_func`); tensors that `out_idx` names are allocated and returned.

    Raises:
        CallError: for anything but a tile program, and for unknown options.
    """
    if not isinstance(function, PrimFunc):
        raise CallError(
            f"tilegen.compile takes a tile program (T.prim_func), not {function!r}\n"
            "  remedy: a @tilegen.jit function is called itself, or has .compile(M=…, block_M=…)"
        )
    for name in without_foreign_options(options):
        raise CallError(f"tilegen.compile has no option '{name}'")
    return CompiledProgram(Definition(function, "lazy", out_idx, function.__name__), target, backend)


def without_foreign_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those of TileLang's back-ends, which are warned of."""
    for name in options:
        if name in _FOREIGN_OPTIONS:
            warnings.warn(f"tilegen has no '{name}': the option changes nothing", stacklevel=3)
    return {name: value for name, value in options.items() if name not in _FOREIGN_OPTIONS}


def prepare_call(
    emission: Emission,
    arrays: Sequence[Any],
    outputs: Sequence[Any],
    facts: Mapping[str, ArrayFacts],
    scalars: Sequence[Any],
    compiled: dict[str, CompiledKernel],
    backend: Backend | None,
) -> PreparedCall | HostCall:
    """A call of an emitted kernel for arrays like these: on the GPU that they are on, else emulated.

    Raises:
        CallError: neither arrays nor outputs are given.
    """
    places = list(facts.values()) or [facts_of(array, "out") for array in outputs]
    if not places:
        raise CallError(
            f"{emission.name} is given no array, so that nothing says where its outputs are to be\n"
            "  remedy: pass them, out=… (several as a tuple)"
        )
    if any(array.on_gpu for array in places):
        return compile_once(emission, compiled, backend).prepare(arrays, outputs, scalars)
    names = [scalar.name for scalar in emission.manifest.scalars]
    return prepare_host_call(emission, arrays, outputs, dict(zip(names, scalars, strict=True)))


def compile_once(
    emission: Emission, compiled: dict[str, CompiledKernel], backend: Backend | None
) -> CompiledKernel:
    if emission.source not in compiled:
        compiled[emission.source] = CompiledKernel(
            emission.source, emission.manifest, emission.target, backend, lazy=True
        )
    return compiled[emission.source]


def target_of_call(target: str, facts: Mapping[str, ArrayFacts]) -> Target:
    """The call's target; "auto" asks the device that the arrays are on."""
    if target == "auto":
        for array in facts.values():
            if array.on_gpu:
                return target_of_device(compute_capability(array.device_index))
    return resolve_target(target)
