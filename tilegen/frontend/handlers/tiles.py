"""T.copy, T.fill, T.clear, T.gemm and the reductions."""

from __future__ import annotations

from typing import cast, get_args

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.indexing import corner_region, region_of, squeeze
from tilegen.frontend.stores import require_kernel
from tilegen.ir import build
from tilegen.ir.expressions import Load, Var
from tilegen.ir.nodes import Assign, Copy, Fill, Gemm, GemmPolicy, Reduce, ReduceOp, Region, Store
from tilegen.language.tiles import GemmWarpPolicy

EVICTION_POLICIES = ("evict_first", "evict_normal", "evict_last")


def tile(call: WordCall, name: str) -> Region:
    """An argument that must be a tile: a buffer or a slice.

    Raises:
        ProgramError: for a single element.
    """
    node = call.node_of(name)
    value = call.arguments[name]
    region = region_of(call.context, value, node, call.word)
    if region is None:
        assert isinstance(value, Load)
        call.fail(
            name,
            f"T.{call.word} needs a tile, but {value.buffer.name} is indexed down to a single element",
            "pass the buffer, or a slice: start : start + size",
        )
    return region


def pair(call: WordCall, first: str, second: str) -> tuple[Region, Region] | None:
    """Two tiles of the same shape; an element takes the other side's shape. None when both are elements."""
    context = call.context
    left, right = call.arguments[first], call.arguments[second]
    a = region_of(context, left, call.node_of(first), call.word)
    b = region_of(context, right, call.node_of(second), call.word)
    if a is None and b is None:
        return None
    if a is None:
        assert b is not None
        a = corner_region(context, left, b.tile, context.location(call.node_of(first)), call.node_of(first))
    elif b is None:
        b = corner_region(
            context, right, a.tile, context.location(call.node_of(second)), call.node_of(second)
        )
    return squeeze(a, b.tile), squeeze(b, a.tile)


@handles("copy")
def _copy(call: WordCall) -> None:
    context = call.context
    require_kernel(context, call.location, call.node, "T.copy")
    regions = pair(call, "src", "dst")
    policy = call.arguments["eviction_policy"]
    if policy is not None and policy not in EVICTION_POLICIES:
        call.fail(
            "eviction_policy",
            f"T.copy has no eviction policy {policy!r}",
            "write one of " + ", ".join(f'"{name}"' for name in EVICTION_POLICIES),
        )
    if regions is not None:
        eviction = "" if policy in (None, "evict_normal") else str(policy)
        context.emit(Copy(regions[0], regions[1], call.location, eviction))
        return
    source, target = call.arguments["src"], call.arguments["dst"]
    value = build.cast(source, target.buffer.dtype, call.location)
    context.emit(Store(target.buffer, target.indices, value, call.location))


@handles("fill", "clear")
def _fill(call: WordCall) -> None:
    context = call.context
    require_kernel(context, call.location, call.node, f"T.{call.word}")
    value = build.const(0) if call.word == "clear" else call.scalar("value")
    target = call.arguments["buffer"]
    if isinstance(target, Var) and target.name in context.mutable:
        context.assigned.add(target.name)
        context.emit(Assign(target, build.cast(value, target.dtype), call.location))
        return
    region = region_of(context, target, call.node_of("buffer"), call.word)
    if region is None:
        converted = build.cast(value, target.buffer.dtype, call.location)
        context.emit(Store(target.buffer, target.indices, converted, call.location))
        return
    context.emit(Fill(region, build.cast(value, region.buffer.dtype, call.location), call.location))


@handles("gemm")
def _gemm(call: WordCall) -> None:
    require_kernel(call.context, call.location, call.node, "T.gemm")
    policy = call.arguments["policy"]
    if not isinstance(policy, GemmWarpPolicy):
        call.fail(
            "policy",
            "policy of T.gemm is a T.GemmWarpPolicy",
            "T.GemmWarpPolicy.Square, .FullRow, .FullCol or .SlicedK",
        )
    if call.arguments["k_pack"] not in (1, 2):
        call.fail(
            "k_pack",
            f"k_pack of T.gemm is 1 or 2, not {call.arguments['k_pack']!r}",
            "leave it out: the schedule packs as the instruction asks",
        )
    flags = [bool(call.python(name, (bool, int), "True or False")) for name in _GEMM_FLAGS]
    regions = [tile(call, name) for name in ("A", "B", "C")]
    for name, region in zip(("A", "B", "C"), regions, strict=True):
        if len(region.tile) != 2:
            call.fail(
                name,
                f"{name} of T.gemm is a matrix, but {region.buffer.name} gives a tile of shape {region.tile}",
                "index the other axes away",
            )
    a, b, c = regions
    kind: GemmPolicy = policy.value
    call.context.emit(Gemm(a, b, c, flags[0], flags[1], kind, flags[2], call.location))


_GEMM_FLAGS = ("transpose_A", "transpose_B", "clear_accum")
_REDUCTIONS: tuple[ReduceOp, ...] = get_args(ReduceOp)


@handles("reduce", *(f"reduce_{op}" for op in _REDUCTIONS))
def _reduce(call: WordCall) -> None:
    require_kernel(call.context, call.location, call.node, f"T.{call.word}")
    op = call.word.removeprefix("reduce_")
    if call.word == "reduce":
        op = call.python("reduce_type", str, "a string")
        if op not in _REDUCTIONS:
            call.fail("reduce_type", f"{op!r} is not a reduction", f"they are {', '.join(_REDUCTIONS)}")
    source, target = tile(call, "buffer"), tile(call, "out")
    axis = call.python("dim", int, "a Python integer")
    rank = len(source.tile)
    if not -rank <= axis < rank:
        call.fail(
            "dim",
            f"dim {axis} does not exist: {source.buffer.name} gives a tile of shape {source.tile}",
            f"dim lies between {-rank} and {rank - 1}",
        )
    axis %= rank
    clear = bool(call.python("clear", (bool, int), "True or False"))
    target = _without_reduced_axis(source, target, axis)
    call.context.emit(Reduce(cast(ReduceOp, op), source, target, axis, clear, call.location))


def _without_reduced_axis(source: Region, target: Region, axis: int) -> Region:
    """The target of a reduction that kept the reduced axis with extent 1, with that axis dropped."""
    if len(target.tile) != len(source.tile) or target.tile[axis] != 1:
        return target
    dropped = tuple(sorted((*target.dropped, target.kept[axis])))
    return Region(target.buffer, target.offsets, target.shape, dropped, target.location)
