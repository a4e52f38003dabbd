"""`@tilegen.jit` and `tilegen.compile`: tile programs as Python functions.

A call on GPU arrays compiles and launches; a call on arrays in host memory runs the emitted text in the emulator.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType
from typing import Any, overload

from tilegen.building import (
    Assignment,
    CallError,
    Definition,
    OutIdx,
    assign,
    build_emission,
    declared_tensors,
    hashable,
    parameter_names,
    read_program,
    scalar_parameters,
)
from tilegen.dtype_parameters import bind_dtypes
from tilegen.emission import Emission
from tilegen.host_call import HostCall
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.language.functions import PrimFunc
from tilegen.language.tensors import TensorSpec, row_major_strides, spec_of_array
from tilegen.program import (
    CompiledProgram,
    prepare_call,
    target_alias,
    target_of_call,
    without_foreign_options,
)
from tilegen.runtime.arrays import ArrayFacts, all_known, facts_of, framework_of, is_array
from tilegen.runtime.binding import ContractError, as_number, whole_numbers
from tilegen.runtime.compilation import Backend
from tilegen.runtime.compiled import CompiledKernel, PreparedCall, as_outputs, probe_all
from tilegen.runtime.devices import resolve_target
from tilegen.target import Target

_CALL_LIMIT = 4096


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
        self._calls: dict[Any, PreparedCall | HostCall] = {}
        self._emissions: dict[Any, Emission] = {}
        self._compiled: dict[str, CompiledKernel] = {}
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
        for name in self._scalars:
            if name not in assignment.scalars:
                raise CallError(f"{self.__name__} needs a number for {name}")
        names = parameter_names(self._definition.python)
        given = tuple(name for name in names if name in assignment.tensors)  # optional ones may be left out
        arrays = tuple(assignment.tensors[name] for name in given)
        outputs = as_outputs(out)
        values = tuple(as_number(name, assignment.scalars[name]) for name in self._scalars)
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
        assignment = assign(
            self._definition.python, specs, {**self._parameters, **parameters}, _describes_tensor
        )
        self._refuse_other_values(assignment.parameters)
        given = {**assignment.parameters, **assignment.scalars}
        tensors = {name: _as_spec(value, name) for name, value in assignment.tensors.items()}
        if any(0 in spec.shape for spec in tensors.values()):
            tensors = self._opened(tensors, given, (), chosen)
        return build_emission(self._definition, chosen, tensors, given, dims, name)

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
            target = target_of_call(self._target, facts)
            given = {**self._parameters, **assignment.parameters}
            try:
                prepared = self._bind(arrays, outputs, facts, given, target, scalars, self._dynamic)
            except ContractError:
                if not self._dynamic:
                    raise
                # What the text with open extents assumes does not hold here: these shapes get their own text.
                prepared = self._bind(arrays, outputs, facts, given, target, scalars, ())
            if len(self._calls) >= _CALL_LIMIT:
                self._calls.clear()
            self._calls[lookup] = prepared
            return prepared

    def _refuse_other_values(self, parameters: Mapping[str, Any]) -> None:
        """Raises ArgumentError for a value in the place of a tensor that is no array."""
        own = inspect.signature(self._definition.python).parameters
        tensors = declared_tensors(self._definition.python, self._definition.style)
        for name, value in parameters.items():
            if name in tensors and own[name].default is inspect.Parameter.empty:
                framework_of(value, name)

    def _bind(
        self,
        arrays: Sequence[Any],
        outputs: Sequence[Any],
        facts: Mapping[str, ArrayFacts],
        parameters: Mapping[str, Any],
        target: Target,
        scalars: Sequence[Any],
        dynamic: Sequence[str],
    ) -> PreparedCall | HostCall:
        specs = {name: _spec(array) for name, array in facts.items()}
        if dynamic or any(0 in spec.shape for spec in specs.values()):
            specs = self._opened(specs, parameters, dynamic, target)
        key = (target.name, tuple(specs.items()), hashable(parameters))
        if key not in self._emissions:
            self._emissions[key] = build_emission(self._definition, target, specs, parameters)
        return prepare_call(
            self._emissions[key], arrays, outputs, facts, scalars, self._compiled, self._backend
        )

    def _opened(
        self,
        specs: Mapping[str, TensorSpec],
        parameters: Mapping[str, Any],
        dynamic: Sequence[str],
        target: Target,
    ) -> dict[str, TensorSpec]:
        """The specs with the extents and strides left open that the program calls by these names, and the extents that
        are 0: what has no elements is launched by the text for any extent, which starts no block for it."""
        function = self._definition.python
        if self._definition.style == "eager":
            parameters = bind_dtypes(function, specs, parameters)
        program = read_program(self._definition, specs, parameters, target=target)
        declared = {tensor.name: tensor for tensor in program.tensors}
        known = {extent.name for extent in program.extents}
        known |= {
            e.name
            for tensor in declared.values()
            for e in (*tensor.shape, *(tensor.strides or ()))
            if isinstance(e, Const | Var) and e.name
        }
        known -= set(parameter_names(function))
        unknown = [name for name in dynamic if name not in known]
        if unknown:
            raise CallError(
                f"dynamic names {unknown[0]}, but the open extents of {self.__name__} are "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        opened = {}
        for name, spec in specs.items():
            tensor = declared[name]
            shape = tuple(
                _open_name(extent, known if value == 0 else known & set(dynamic)) or value
                for extent, value in zip(tensor.shape, spec.shape, strict=True)
            )
            strides = spec.strides
            if tensor.strides is not None:
                names = (_open_name(stride, known & set(dynamic)) for stride in tensor.strides)
                values = strides or row_major_strides(spec.shape)
                strides = tuple(name or value or 0 for name, value in zip(names, values, strict=True))
            opened[name] = TensorSpec(shape, spec.dtype, strides)
        return opened


def _open_name(extent: Expr, names: Collection[str]) -> str:
    """The extent's name where it is one of these, else nothing."""
    return extent.name if isinstance(extent, Const | Var) and extent.name in names else ""


def _spec(array: ArrayFacts) -> TensorSpec:
    return spec_of_array(array.shape, array.dtype, None if array.row_major else array.strides)


def _as_spec(value: Any, name: str) -> TensorSpec:
    return value if isinstance(value, TensorSpec) else _spec(facts_of(value, name))


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
