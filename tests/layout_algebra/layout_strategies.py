"""Random layouts for the property tests, and the oracles that compare whole domains."""

from collections.abc import Callable

from hypothesis import strategies as st

from layout_algebra import IntTuple, Layout, LayoutError, flatten, idx2crd, unflatten

# Extents with and without common factors; strides that divide, that repeat and that do neither
EXTENTS = st.sampled_from([1, 2, 2, 2, 3, 4, 4, 5, 6, 8])
STRIDES = st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48, 100])


def profiles() -> st.SearchStrategy[IntTuple]:
    """Nestings of at most four leaves."""
    leaf = st.just(0)
    return st.recursive(leaf, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(
    draw: st.DrawFn,
    strides: st.SearchStrategy[int] = STRIDES,
    extents: st.SearchStrategy[int] = EXTENTS,
    size: int = 512,
) -> Layout:
    """Layouts with unrelated strides."""
    profile = draw(profiles())
    leaves = [draw(extents) for _ in flatten(profile)]
    while _product(leaves) > size:
        leaves[leaves.index(max(leaves))] = 1
    return Layout(unflatten(leaves, profile), unflatten([draw(strides) for _ in leaves], profile))


@st.composite
def compact_layouts(draw: st.DrawFn, size: int = 512) -> Layout:
    """Bijections onto 0 … size-1: compact strides in any order."""
    layout = draw(layouts(size=size))
    extents = flatten(layout.shape)
    strides = [0] * len(extents)
    step = draw(st.sampled_from([1, 1, 1, 2]))
    for mode in draw(st.permutations(range(len(extents)))):
        strides[mode] = step
        step *= extents[mode]
    return Layout(layout.shape, unflatten(strides, layout.shape))


def any_layouts(size: int = 512) -> st.SearchStrategy[Layout]:
    """Compact ones as often as arbitrary ones."""
    return st.one_of(compact_layouts(size=size), layouts(size=size))


def _product(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def offset_by_definition(layout: Layout, index: int) -> int:
    """Sum of coordinate times stride, from the definition only."""
    coordinate = flatten(idx2crd(index, layout.shape))
    return sum(c * stride for c, stride in zip(coordinate, flatten(layout.stride), strict=True))


def table_by_definition(layout: Layout) -> list[int]:
    """Offset of every flat index, from the definition only."""
    return [offset_by_definition(layout, index) for index in range(layout.size)]


def result_or_none(operation: Callable[[], Layout]) -> Layout | None:
    """The result, or None where the operation raised its typed error."""
    try:
        return operation()
    except LayoutError:
        return None


def is_layout_function(table: list[int], size: int) -> bool:
    """Whether some layout has this table, by trying every way to split off a first mode (not the greedy search)."""
    if size == 1:
        return table[0] == 0
    return table[0] == 0 and any(
        size % extent == 0
        and all(table[i] == table[i - i % extent] + (i % extent) * table[1] for i in range(size))
        and is_layout_function(table[::extent], size // extent)
        for extent in range(2, size + 1)
    )
