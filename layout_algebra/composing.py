"""Composition: `composition(outer, inner)(c) == outer(inner(c))` for every coordinate `c` of `inner`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, overload

from layout_algebra.errors import NotComposable, ProfileError
from layout_algebra.fitting import fit_modes, nest_layouts
from layout_algebra.layout import (
    Layout,
    Mode,
    coalesced_modes,
    evaluate_modes,
    layout_of_modes,
    make_layout,
    table_of_modes,
)
from layout_algebra.swizzle import ComposedLayout, Swizzle

# What a divide, a product or a composition by mode takes: a layout, an extent n (short for the layout n:1),
# None (leave the mode as it is), or one of these for each mode.
Tiler: TypeAlias = Layout | int | tuple["Tiler", ...] | None

# Where the divisibility rules are not enough, this many points are compared one by one; beyond, the
# composition is refused.
EXHAUSTIVE_LIMIT = 1 << 22


@overload
def composition(outer: Layout, inner: Tiler) -> Layout: ...
@overload
def composition(outer: ComposedLayout, inner: Tiler) -> ComposedLayout: ...
@overload
def composition(outer: Swizzle, inner: Layout | ComposedLayout) -> ComposedLayout: ...
def composition(
    outer: Layout | ComposedLayout | Swizzle, inner: Tiler | ComposedLayout
) -> Layout | ComposedLayout:
    """`R(c) == outer(inner(c))` for every coordinate `c` of `inner`; R has the profile of `inner`, its leaves
    nested deeper where one stride is not enough.

    The offsets of `inner` must be indices of `outer`: unlike CuTe, the last mode of `outer` does not extend
    beyond its extent. A tuple composes mode by mode. A Swizzle as `outer` gives a ComposedLayout.

    Raises NotComposable where an offset of `inner` is no index of `outer`, or where R is no layout of that
    profile (CuTe returns a wrong one); ProfileError where a tuple has more modes than `outer`. Source: CuTe's
    layout algebra; the divisibility conditions, then an exhaustive comparison, are this module's own.
    """
    if isinstance(outer, Swizzle):
        if isinstance(inner, Layout):
            return ComposedLayout(outer, 0, inner)
        if isinstance(inner, ComposedLayout):
            return ComposedLayout((outer, *inner.swizzles), inner.offset, inner.layout)
        raise NotComposable(f"{outer} composes with a layout, not with {inner!r}")
    if isinstance(inner, ComposedLayout):
        raise NotComposable(
            f"{outer} o ({inner}) is not supported: a swizzled layout can only be composed on its right"
        )
    if isinstance(outer, ComposedLayout):
        return ComposedLayout(outer.swizzles, outer.offset, composition(outer.layout, inner))
    return _compose_tiler(outer, inner)


def _compose_tiler(outer: Layout, inner: Tiler) -> Layout:
    match inner:
        case Layout():
            return _compose(outer, inner)
        case None:
            return outer
        case int():
            return _compose(outer, Layout(inner))
        case _:
            if len(inner) > outer.rank:
                raise ProfileError(f"{len(inner)} tilers for the {outer.rank} modes of {outer}")
            done = [_compose_tiler(outer[mode], part) for mode, part in enumerate(inner)]
            return make_layout(*done, *(outer[mode] for mode in range(len(inner), outer.rank)))


@lru_cache(maxsize=65536)
def _compose(outer: Layout, inner: Layout) -> Layout:
    if inner.minimum < 0 or inner.cosize > outer.size:
        raise NotComposable(
            f"({outer}) o ({inner}): the offsets {inner.minimum} to {inner.cosize - 1} of {inner} "
            f"are not all among the {outer.size} indices of {outer}"
        )
    digits = coalesced_modes(outer.modes)
    headroom = [extent - 1 for extent, _ in digits]
    parts: list[Layout] = []
    for mode in inner.modes:
        composed, peaks = _compose_mode(digits, mode) or _compose_mode_by_table(outer, inner, digits, mode)
        parts.append(layout_of_modes(composed))
        headroom = [room - peak for room, peak in zip(headroom, peaks, strict=True)]
    # No carry between digits: outer(x + y) == outer(x) + outer(y) for all the terms that inner adds up
    if any(room < 0 for room in headroom):
        _check_additive(outer, inner, parts)
    return nest_layouts(parts, inner.shape)


def _compose_mode(digits: Sequence[Mode], mode: Mode) -> tuple[list[Mode], list[int]] | None:
    """Compose with one mode by the divisibility rules: the modes of the result and the largest value of each
    digit.

    `digits` are the coalesced modes of the outer layout. None where the rules do not apply.
    """
    extent, step = mode
    peaks = [0] * len(digits)
    if extent == 1 or step == 0:
        return [(extent, 0)], peaks
    result: list[Mode] = []
    for position, (radix, stride) in enumerate(digits):
        last = position == len(digits) - 1
        if last or (extent - 1) * step < radix:
            peaks[position] = (extent - 1) * step
            result.append((extent, step * stride))
            return result, peaks
        if step % radix == 0:
            step //= radix
            continue
        count = radix // step
        if radix % step or extent % count:
            return None
        peaks[position] = (count - 1) * step
        result.append((count, step * stride))
        extent //= count
        step = 1
    return None


def _compose_mode_by_table(
    outer: Layout, inner: Layout, digits: Sequence[Mode], mode: Mode
) -> tuple[list[Mode], list[int]]:
    """Compose with one mode by evaluating every coordinate of it."""
    extent, step = mode
    if extent > EXHAUSTIVE_LIMIT:
        raise NotComposable(
            f"({outer}) o ({inner}): the mode {extent}:{step} does not divide and is too long to be tried out"
        )
    result = fit_modes([evaluate_modes(digits, coordinate * step) for coordinate in range(extent)])
    if result is None:
        raise NotComposable(
            f"({outer}) o ({inner}): along the mode {extent}:{step} the offsets are no Shape:Stride layout"
        )
    peaks = []
    scale = 1
    for radix, _ in digits:
        peaks.append(max(coordinate * step // scale % radix for coordinate in range(extent)))
        scale *= radix
    return result, peaks


def _check_additive(outer: Layout, inner: Layout, parts: Sequence[Layout]) -> None:
    """Compare the sum of the modes with the composed function, point by point."""
    if inner.size > EXHAUSTIVE_LIMIT:
        raise NotComposable(
            f"({outer}) o ({inner}): modes of {inner} overlap in {outer}, and there are too many points to try out"
        )
    digits = coalesced_modes(outer.modes)
    indices = [0]
    offsets = [0]
    for (extent, step), part in zip(inner.modes, parts, strict=True):
        indices = [index + step * coordinate for coordinate in range(extent) for index in indices]
        offsets = [offset + start for start in table_of_modes(part.modes) for offset in offsets]
        if any(
            evaluate_modes(digits, index) != offset for index, offset in zip(indices, offsets, strict=True)
        ):
            raise NotComposable(
                f"({outer}) o ({inner}): modes of {inner} add up across the modes of {outer}, so that the result is no "
                "Shape:Stride layout of this profile"
            )
