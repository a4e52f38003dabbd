"""`@tilegen.jit` and `tilegen.compile`: tile programs as Python functions.

A call on GPU arrays compiles and launches; a call on arrays in host memory runs the emitted text in the emulator.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, overload

from tilegen.building import (
    Assignment,
    CallError,
    Definition,
    Fixed,
    OutIdx,
    assign,
    build_emission,
    declared_tensors,
    hashable,
    parameter_names,
    scalar_defaults,
    scalar_parameters,
)
from tilegen.calls.arrays import all_known, facts_of, framework_of, is_array
from tilegen.calls.scalars import as_number, whole_numbers
from tilegen.cold_call import ColdCall, Specialisations, spec_of
from tilegen.emission import Emission
from tilegen.host_call import HostCall
from tilegen.language.functions import PrimFunc
from tilegen.language.tensors import SymbolicExtent, TensorSpec
from tilegen.opening import opened
from tilegen.program import (
    CompiledProgram,
    target_alias,
    without_foreign_options,
)
from tilegen.runtime.compilation import Backend
from tilegen.runtime.compiled import PreparedCall, as_outputs, probe_all, remember
from tilegen.runtime.devices import resolve_target


class JitKernel:
    """A tile program that Python can call.

    Calling it specialises the program for the arrays' dtypes, shapes and strides, which are compiled into the text
    (extents named in `dynamic` stay launch arguments), and keeps what it made. On a factory of lazy programs a call
    with the factory's arguments gives the compiled program.
    """

    def __init__(
        self,
        function: Callable[..., Any] | PrimFunc,
        target: str = "auto",
        out_idx: OutIdx = None,
        dynamic: Sequence[str] = (),
        backend: Backend | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        plain = function.function if isinstance(function, PrimFunc) else function
        if not hasattr(plain, "__code__"):
            raise CallError(_no_function(plain))
        self._target = target_alias(target)
        self._dynamic = tuple(re.findall(r"\w+", dynamic)) if isinstance(dynamic, str) else tuple(dynamic)
        self._backend = backend
        self._parameters = dict(parameters or {})
        self._factory = not isinstance(function, PrimFunc) and _makes_programs(plain)
        lazy = isinstance(function, PrimFunc)
        self._definition = Definition(function, "lazy" if lazy else "eager", out_idx, plain.__name__)
        self._scalars = scalar_parameters(plain)
        own = {name: value for name, value in self._parameters.items() if name in self._scalars}
        self._numbers = {**scalar_defaults(plain), **own}  # that a call may leave out
        self._calls: dict[Any, PreparedCall | HostCall] = {}
        self._texts = Specialisations(self._definition, self._dynamic, backend)
        self._programs: dict[Any, CompiledProgram] = {}
        self._lock = threading.RLock()
        self.__name__ = plain.__name__
        self.__doc__ = plain.__doc__
        self.__module__ = plain.__module__
        self.__wrapped__ = plain

    def __repr__(self) -> str:
        return f"<tilegen kernel {self.__name__}>"

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the program on its arrays (and scalars, and generation-time parameters by keyword) and returns its
        outputs, allocated by the arrays' framework unless `out` has them.

        Raises:
            ProgramError: at the user's line.
            ArgumentError: arrays that do not fit the program.
            CallError: other values that do not fit its parameters.
        """
        if self._factory:
            return self.program(*arguments, **keywords)
        if self._scalars or not all_known(arguments) or any(map(is_array, keywords.values())):
            return self._call_sorted(arguments, out, keywords)
        outputs = as_outputs(out)
        pointers, key = probe_all(arguments, outputs)
        lookup = (len(arguments), *key, *hashable(keywords)) if keywords else (len(arguments), *key)
        prepared = self._calls.get(lookup)
        if prepared is None:
            assignment = assign(self._definition.python, arguments, keywords, is_array)
            prepared = self._prepare(lookup, arguments, outputs, assignment, ())
        return prepared.run(arguments, pointers, outputs, (), None)

    def _call_sorted(self, arguments: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> Any:
        """A call with scalars, with arrays by keyword, or with generation-time parameters by position."""
        assignment = assign(self._definition.python, arguments, keywords, is_array)
        self._refuse_other_values(assignment.parameters)
        numbers = {**self._numbers, **assignment.scalars}
        for name in self._scalars:
            if name not in numbers:
                raise CallError(f"{self.__name__} needs a number for {name}: pass {name}=…")
        names = parameter_names(self._definition.python)
        given = tuple(name for name in names if name in assignment.tensors)  # optional ones may be left out
        arrays = tuple(assignment.tensors[name] for name in given)
        outputs = as_outputs(out)
        values = tuple(as_number(name, numbers[name]) for name in self._scalars)
        pointers, key = probe_all(arrays, outputs)
        lookup = (given, *key, whole_numbers(values), *hashable(assignment.parameters))
        prepared = self._calls.get(lookup)
        if prepared is None:
            prepared = self._prepare(lookup, arrays, outputs, assignment, values)
        return prepared.run(arrays, pointers, outputs, values, None)

    @property
    def is_factory(self) -> bool:
        """Whether the function returns lazy programs, so that a call with its arguments compiles one."""
        return self._factory

    def for_target(self, target: str) -> JitKernel:
        """The same program for another target."""
        definition = self._definition
        return JitKernel(
            definition.function, target, definition.out_idx, self._dynamic, self._backend, self._parameters
        )

    def program(self, *arguments: Any, **keywords: Any) -> CompiledProgram:
        """Calls the factory and compiles the lazy program that it returns; kept by the arguments."""
        function = self._definition.python
        try:
            bound = inspect.signature(function).bind(*arguments, **{**self._parameters, **keywords})
        except TypeError as error:
            raise CallError(
                f"{self.__name__}: {error}\n  remedy: it takes {', '.join(parameter_names(function))}"
            ) from None
        bound.apply_defaults()
        key = hashable(bound.arguments)
        with self._lock:
            if key not in self._programs:
                made = function(*bound.args, **bound.kwargs)
                if not isinstance(made, PrimFunc):
                    raise CallError(f"{self.__name__} returns {made!r}, not a tile program (T.prim_func)")
                definition = Definition(
                    made, "lazy", self._definition.out_idx, self.__name__, dict(bound.arguments)
                )
                self._programs[key] = CompiledProgram(definition, self._target, self._backend)
            return self._programs[key]

    def compile(self, *specs: Any, **fixed: Any) -> CompiledProgram:
        """The program for these extents and parameters, as a function of its arrays; kept by them.

        Args:
            specs: of the tensors, in the program's order, as `emit` takes them; none are needed.
            fixed: extents (`T.const` names) and generation-time parameters. Extents that are left out, or given as
                T.dynamic, stay open. For a factory: its arguments.

        Raises:
            CallError: an extent that is no integer, and values that do not fit the program's parameters.
            ProgramError: at the user's line.
        """
        if self._factory:
            return self.program(*specs, **fixed)
        own = parameter_names(self._definition.python)
        given = {name: fixed[name] for name in own if name in fixed}
        dims = {name: _fixed_extent(self, name, fixed[name]) for name in sorted(fixed) if name not in own}
        tensors, parameters = self._sort_specs(specs, given)
        known = {name: value for name, value in dims.items() if value is not None}
        key = (tuple(tensors.items()), hashable(parameters), hashable(known))
        with self._lock:
            if key not in self._programs:
                made = Fixed(tensors, parameters, known)
                program = CompiledProgram(self._definition, self._target, self._backend, made)
                program.emit()  # what is wrong is said here, not at the first call
                self._programs[key] = program
            return self._programs[key]

    def get_kernel_source(self, *specs: Any, **fixed: Any) -> str:
        """The text that is emitted for what `compile` takes (TileLang's name for it).

        Raises:
            As `compile`.
        """
        return self.compile(*specs, **fixed).get_kernel_source()

    def emit(
        self,
        *specs: Any,
        target: str | None = None,
        name: str | None = None,
        dims: Mapping[str, int] | None = None,
        **parameters: Any,
    ) -> Emission:
        """The emitted files for one target.

        Args:
            specs: `T.Tensor(shape, dtype)` for the tensors in the program's order, or arrays like those that will be
                passed; extents may be integers, which are compiled in, or names, which become launch arguments.
                Without specs the program's own declarations hold, with every `T.const` extent open. For a factory:
                its arguments.
            target: a target's name, "auto" by default.
            name: the kernel's name, if it is not to be the function's.
            dims: integers for `T.const` extents, by name.
            parameters: generation-time parameters.

        Raises:
            ProgramError: at the user's line, when the program is wrong or does not fit the target.
        """
        chosen = resolve_target(self._target if target is None else target_alias(target))
        if self._factory:
            own = inspect.signature(self._definition.python).parameters
            fixed = {extent: value for extent, value in (dims or {}).items() if extent in own}
            rest = {extent: value for extent, value in (dims or {}).items() if extent not in own}
            return self.program(*specs, **fixed, **parameters).emit(target=chosen.name, name=name, dims=rest)
        tensors, given = self._sort_specs(specs, parameters)
        if any(0 in spec.shape for spec in tensors.values()):
            tensors = opened(self._definition, tensors, given, (), chosen)
        return build_emission(self._definition, chosen, tensors, given, dims, name)

    def _sort_specs(
        self, specs: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[dict[str, TensorSpec], dict[str, Any]]:
        """The specs of tensors, and the values of all other parameters, by name."""
        assignment = assign(
            self._definition.python, specs, {**self._parameters, **keywords}, _describes_tensor
        )
        self._refuse_other_values(assignment.parameters)
        tensors = {name: _as_spec(value, name) for name, value in assignment.tensors.items()}
        return tensors, {**assignment.parameters, **assignment.scalars}

    def _prepare(
        self,
        lookup: Any,
        arrays: Sequence[Any],
        outputs: Sequence[Any],
        assignment: Assignment,
        scalars: Sequence[Any],
    ) -> PreparedCall | HostCall:
        """The cold path: emits, compiles and binds for these arrays."""
        with self._lock:
            self._refuse_other_values(assignment.parameters)
            names = [name for name in parameter_names(self._definition.python) if name in assignment.tensors]
            facts = {name: facts_of(array, name) for name, array in zip(names, arrays, strict=True)}
            call = ColdCall(arrays, outputs, facts, scalars)
            fixed = {key: value for key, value in self._parameters.items() if key not in self._scalars}
            given = {**fixed, **assignment.parameters}
            prepared = self._texts.prepare(call, given, call.target(self._target))
            remember(self._calls, lookup, prepared)
            return prepared

    def _refuse_other_values(self, parameters: Mapping[str, Any]) -> None:
        """Raises ArgumentError for a value in the place of a tensor that is no array."""
        own = inspect.signature(self._definition.python).parameters
        tensors = declared_tensors(self._definition.python, self._definition.style)
        for name, value in parameters.items():
            if name in tensors and own[name].default is inspect.Parameter.empty:
                framework_of(value, name)


def _fixed_extent(kernel: JitKernel, name: str, value: Any) -> int | None:
    """The integer that `compile` is given for an extent; None where it is to stay open."""
    if isinstance(value, SymbolicExtent):
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        own = ", ".join(parameter_names(kernel.__wrapped__))
        raise CallError(
            f"{kernel.__name__} has no parameter '{name}', and {value!r} is no extent\n"
            f"  remedy: its parameters are {own}; extents of T.const are integers, or T.dynamic to stay open"
        )
    return int(value.__index__())


def _as_spec(value: Any, name: str) -> TensorSpec:
    return value if isinstance(value, TensorSpec) else spec_of(facts_of(value, name))


def _describes_tensor(value: Any) -> bool:
    return isinstance(value, TensorSpec) or is_array(value)


def _no_function(value: object) -> str:
    """What is wrong with a value that is decorated, or passed, as a tile program."""
    if isinstance(value, JitKernel):
        return (
            f"tilegen.jit is given {value!r}, which has been through it\n  remedy: decorate the function once"
        )
    if isinstance(value, staticmethod):
        return "tilegen.jit is given a staticmethod\n  remedy: put @staticmethod above @tilegen.jit"
    return f"tilegen.jit is given {value!r}\n  remedy: decorate a function that def defines"


def _makes_programs(function: Callable[..., Any]) -> bool:
    """Whether a function defines a lazy program inside, or in a function that it defines (and returns it)."""
    return _defines_program(function.__code__)


def _defines_program(code: CodeType) -> bool:
    nested = [constant for constant in code.co_consts if inspect.iscode(constant)]
    return bool(nested) and ("prim_func" in code.co_names or any(map(_defines_program, nested)))


@overload
def jit(function: Callable[..., Any] | PrimFunc, /) -> JitKernel: ...


@overload
def jit(
    function: None = None,
    /,
    *,
    target: str = "auto",
    out_idx: OutIdx = None,
    dynamic: Sequence[str] = (),
    backend: Backend | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any] | PrimFunc], JitKernel]: ...


def jit(
    function: Callable[..., Any] | PrimFunc | None = None,
    /,
    *,
    target: str = "auto",
    out_idx: OutIdx = None,
    dynamic: Sequence[str] = (),
    backend: Backend | None = None,
    **options: Any,
) -> Any:
    """Makes a tile program callable; bare (`@tilegen.jit`) or with options.

    Args:
        target: a target's name, or "auto": the GPU that the arrays are on, else the emulated sm_90a.
        out_idx: for lazy programs, the positions of the tensors that a call allocates and returns.
        dynamic: names of `T.const` extents that stay launch arguments, so that one kernel serves all their values: a
            sequence, or one string as `T.const` takes.
        backend: "nvrtc", "nvcc", "hiprtc" or "hipcc"; by default the run-time compiler.
        options: defaults of generation-time parameters.
    """
    parameters = without_foreign_options(options)

    def decorate(decorated: Callable[..., Any] | PrimFunc) -> JitKernel:
        return JitKernel(decorated, target, out_idx, dynamic, backend, parameters)

    return decorate if function is None else decorate(function)
