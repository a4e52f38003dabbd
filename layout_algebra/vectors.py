"""How many values of a thread move in one access."""

from collections.abc import Sequence
from functools import lru_cache

from layout_algebra.composing import composition
from layout_algebra.errors import LayoutError, NotComposable
from layout_algebra.fragment import Fragment, check_tile
from layout_algebra.layout import Layout, OffsetMap, coalesced_modes
from layout_algebra.swizzle import ComposedLayout


def contiguous_run(offsets: Sequence[int], maximum: int | None = None) -> int:
    """Widest power of two w, at most `maximum`, such that `offsets` is a row of aligned runs of w.

    A run is w consecutive offsets that start at a multiple of w; w divides the number of offsets. Raises
    LayoutError if there are none.
    """
    if not offsets:
        raise LayoutError("no offsets, so no run")
    width = 1
    limit = len(offsets) if maximum is None else min(maximum, len(offsets))
    while width * 2 <= limit and len(offsets) % (width * 2) == 0 and _is_runs(offsets, width, width * 2):
        width *= 2
    return width


def _is_runs(offsets: Sequence[int], half: int, width: int) -> bool:
    """Runs of `half` pair up to runs of `width`."""
    starts = offsets[::width]
    return all(
        start % width == 0 and second == start + half
        for start, second in zip(starts, offsets[half::width], strict=True)
    )


@lru_cache(maxsize=4096)
def vector_width(fragment: Fragment, memory: OffsetMap, maximum: int) -> int:
    """Widest power of two w, at most `maximum` elements, such that every thread moves its values w at a time.

    Values w·g … w·g+w-1 of each thread are w consecutive elements of `memory` (a layout of the fragment's
    tile), the first at a multiple of w. Raises ProfileError where `memory` is no layout of the tile.
    """
    check_tile(fragment, memory)
    width = _width_by_strides(fragment, memory, maximum)
    if width is not None:
        return width
    offsets = fragment.offsets_in(memory)
    threads = fragment.threads
    width = min(maximum, fragment.values)
    for thread in range(threads):
        width = contiguous_run(offsets[thread::threads], width)
        if width == 1:
            break
    return width


def _width_by_strides(fragment: Fragment, memory: OffsetMap, maximum: int) -> int | None:
    """The same from the strides alone; None where the composition is no layout or the swizzles reach inside
    the runs.
    """
    strides = memory.layout if isinstance(memory, ComposedLayout) else memory
    if fragment.layout is None or not isinstance(strides, Layout):
        return None
    try:
        thread, value = composition(strides, fragment.layout)
    except NotComposable:
        return None
    values = coalesced_modes(value.modes)
    if not values or values[0][1] != 1:
        return 1 if isinstance(memory, Layout) else None
    run = values[0][0]
    steps = [stride for extent, stride in (*thread.modes, *values[1:]) if extent > 1]
    if isinstance(memory, ComposedLayout):
        steps.append(memory.offset)
    width = 1
    while width * 2 <= maximum and run % (width * 2) == 0 and all(step % (width * 2) == 0 for step in steps):
        width *= 2
    if isinstance(memory, ComposedLayout) and any(1 << swizzle.base < width for swizzle in memory.swizzles):
        return None
    return width
