"""T.Kernel, allocations, and what concerns the whole kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NoReturn

from tilegen.frontend.calls import WordCall, dtype_argument, handles
from tilegen.frontend.context import KernelState
from tilegen.frontend.foreign import warn
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import (
    ChosenLayout,
    KernelLaunch,
    NamedInt,
    is_number,
    is_tile_value,
    number_to_const,
)
from tilegen.frontend.variables import define
from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.fixing import fixing_remedy
from tilegen.ir.nodes import Buffer, LayoutAnnotation, Rasterisation, Scope, SyncThreads
from tilegen.ir.types import int32
from tilegen.language.kernel import TargetFacts


@handles("target")
def _target(call: WordCall) -> TargetFacts:
    machine = call.context.machine
    if machine is None:
        call.context.fail(call.node, "no target is given", "emit the program for a target")
    return TargetFacts(
        machine.name,
        machine.language,
        machine.limits.shared_bytes_per_block,
        machine.limits.warp_size,
        machine.has("wgmma"),
    )


@handles("Kernel")
def _kernel(call: WordCall) -> object:
    context = call.context
    grid = call.arguments["grid"]
    if not 1 <= len(grid) <= 3:
        call.fail(
            "grid",
            f"a grid has one to three axes, not {len(grid)}",
            "one block is T.Kernel(1, threads=128)"
            if not grid
            else "join axes: T.Kernel(x, y * z) and index by // and %",
        )
    extents = []
    for position, extent in enumerate(grid):
        node = call.node.args[position] if position < len(call.node.args) else call.node
        expr = context.expression(extent, node)
        if expr.dtype.is_float:
            context.fail(
                node, f"a grid extent is an integer, not {expr.dtype}", "T.ceildiv(a, b) divides upwards"
            )
        extents.append(expr)
    persistent = call.arguments["persistent"]
    if persistent not in (True, False, None):
        call.fail("persistent", "persistent is True, False or None", "None leaves it to the schedule")
    blocks = call.arguments["min_blocks"]
    if blocks is not None and (isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1):
        call.fail(
            "min_blocks",
            f"min_blocks is a Python integer from 1 on, or None, not {blocks!r}",
            "None leaves it to the schedule",
        )
    return KernelLaunch(tuple(extents), _threads(call), persistent, _cluster(call, len(extents)), blocks)


def _threads(call: WordCall) -> int:
    threads = call.arguments["threads"]
    if isinstance(threads, tuple | list):
        if any(extent != 1 for extent in threads[1:]):
            call.fail(
                "threads",
                f"a block is one-dimensional, not {tuple(threads)}",
                "give the product of the extents",
            )
        call.arguments["threads"] = threads[0]
    return int(call.python("threads", int, "a Python integer"))


def _cluster(call: WordCall, rank: int) -> tuple[int, int, int]:
    dims = call.arguments["cluster_dims"]
    if dims is None:
        return (1, 1, 1)
    items: list[Any] = (
        [dims] if isinstance(dims, int) else list(dims) if isinstance(dims, Iterable) else [None]
    )
    if not all(isinstance(item, int) and item > 0 for item in items):
        call.fail(
            "cluster_dims",
            f"cluster_dims holds positive integers, one a grid axis, not {dims!r}",
            "write cluster_dims=(2, 1), say, for pairs along the first axis",
        )
    if len(items) > 3 or any(item != 1 for item in items[rank:]):
        call.fail(
            "cluster_dims",
            f"cluster_dims has {len(items)} extents, but the grid has {rank} axes",
            "give one extent a grid axis",
        )
    x, y, z = [*items, 1, 1][:3]
    return int(x), int(y), int(z)


_SCOPES: dict[str, tuple[Scope, tuple[str, ...]]] = {
    "alloc_shared": ("shared", ("shared", "shared.dyn")),
    "alloc_fragment": ("fragment", ("local.fragment",)),
    "alloc_local": ("local", ("local",)),
}


@handles("alloc_shared", "alloc_fragment", "alloc_local")
def _alloc(call: WordCall) -> object:
    context = call.context
    require_kernel(context, call.location, call.node, f"T.{call.word}")
    scope, spellings = _SCOPES[call.word]
    if call.arguments["scope"] not in spellings:
        scope = call.arguments["scope"]
        call.fail(
            "scope", f"the scope of T.{call.word} is {spellings[0]!r}, not {scope!r}", _scope_remedy(scope)
        )
    shape = call.arguments["shape"]
    items = list(shape) if isinstance(shape, tuple | list) else [shape]
    extents = tuple(_extent(call, item, items) for item in items)
    dtype = dtype_argument(context, call.arguments["dtype"], call.node_of("dtype"))
    name = context.names.unique(context.target or call.word.removeprefix("alloc_"))
    buffer = Buffer(name, extents, dtype, scope, "none", None, call.location)
    _kernel_state(call).allocations.append(buffer)
    return buffer


def _scope_remedy(scope: object) -> str:
    """The words that allocate in a scope."""
    if scope in ("local", "local.var"):
        return "an array of each thread's own is T.alloc_local(shape, dtype), a scalar T.alloc_var(dtype)"
    for word, (_, spellings) in _SCOPES.items():
        if scope in spellings:
            return f"T.{word} allocates there"
    return "leave it out"


def _extent(call: WordCall, item: object, items: Sequence[object]) -> Expr:
    if isinstance(item, Const) and item.dtype.is_integer:
        item = int(item.value)
    if is_tile_value(item):
        call.fail(
            "shape",
            "the shape of a tile is fixed at generation time, but this extent is only known to the kernel",
            fixing_remedy(*items, otherwise="use a Python integer, such as a parameter of the program"),
        )
    if not is_number(item) or int(item) != item or item <= 0:
        call.fail(
            "shape",
            f"the shape of a tile holds positive integers, not {item!r}",
            "check the parameter that it comes from",
        )
    return number_to_const(item if isinstance(item, NamedInt) else int(item), call.location)


def _kernel_state(call: WordCall) -> KernelState:
    assert call.context.kernel is not None
    return call.context.kernel


@handles("alloc_var")
def _alloc_var(call: WordCall) -> object:
    context = call.context
    require_kernel(context, call.location, call.node, "T.alloc_var")
    dtype = dtype_argument(context, call.arguments["dtype"], call.node_of("dtype"))
    init = call.arguments["init"]
    value = build.const(0, dtype) if init is None else build.cast(call.scalar("init"), dtype, call.location)
    var = define(context, context.target or "var", value, call.location, mutable=True)
    context.fresh.add(var.name)
    return var


@handles("use_swizzle")
def _use_swizzle(call: WordCall) -> None:
    require_kernel(call.context, call.location, call.node, "T.use_swizzle")
    panel = call.python("panel_size", int, "a positive integer")
    order = call.arguments["order"]
    if panel <= 0:
        call.fail(
            "panel_size",
            f"panel_size of T.use_swizzle is a positive integer, not {panel}",
            "8 rows of tiles are a good start",
        )
    if order not in ("row", "column", "col"):
        call.fail(
            "order",
            f"order of T.use_swizzle is 'row' or 'column', not {order!r}",
            "'row' walks panels of rows",
        )
    if not call.python("enable", (bool, int), "True or False"):
        return
    state = _kernel_state(call)
    if state.rasterisation is not None:
        call.context.fail(
            call.node,
            "the order of the tiles is set twice",
            "keep one of the two",
            [(state.rasterisation.location, "the first time")],
        )
    kind: Literal["row", "column"] = "row" if order == "row" else "column"
    state.rasterisation = Rasterisation(int(panel), kind, call.location)


@handles("annotate_layout")
def _annotate_layout(call: WordCall) -> None:
    require_kernel(call.context, call.location, call.node, "T.annotate_layout")
    state = _kernel_state(call)
    layouts = call.python("layouts", dict, "a dict from buffers to layouts")
    for buffer, layout in layouts.items():
        if not isinstance(buffer, Buffer) or buffer.scope != "shared":
            _refuse_layout(call, buffer)
        if isinstance(layout, ChosenLayout) and layout.buffer == buffer:
            warn(
                call.context,
                call.node,
                f"tilegen chooses the swizzle of shared tiles itself: annotating {buffer.name} changes nothing",
            )
            continue
        for annotation in state.annotations:
            if annotation.buffer == buffer:
                call.context.fail(
                    call.node,
                    f"the layout of {buffer.name} is annotated twice",
                    "keep one of the two",
                    [(annotation.location, "the first time")],
                )
        state.annotations.append(LayoutAnnotation(buffer, layout, call.location))


def _refuse_layout(call: WordCall, buffer: object) -> NoReturn:
    """A layout for what is no shared tile."""
    message = "T.annotate_layout fixes layouts of shared tiles only"
    if not isinstance(buffer, Buffer):
        call.fail("layouts", f"{message}, not of {buffer!r}", "write {A_shared: layout}")
    remedies = {
        "global": "the strides of a tensor are declared by T.StridedTensor(shape, strides, dtype)",
        "fragment": "leave it out: which thread holds which element follows from the operations on the fragment",
    }
    call.context.fail(
        call.node_of("layouts"),
        f"{message}, but {buffer.name} lies in {buffer.scope} memory",
        remedies.get(buffer.scope, "leave it out: each thread has the array for itself"),
        [(buffer.location, f"{buffer.name} is made here")],
    )


@handles("get_thread_binding")
def _thread(call: WordCall) -> object:
    context = call.context
    require_kernel(context, call.location, call.node, "T.get_thread_binding")
    if call.python("dim", int, "0, 1 or 2") != 0:
        return build.const(0)
    state = _kernel_state(call)
    if state.thread is None:
        state.thread = Var(context.names.unique(context.target or "thread"), int32, "thread", call.location)
    return state.thread


@handles("get_block_binding")
def _block(call: WordCall) -> object:
    require_kernel(call.context, call.location, call.node, "T.get_block_binding")
    dim = call.python("dim", int, "0, 1 or 2")
    block_vars = _kernel_state(call).block_vars
    if not 0 <= dim < 3:
        call.fail(
            "dim", f"dim of T.get_block_binding is 0, 1 or 2, not {dim}", "a grid has three axes at most"
        )
    return block_vars[dim] if dim < len(block_vars) else build.const(0)


@handles("sync_threads")
def _sync(call: WordCall) -> None:
    require_kernel(call.context, call.location, call.node, "T.sync_threads")
    call.context.emit(SyncThreads(call.location))
