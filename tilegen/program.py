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
    scalar_defaults,
    scalar_parameters,
)
from tilegen.calls.arrays import facts_of, is_array
from tilegen.calls.binding import ContractError
from tilegen.calls.scalars import as_number, whole_numbers
from tilegen.cold_call import ColdCall, Kernels
from tilegen.emission import Emission
from tilegen.host_call import HostCall
from tilegen.language.functions import PrimFunc
from tilegen.runtime.compilation import Backend
from tilegen.runtime.compiled import CompiledKernel, PreparedCall, as_outputs, probe_all, remember
from tilegen.runtime.devices import resolve_target
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
        self._kernels = Kernels(backend)
        self._emissions: dict[tuple[str, str | None, bool], Emission] = {}
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
        return self._kernels.of(self.emission)

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
                prepared = self._prepare(ColdCall(arrays, outputs, facts, values))
                remember(self._calls, lookup, prepared)
        return prepared.run(arrays, pointers, outputs, values, None)

    def _prepare(self, call: ColdCall) -> PreparedCall | HostCall:
        """The launch of the text that assumes whole rows, or, where a call's arrays have others, of one for any
        length."""
        target = call.target(self._target)
        try:
            return self._kernels.prepare(self._emit(target, None), call)
        except ContractError:
            return self._kernels.prepare(self._emit(target, None, whole_rows=False), call)

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
        defaults = scalar_defaults(self._definition.python)
        given = {**dict(zip(unnamed, numbers, strict=False)), **keywords}
        for name in given:
            if name not in names:
                raise CallError(f"{self.__name__} has no number called {name}")
        for name in names:
            if name not in given and name not in defaults:
                raise CallError(f"{self.__name__} needs a number for {name}: pass {name}=…")
        values = {**defaults, **given}
        arrays = tuple(value for value in arguments if is_array(value))
        return arrays, tuple(as_number(name, values[name]) for name in names)


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
