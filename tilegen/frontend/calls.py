"""Calls: words of the language, macros, and Python functions."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import tilegen.language as T
from tilegen.diagnostics import closest
from tilegen.errors import TilegenError
from tilegen.frontend.context import Context
from tilegen.frontend.extents import resolve
from tilegen.frontend.foreign import without_foreign_options
from tilegen.frontend.macros import inline, macro_function
from tilegen.frontend.values import LocalFunction, Method, holds_tile_value, is_tile_value
from tilegen.ir import build
from tilegen.ir.expressions import Expr
from tilegen.ir.fixing import fixing_remedy
from tilegen.ir.types import DType, as_dtype, spells_dtype
from tilegen.language.custom import CustomWord
from tilegen.language.functions import Macro
from tilegen.language.operation import operation_name
from tilegen.location import Location


@dataclass(frozen=True, slots=True)
class WordCall:
    """A call of a word of the language with its arguments bound to the word's parameters."""

    context: Context
    word: str
    node: ast.Call
    arguments: dict[str, Any]
    nodes: dict[str, ast.expr]
    function: object

    @property
    def location(self) -> Location:
        return self.context.location(self.node)

    def node_of(self, name: str) -> ast.expr:
        """Where an argument is written; the whole call for one that is left at its default."""
        return self.nodes.get(name, self.node)

    def scalar(self, name: str) -> Expr:
        return self.context.expression(self.arguments[name], self.node_of(name))

    def python(self, name: str, kinds: type | tuple[type, ...], meaning: str) -> Any:
        """An argument that must be a Python value of one of the given types.

        Raises:
            ProgramError: for anything else; `meaning` says what is needed.
        """
        value = self.arguments[name]
        if isinstance(value, bool) and bool not in (kinds if isinstance(kinds, tuple) else (kinds,)):
            self.fail(name, f"{name} of T.{self.word} is {meaning}, not {value}", f"give {meaning}")
        if not isinstance(value, kinds):
            shown = "a value that only the kernel knows" if is_tile_value(value) else repr(value)
            self.fail(
                name,
                f"{name} of T.{self.word} is {meaning}, not {shown}",
                fixing_remedy(value) or f"give {meaning}",
            )
        return value

    def fail(self, name: str, message: str, remedy: str = "") -> NoReturn:
        self.context.fail(self.node_of(name), message, remedy)


Handler = Callable[[WordCall], object]
Replacement = Callable[[Context, ast.Call, list[object]], object]
CUSTOM = "custom operation"  # the key of the one handler of all registered operations
_HANDLERS: dict[str, Handler] = {}
_REPLACEMENTS: dict[Any, Replacement] = {}
_SIGNATURES: dict[Any, inspect.Signature] = {}


def handles(*words: str) -> Callable[[Handler], Handler]:
    """Registers the handler of words of the language."""

    def register(handler: Handler) -> Handler:
        for word in words:
            _HANDLERS[word] = handler
        return handler

    return register


def replaces(*functions: Callable[..., Any]) -> Callable[[Replacement], Replacement]:
    """Registers what a function of Python's own means when it is given tile values."""

    def register(replacement: Replacement) -> Replacement:
        for function in functions:
            _REPLACEMENTS[function] = replacement
        return replacement

    return register


def call(context: Context, node: ast.Call) -> object:
    """The value of a call."""
    function = context.evaluate(node.func)
    word = operation_name(function)
    if word is not None:
        return _word(context, node, cast(Callable[..., Any], function), word)
    match function:
        case DType():
            return _cast_call(context, node, function)
        case Method(name="astype", receiver=receiver):
            return _astype(context, node, receiver)
        case Macro():
            return inline(context, node, macro_function(function), *_arguments(context, node))
        case CustomWord():
            return _HANDLERS[CUSTOM](_bind(context, node, function.signature, function.name, function))
        case LocalFunction():
            return inline(context, node, function, *_arguments(context, node))
    if is_tile_value(function):
        context.fail(node.func, "a tile value cannot be called", "index it with [ ]")
    return _python_call(context, node, cast(Callable[..., Any], function))


def _arguments(context: Context, node: ast.Call) -> tuple[list[object], dict[str, object]]:
    """The values of a call's arguments, starred ones unpacked."""
    positional: list[object] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = context.evaluate(argument.value)
            if is_tile_value(value):
                context.fail(
                    argument, "only Python sequences can be unpacked", "pass its elements one by one"
                )
            positional.extend(cast(tuple[object, ...], value))
        else:
            positional.append(context.evaluate(argument))
    keywords: dict[str, object] = {}
    for keyword in node.keywords:
        value = context.evaluate(keyword.value)
        if keyword.arg is None:
            keywords.update(cast(dict[str, object], value))
        else:
            keywords[keyword.arg] = value
    return positional, keywords


# --------------------------------------------------------------------------------------------- words


def _word(context: Context, node: ast.Call, function: Callable[..., Any], word: str) -> object:
    return _HANDLERS[word](_bind(context, node, _signature(function), word, function))


def _bind(
    context: Context, node: ast.Call, signature: inspect.Signature, word: str, function: object
) -> WordCall:
    """Evaluates the arguments and binds them to the word's parameters."""
    target, context.target = context.target, ""
    positional, keywords = _arguments(context, node)
    context.target = target
    keywords = without_foreign_options(context, node, word, keywords)
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        _refuse_arguments(context, node, signature, word, keywords, error)
    bound.apply_defaults()
    return WordCall(context, word, node, bound.arguments, _nodes(signature, node), function)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    signature = _SIGNATURES.get(function)
    if signature is None:
        signature = _SIGNATURES[function] = inspect.signature(function)
    return signature


def _nodes(signature: inspect.Signature, node: ast.Call) -> dict[str, ast.expr]:
    """Where each parameter's argument is written."""
    nodes: dict[str, ast.expr] = {}
    for parameter, argument in zip(signature.parameters.values(), node.args, strict=False):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL or isinstance(argument, ast.Starred):
            break
        nodes[parameter.name] = argument
    for keyword in node.keywords:
        if keyword.arg is not None:
            nodes[keyword.arg] = keyword.value
    return nodes


def _refuse_arguments(
    context: Context,
    node: ast.Call,
    signature: inspect.Signature,
    word: str,
    keywords: dict[str, object],
    error: TypeError,
) -> Any:
    """Says which keyword is unknown, or which argument is missing or too much."""
    known = list(signature.parameters)
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in signature.parameters:
            close = closest(keyword.arg, known)
            context.fail(
                keyword,
                f"T.{word} has no argument {keyword.arg}",
                f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(known)}",
            )
    context.fail(node, f"T.{word}: {error}", f"its arguments are {', '.join(known)}")


def _cast_call(context: Context, node: ast.Call, dtype: DType) -> Expr:
    """`T.float32(x)`."""
    positional, keywords = _arguments(context, node)
    if len(positional) != 1 or keywords:
        context.fail(node, f"T.{dtype} converts one value", f"write T.{dtype}(x)")
    return build.cast(context.expression(positional[0], node.args[0]), dtype, context.location(node))


def _astype(context: Context, node: ast.Call, receiver: Expr) -> Expr:
    positional, keywords = _arguments(context, node)
    if len(positional) != 1 or keywords:
        context.fail(node, "astype takes one dtype", "write x.astype(T.float16)")
    return build.cast(receiver, dtype_argument(context, positional[0], node.args[0]), context.location(node))


def dtype_argument(context: Context, value: object, node: ast.expr) -> DType:
    """A dtype from a user's spelling.

    Raises:
        ProgramError: for anything that names no dtype.
    """
    if isinstance(value, str) or spells_dtype(value):
        try:
            return as_dtype(value)
        except TilegenError as error:
            context.fail(node, str(error), "dtypes are T.float16, T.bfloat16, T.float32, T.int32, …")
    context.fail(
        node, f"a dtype is needed here, not {value!r}", "dtypes are T.float16, T.bfloat16, T.float32, …"
    )


# --------------------------------------------------------------------------------------------- Python functions

_CONTAINER_FUNCTIONS = (
    builtins.len, builtins.enumerate, builtins.zip, builtins.reversed, builtins.list, builtins.tuple,
    builtins.dict, builtins.type, builtins.id,
)  # fmt: skip


def _python_call(context: Context, node: ast.Call, function: Callable[..., Any]) -> object:
    """A call of a Python function: Python runs it, unless it would be given a tile value."""
    positional, keywords = _arguments(context, node)
    if any(holds_tile_value(value) for value in (*positional, *keywords.values())):
        replacement = next((meaning for known, meaning in _REPLACEMENTS.items() if known is function), None)
        if replacement is not None and not keywords:
            return replacement(context, node, positional)
        if function is isinstance or (
            any(function is known for known in _CONTAINER_FUNCTIONS) and not is_tile_value(positional[0])
        ):
            return function(*positional, **keywords)
        name = getattr(function, "__name__", "this function")
        remedy = (
            "write it as a def under @T.macro, which is inlined into the kernel"
            if name == "<lambda>"
            else f"decorate {name} with @T.macro, so that it is inlined into the kernel"
        )
        extents = fixing_remedy(*positional, *keywords.values())
        if extents:
            remedy = f"{extents}; or {remedy}"
        if function is print:
            remedy = "remove it: a kernel prints nothing; store the value in an output to look at it"
        elif getattr(function, "__module__", "") in ("math", "numpy", "builtins", "cmath", "torch"):
            remedy = f"use the tile language's own function, such as T.{_twin(name)}"
        context.fail(node, f"the Python function {name} is given a value that only the kernel knows", remedy)
    try:
        return resolve(context, function(*positional, **keywords))
    except TilegenError as error:
        message, _, remedy = str(error).partition("\n  remedy: ")
        context.fail(node, message, remedy or "check what it is given")
    except Exception as error:
        raised = f"Python raises {type(error).__name__} here: {error}"
        context.fail(node, raised, "Python computes this when text is generated: check what goes into it")


def _twin(name: str) -> str:
    close = closest(name, T.__all__)
    return close[0] if close else "exp"
