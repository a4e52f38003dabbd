"""From a Python function and what the caller fixes of it to an Emission."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from tilegen.driver import generate
from tilegen.dtype_parameters import bind_dtypes, evaluated_annotations
from tilegen.emission import Emission
from tilegen.errors import TilegenError
from tilegen.frontend import parse
from tilegen.frontend.names import is_reserved, safe_identifier
from tilegen.frontend.source import annotated_names, source_of
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Program
from tilegen.ir.types import DType
from tilegen.language.functions import PrimFunc
from tilegen.language.tensors import TensorSpec
from tilegen.target import Target

Function = Callable[..., Any]
OutIdx = int | Sequence[int] | None
Style = Literal["eager", "lazy"]


class CallError(TilegenError):
    """Arguments that do not fit the tile program's parameters."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A tile program as the user wrote it.

    `style` is "lazy" where the signature declares the tensors (`T.prim_func`), else "eager". `recorded` are the
    parameters of the factory that made a lazy program, and `origin` is what the emit command calls the program.
    """

    function: Function | PrimFunc
    style: Style
    out_idx: OutIdx
    origin: str
    recorded: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python(self) -> Function:
        return self.function.function if isinstance(self.function, PrimFunc) else self.function


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a specialisation fixes of a program: specs of its tensors, generation-time parameters (and scalars) and
    extents, each by name."""

    tensors: Mapping[str, TensorSpec] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A call's values by parameter: specs or arrays of tensors, numbers of scalar arguments, and the rest, which
    are generation-time parameters."""

    tensors: dict[str, Any]
    scalars: dict[str, Any]
    parameters: dict[str, Any]


@cache
def parameter_names(function: Function) -> tuple[str, ...]:
    """The function's parameters in order."""
    return tuple(inspect.signature(function).parameters)


def hashable(values: Mapping[str, Any]) -> tuple[tuple[str, Hashable], ...]:
    """Named values as a dictionary key; what cannot be hashed (a list) goes by its representation. Numbers
    that are equal (1, 1.0 and True, 0.0 and -0.0) are told apart."""
    items: list[tuple[str, Hashable]] = []
    for name, value in values.items():
        try:
            hash(value)
        except TypeError:
            items.append((name, (type(value).__name__, repr(value))))
        else:
            exact = repr(value) if isinstance(value, float | tuple) else ""
            items.append((name, (type(value).__name__, value, exact)))
    return tuple(items)


@cache
def scalar_parameters(function: Function) -> tuple[str, ...]:
    """The parameters that are annotated with an element type: scalar launch arguments."""
    return tuple(
        name for name, annotation in evaluated_annotations(function) if isinstance(annotation, DType)
    )


@cache
def scalar_defaults(function: Function) -> Mapping[str, Any]:
    """What the signature has for scalar parameters that a call leaves out."""
    own = inspect.signature(function).parameters
    known = {name: own[name].default for name in scalar_parameters(function) if name in own}
    return {
        name: value
        for name, value in known.items()
        if value is not None and value is not inspect.Parameter.empty
    }


@cache
def declared_tensors(function: Function, style: Style) -> frozenset[str]:
    """The parameters that a program declares as tensors: in its body, or (a lazy one) in its signature."""
    if style == "lazy":
        return frozenset(parameter_names(function))
    own = inspect.signature(function).parameters.values()
    in_signature = {parameter.name for parameter in own if isinstance(parameter.annotation, TensorSpec)}
    return annotated_names(source_of(function).tree) | in_signature


def assign(
    function: Function, values: Sequence[Any], keywords: Mapping[str, Any], is_tensor: Callable[[Any], bool]
) -> Assignment:
    """Sorts a call's values by the function's signature. A spec or array skips scalar parameters before it, so that
    `emit` can leave them out.

    Raises:
        CallError: too many values, or a name that the function does not have.
    """
    names = parameter_names(function)
    scalars = set(scalar_parameters(function))
    for name, value in keywords.items():
        if is_tensor(value):
            _refuse_tensor(function, name)
    assignment = Assignment({}, {}, {})
    position = 0
    for value in values:
        while is_tensor(value) and position < len(names) and names[position] in scalars:
            position += 1
        if position >= len(names):
            if is_tensor(value) and names[-1] in scalars:
                raise CallError(
                    f"{function.__name__} takes a number for {names[-1]}, not an array: pass array.item()"
                )
            raise CallError(
                f"{function.__name__} takes {len(names)} values ({', '.join(names)}), more are given"
            )
        if is_tensor(value):
            _refuse_tensor(function, names[position])
        _place(assignment, names[position], value, scalars, is_tensor)
        position += 1
    for name, value in keywords.items():
        if name not in names:
            raise CallError(f"{function.__name__} has no parameter '{name}'; it has {', '.join(names)}")
        if name in assignment.tensors or name in assignment.scalars or name in assignment.parameters:
            raise CallError(f"{function.__name__} is given {name} twice")
        _place(assignment, name, value, scalars, is_tensor)
    return assignment


def _refuse_tensor(function: Function, name: str) -> None:
    """Raises CallError where a tensor is given for a parameter with a default, which is no tensor's."""
    own = inspect.signature(function).parameters
    if name not in own or own[name].default in (inspect.Parameter.empty, None):
        return
    wanted = [other for other in own if own[other].default is inspect.Parameter.empty]
    tensors = [other for other in wanted if other not in scalar_parameters(function)]
    kind = "a number" if name in scalar_parameters(function) else "a generation-time parameter"
    raise CallError(
        f"{function.__name__} takes {len(tensors)} arrays ({', '.join(tensors)}), but one is given for {name}, which "
        f"is {kind}\n  remedy: pass only the program's arrays, and {name}=… if another value than "
        f"{own[name].default!r} is wanted"
    )


def _place(
    assignment: Assignment, name: str, value: Any, scalars: set[str], is_tensor: Callable[[Any], bool]
) -> None:
    if is_tensor(value):
        assignment.tensors[name] = value
    elif name in scalars:
        assignment.scalars[name] = value
    else:
        assignment.parameters[name] = value


def read_program(
    definition: Definition,
    tensors: Mapping[str, TensorSpec],
    parameters: Mapping[str, Any],
    dims: Mapping[str, int] | None = None,
    target: Target | None = None,
) -> Program:
    """The tile IR for these specs, parameters and extents, on a target.

    Raises:
        ProgramError: at the user's line.
    """
    recorded = parameters if definition.style == "eager" else definition.recorded
    return parse(
        definition.function,
        arguments=tensors,
        parameters=recorded,
        style=definition.style,
        out_idx=definition.out_idx,
        dims=dims,
        target=target,
    )


def build_emission(
    definition: Definition,
    target: Target,
    tensors: Mapping[str, TensorSpec],
    parameters: Mapping[str, Any],
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    *,
    whole_rows: bool = True,
) -> Emission:
    """The emitted files for one target. `whole_rows` is that of `generate`.

    Raises:
        ProgramError: when the program is wrong or does not fit the target.
        CallError: a kernel name that is no C identifier, or that C++ or the toolkit use.
    """
    if definition.style == "eager":
        parameters = bind_dtypes(definition.python, tensors, parameters)
    program = read_program(definition, tensors, parameters, dims, target)
    if name is not None:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise CallError(f"'{name}' cannot name a kernel: it is no C identifier")
        if is_reserved(name):
            raise CallError(
                f"'{name}' cannot name a kernel: C++, the toolkit or the text's constants use it\n"
                f"  remedy: {safe_identifier(name)} can"
            )
        program = dataclasses.replace(program, name=name)
    given = parameters if definition.style == "eager" else definition.recorded
    command = regenerate_command(program, definition.origin, target, given, dims or {}, name)
    return Emission(generate(program, target, command, whole_rows=whole_rows))


def regenerate_command(
    program: Program,
    origin: str,
    target: Target,
    parameters: Mapping[str, Any],
    dims: Mapping[str, int],
    name: str | None,
) -> str:
    """The shell command that emits the same file again; the header quotes it."""
    words = ["tilegen", "emit", f"{program.location.file}:{origin}", "--target", target.name]
    fixed = {
        extent.name: int(extent.value)
        for tensor in program.tensors
        for extent in (*tensor.shape, *(tensor.strides or ()))
        if isinstance(extent, Const) and extent.name in program.fixed
    }
    for extent_name, extent_value in {**fixed, **dims}.items():
        words += ["--dim", f"{extent_name}={extent_value}"]
    for parameter, value in parameters.items():
        words += ["--set", f"{parameter}={value}"]
    if name is not None:
        words += ["--name", name]
    return shlex.join(words)
