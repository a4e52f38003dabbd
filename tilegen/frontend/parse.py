"""Python function → tile IR."""

from __future__ import annotations

import ast
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.frontend.arguments import declare_scalar, declare_tensor, spec_argument
from tilegen.frontend.assignments import evaluate_text
from tilegen.frontend.context import KernelState, Returned, WidenVariable
from tilegen.frontend.macros import closure_of, new_frame
from tilegen.frontend.names import safe_identifier
from tilegen.frontend.source import Source, annotated_names, source_of
from tilegen.frontend.values import TensorDeclaration
from tilegen.frontend.variables import parameter_number
from tilegen.frontend.walker import Walker
from tilegen.ir.effects import buffers_written
from tilegen.ir.expressions import Const, Var
from tilegen.ir.held_names import hold_names
from tilegen.ir.nodes import Buffer, Kernel, Let, Program, Stmt
from tilegen.ir.rewrite import transform
from tilegen.ir.types import DType
from tilegen.ir.walk import each_statement
from tilegen.language.functions import Macro, PrimFunc
from tilegen.language.tensors import TensorSpec
from tilegen.target import Target

Style = Literal["eager", "lazy"]


def parse(
    function: Callable[..., Any] | PrimFunc,
    arguments: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    style: Style | None = None,
    out_idx: int | Sequence[int] | None = None,
    dims: Mapping[str, int] | None = None,
    target: Target | None = None,
) -> Program:
    """The tile IR of a program.

    Args:
        function: the tile program; a `PrimFunc` or a plain function.
        arguments: the specs of tensor arguments by name. A tensor without one takes its annotation as it is:
            `T.const` names become `dims`' integers, else launch arguments.
        parameters: values of the generation-time parameters (eager), or what the factory was called with (lazy,
            only recorded).
        style: "lazy" where `parameters` belong to a factory around the program, "eager" where they are its own; None
            means lazy for a `PrimFunc`.
        out_idx: positions of the parameters that a call returns (lazy style).
        dims: integers for `T.const` and dynamic extents that no spec fixes.
        target: what `T.target()` tells of.

    Raises:
        ProgramError: at the line of the program that cannot be honoured.
        TilegenError: for arguments that do not fit the function.
    """
    plain = function.function if isinstance(function, PrimFunc) else function
    if style is None:
        style = "lazy" if isinstance(function, PrimFunc) else "eager"
    if isinstance(plain, Macro):
        raise TilegenError(f"{plain.__name__} is a macro, not a tile program")
    source = source_of(plain)
    annotations = function.annotations if isinstance(function, PrimFunc) else {}
    job = _Job(
        function=plain,
        source=source,
        annotations=annotations,
        arguments=dict(arguments or {}),
        parameters=dict(parameters or {}),
        style=style,
        out_idx=out_idx,
        dims=_integers(dims or {}),
        target=target,
    )
    widened: dict[str, DType] = {}
    while True:
        try:
            return job.run(Walker(widened))
        except WidenVariable as variable:
            widened[variable.key] = variable.dtype


def _integers(dims: Mapping[str, int]) -> dict[str, int]:
    """The extents that a caller fixes, as Python's integers."""
    if not isinstance(dims, Mapping):
        raise TilegenError(f"dims are integers by name, such as {{'M': 4096}}, not {dims!r}")
    for name, value in dims.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TilegenError(f"dims: {name} is an integer, not {value!r}")
    return {name: int(value) for name, value in dims.items()}


@dataclass(slots=True)
class _Job:
    """One call of `parse`: its arguments, the function's parameters, and those that a call returns."""

    function: Callable[..., Any]
    source: Source
    annotations: Mapping[str, Any]
    arguments: dict[str, Any]
    parameters: dict[str, Any]
    style: Style
    out_idx: int | Sequence[int] | None
    dims: dict[str, int]
    target: Target | None
    names: tuple[str, ...] = field(init=False)
    outputs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.names = tuple(inspect.signature(self.function).parameters)
        self.outputs = self._outputs(self.out_idx)
        for name in (*self.arguments, *(self.parameters if self.style == "eager" else ())):
            if name not in self.names:
                raise TilegenError(
                    f"{self.function.__name__} has no parameter {name}; it has {', '.join(self.names)}"
                )

    def _outputs(self, out_idx: int | Sequence[int] | None) -> tuple[str, ...]:
        if out_idx is None:
            return ()
        positions = [out_idx] if isinstance(out_idx, int) else out_idx
        if not isinstance(positions, Sequence) or not all(isinstance(at, int) for at in positions):
            raise TilegenError(f"out_idx is a position of a parameter or a list of some, not {out_idx!r}")
        count = len(self.names)
        for position in positions:
            if not -count <= position < count:
                raise TilegenError(
                    f"out_idx {position} does not exist: {self.function.__name__} has {count} parameters"
                )
        return tuple(self.names[position] for position in positions)

    def run(self, walker: Walker) -> Program:
        """One walk of the program."""
        source = self.source
        frame = new_frame(source, source.tree, closure_of(self.function, named=True))
        walker.frames.append(frame)
        walker.argument_names = self.names
        walker.output_arguments = self.outputs
        walker.dims = self.dims
        walker.machine = self.target
        frame.text = source.statement_text(source.tree)
        generation = self._bind_parameters(walker)
        returned: object = None
        try:
            walker.execute(source.tree.body)
        except Returned as leave:
            returned = leave.value
        location = source.header_location(source.tree, source.statement_text(source.tree))
        if walker.kernel is None or walker.kernel.body is None:
            raise ProgramError(
                location,
                f"{source.tree.name} opens no kernel",
                remedy="write: with T.Kernel(blocks, threads=128) as bx:",
            )
        for name in self.arguments:
            if name not in walker.tensors and isinstance(self.arguments[name], TensorSpec):
                raise ProgramError(
                    location,
                    f"{name} is given a tensor, but is not declared as one",
                    remedy=f"declare it: {name}: T.Tensor(shape, dtype)",
                )
        self._check_dims(walker)
        return self._assemble(walker, walker.kernel, returned, generation)

    def _check_dims(self, walker: Walker) -> None:
        """Refuses a fixed extent that the program does not have."""
        known = [*walker.consts, *walker.dims_used, *walker.extents]
        for name in self.dims:
            if name not in known:
                has = f"it has {', '.join(dict.fromkeys(known))}" if known else "it has none"
                own = [own for own in self.names if own not in walker.tensors]
                parameters = f"; its parameters are {', '.join(own)}" if own else ""
                raise TilegenError(f"{self.function.__name__} has no extent {name}; {has}{parameters}")

    def _bind_parameters(self, walker: Walker) -> dict[str, object]:
        """Binds what the caller gives; returns the generation-time parameters in the order of the signature."""
        generation: dict[str, object] = {}
        tree_arguments = {a.arg: a for a in (*self.source.tree.args.args, *self.source.tree.args.kwonlyargs)}
        declared_in_body = annotated_names(self.source.tree)
        for name, parameter in inspect.signature(self.function).parameters.items():
            node = tree_arguments.get(name)
            if node is None:
                raise TilegenError(f"{self.function.__name__}: *args and **kwargs cannot be tile arguments")
            given = self.arguments.get(name)
            annotation = self._annotation(walker, self.annotations.get(name, parameter.annotation), node)
            if isinstance(given, TensorSpec):
                walker.specs[name] = given
            if isinstance(annotation, TensorSpec | TensorDeclaration):
                if given is not None:
                    spec_argument(name, given)
                declare_tensor(walker, name, annotation, node)
            elif isinstance(annotation, DType) and name not in self.parameters:
                declare_scalar(walker, name, annotation, node)
            elif name in declared_in_body and name not in self.parameters:
                self._bind_until_declared(walker, name, given, parameter.default)
            elif isinstance(given, TensorSpec):
                declare_tensor(walker, name, given, node)
            elif name in self.parameters or parameter.default is not inspect.Parameter.empty:
                value = self.parameters.get(name, parameter.default)
                if isinstance(value, numbers.Integral) and not isinstance(value, int):
                    value = int(value)  # NumPy's
                generation[name] = value
                walker.fixed_parameters[name] = value
                walker.bind(name, parameter_number(name, value))
            else:
                walker.fail(
                    node,
                    f"{name} is given no value",
                    f"declare a tensor in the body, {name}: T.Tensor(shape, dtype), or give the parameter a default",
                )
        return generation

    def _bind_until_declared(self, walker: Walker, name: str, given: object, default: object) -> None:
        """Before the body declares a tensor, its name means the given spec, or the parameter's default, so that
        `if Bias is not None` can be decided."""
        if given is not None:
            walker.bind(name, given)
        elif default is not inspect.Parameter.empty:
            walker.bind(name, default)

    def _annotation(self, walker: Walker, annotation: object, node: ast.arg) -> object:
        """The value of a parameter's annotation, which may be kept as text."""
        if isinstance(annotation, str):
            return evaluate_text(
                walker, annotation, node.annotation or ast.copy_location(ast.Name(node.arg), node)
            )
        return annotation

    def _assemble(
        self, walker: Walker, state: KernelState, returned: object, generation: dict[str, object]
    ) -> Program:
        source = self.source
        location = source.header_location(source.tree, source.statement_text(source.tree))
        assert state.body is not None
        body, roles = _settle(walker, state.body)
        given = (walker.tensors[name] for name in self.names if name in walker.tensors)
        kernel = Kernel(
            grid=state.launch.grid,
            block_vars=state.block_vars,
            threads=state.launch.threads,
            persistent=state.launch.persistent,
            cluster=state.launch.cluster,
            allocations=tuple(state.allocations),
            body=body,
            rasterisation=state.rasterisation,
            annotations=tuple(state.annotations),
            min_blocks=state.launch.min_blocks,
            location=state.location,
        )
        scalars = [name for name in self.names if name in walker.scalars]
        extents = _launch_extents(walker)
        recorded = generation if self.style == "eager" else self.parameters
        return Program(
            name=_program_name(self.function),
            tensors=tuple(roles.get(buffer, buffer) for buffer in (*given, *walker.created)),
            scalars=tuple(walker.scalars[name] for name in scalars),
            extents=tuple(extents),
            outputs=self._output_names(walker, returned),
            kernel=kernel,
            parameters=tuple((name, _quoted(value)) for name, value in recorded.items()),
            digest=source.digest,
            location=location,
            assumptions=tuple(dict.fromkeys(walker.assumptions)),
            arguments=tuple(scalars),
            fixed=tuple(name for name, const in walker.consts.items() if isinstance(const.value, int)),
            called=tuple(extents.values()),
        )

    def _output_names(self, walker: Walker, returned: object) -> tuple[str, ...]:
        """The tensors that a call returns, in return order.

        Raises:
            ProgramError: for a tensor that the program creates and does not return.
        """
        outputs = tuple(walker.tensors[name].name for name in self.outputs)
        if returned is not None:
            outputs = _returned(walker, returned, location_of_return(self.source, walker))
        for buffer in walker.created:
            if buffer.name not in outputs:
                raise ProgramError(
                    buffer.location,
                    f"{buffer.name} is created by T.empty, but is not returned",
                    remedy=f"end the program with return {buffer.name}",
                )
        return outputs


def _launch_extents(walker: Walker) -> dict[Var, str]:
    """The dynamic extents, each with the program's own name of it: those of T.const names in T.const's order, then the
    others by first use."""
    extents: dict[Var, str] = {}
    for name, const in walker.consts.items():
        if isinstance(const.value, Var):
            extents.setdefault(const.value, name)
    for name, var in walker.extents.items():
        extents.setdefault(var, name)
    return extents


def _settle(walker: Walker, body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], dict[Buffer, Buffer]]:
    """The final body: arguments that the kernel writes are "inout", names that are never assigned again are
    immutable. Also the buffers whose role changed."""
    written = {buffer for statement in each_statement(body) for buffer in buffers_written(statement)}
    roles: dict[Buffer, Buffer] = {}
    for buffer in walker.tensors.values():
        if buffer.role == "input" and buffer in written:
            roles[buffer] = Buffer(
                buffer.name,
                buffer.shape,
                buffer.dtype,
                buffer.scope,
                "inout",
                buffer.strides,
                buffer.location,
            )

    def settle(node: Any) -> Any:
        if isinstance(node, Let) and node.mutable and node.var.name not in walker.assigned:
            return Let(node.var, node.value, False, node.location)
        return roles.get(node, node) if isinstance(node, Buffer) else node

    if roles or not walker.assigned >= set(walker.mutable):
        body = transform(body, settle)
    return hold_names(body), roles


def location_of_return(source: Source, walker: Walker) -> Any:
    """Where the program returns."""
    statement = source.tree.body[-1]
    return source.header_location(statement, source.statement_text(statement))


def _returned(walker: Walker, returned: object, location: Any) -> tuple[str, ...]:
    values = returned if isinstance(returned, tuple | list) else (returned,)
    for value in values:
        if not isinstance(value, Buffer) or value.scope != "global":
            raise ProgramError(
                location,
                "a program returns tensors",
                remedy="create the output with T.empty before the kernel, copy the result to it, and return it",
            )
    return tuple(buffer.name for buffer in values)


def _program_name(function: Callable[..., Any]) -> str:
    """The function's name; a program called main (or kernel) inside a factory is named after the factory."""
    name = function.__name__
    outer = function.__qualname__.split(".<locals>.")
    if name in ("main", "kernel") and len(outer) > 1:
        name = outer[-2].split(".")[-1]
    return safe_identifier(name)


def _quoted(value: object) -> str:
    """A parameter as the header of an emitted file quotes it: never an address."""
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, Const):
        return str(value.value)
    if isinstance(value, Enum):
        return str(value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text
