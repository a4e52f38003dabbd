"""Layout algebra: layouts, swizzles, fragments and index maps, as pure mathematics.

Layouts are functions from coordinates to offsets, written Shape:Stride with nesting, as in CuTe. Every
operation is right on its whole domain or raises an error derived from `LayoutError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layout_algebra.banks import (
    bank_conflicts,
    consecutive_phases,
    default_phases,
    fragment_conflicts,
    matrix_conflicts,
    phase_cycles,
)
from layout_algebra.composing import Tiler, composition
from layout_algebra.errors import (
    CoordinateError,
    IncompleteFragment,
    LayoutError,
    MisalignedAccess,
    NotComplementable,
    NotComposable,
    NotDivisible,
    NotInvertible,
    NotRepresentable,
    ProfileError,
)
from layout_algebra.fitting import fit, offset_and_fit, try_fit
from layout_algebra.fragment import Fragment
from layout_algebra.int_tuple import (
    IntTuple,
    IntTupleLike,
    ceil_div,
    column_major_strides,
    compatible,
    congruent,
    crd2crd,
    crd2idx,
    depth,
    flatten,
    idx2crd,
    inner_product,
    product,
    product_each,
    rank,
    row_major_strides,
    unflatten,
    weakly_congruent,
)
from layout_algebra.inverting import (
    complement,
    inverse,
    is_bijective,
    left_inverse,
    max_common_layout,
    max_common_vector,
    right_inverse,
)
from layout_algebra.layout import (
    Layout,
    OffsetMap,
    coalesce,
    column_major,
    filter,
    filter_zeros,
    flatten_layout,
    is_injective,
    make_layout,
    ordered_layout,
    row_major,
    same_function,
    slice_layout,
)
from layout_algebra.swizzle import ComposedLayout, Swizzle
from layout_algebra.tiling import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from layout_algebra.vectors import contiguous_run, vector_width

if TYPE_CHECKING:
    from layout_algebra.drawing import draw_svg, draw_text
    from layout_algebra.index_bounds import bounds, is_within
    from layout_algebra.index_expression import BitAnd, BitOr, BitXor, FloorDiv, FloorMod, Index
    from layout_algebra.index_map import IndexMap, dynamic_extent
    from layout_algebra.index_simplify import simplify

# Loaded at first use: the symbolic part needs sympy, whose import takes far longer than all else here
_LAZY = {
    "draw_svg": "layout_algebra.drawing",
    "draw_text": "layout_algebra.drawing",
    "bounds": "layout_algebra.index_bounds",
    "is_within": "layout_algebra.index_bounds",
    "BitAnd": "layout_algebra.index_expression",
    "BitOr": "layout_algebra.index_expression",
    "BitXor": "layout_algebra.index_expression",
    "FloorDiv": "layout_algebra.index_expression",
    "FloorMod": "layout_algebra.index_expression",
    "Index": "layout_algebra.index_expression",
    "IndexMap": "layout_algebra.index_map",
    "dynamic_extent": "layout_algebra.index_map",
    "simplify": "layout_algebra.index_simplify",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'layout_algebra' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


__all__ = [
    "BitAnd",
    "BitOr",
    "BitXor",
    "ComposedLayout",
    "CoordinateError",
    "FloorDiv",
    "FloorMod",
    "Fragment",
    "IncompleteFragment",
    "Index",
    "IndexMap",
    "IntTuple",
    "IntTupleLike",
    "Layout",
    "LayoutError",
    "MisalignedAccess",
    "NotComplementable",
    "NotComposable",
    "NotDivisible",
    "NotInvertible",
    "NotRepresentable",
    "OffsetMap",
    "ProfileError",
    "Swizzle",
    "Tiler",
    "bank_conflicts",
    "blocked_product",
    "bounds",
    "ceil_div",
    "coalesce",
    "column_major",
    "column_major_strides",
    "compatible",
    "complement",
    "composition",
    "congruent",
    "consecutive_phases",
    "contiguous_run",
    "crd2crd",
    "crd2idx",
    "default_phases",
    "depth",
    "draw_svg",
    "draw_text",
    "dynamic_extent",
    "filter",
    "filter_zeros",
    "fit",
    "flat_divide",
    "flat_product",
    "flatten",
    "flatten_layout",
    "fragment_conflicts",
    "idx2crd",
    "inner_product",
    "inverse",
    "is_bijective",
    "is_injective",
    "is_within",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_layout",
    "matrix_conflicts",
    "max_common_layout",
    "max_common_vector",
    "offset_and_fit",
    "ordered_layout",
    "phase_cycles",
    "product",
    "product_each",
    "raked_product",
    "rank",
    "right_inverse",
    "row_major",
    "row_major_strides",
    "same_function",
    "simplify",
    "slice_layout",
    "tiled_divide",
    "tiled_product",
    "try_fit",
    "unflatten",
    "vector_width",
    "weakly_congruent",
    "zipped_divide",
    "zipped_product",
]
