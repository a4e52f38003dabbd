"""Errors of the layout algebra. All derive from `LayoutError`; an operation is right or raises one of them."""


class LayoutError(ValueError):
    """A layout, or an operation on layouts, is not possible as asked."""


class ProfileError(LayoutError):
    """Two nested tuples should have the same nesting (shape and stride, coordinate and shape) and have not."""


class CoordinateError(LayoutError, IndexError):
    """A coordinate or index lies outside the domain of the layout."""


class NotComposable(LayoutError):
    """`outer(inner(c))` is undefined for some `c`, or is no layout with the profile of `inner`."""


class NotComplementable(LayoutError):
    """No layout fills exactly the gaps that this one leaves."""


class NotInvertible(LayoutError):
    """The layout has no inverse of the kind asked for, or none that is a layout."""


class NotDivisible(LayoutError):
    """The tiler does not cut the layout into whole tiles."""


class NotRepresentable(LayoutError):
    """A table of values is no Shape:Stride layout."""


class IncompleteFragment(LayoutError):
    """Some coordinate of the tile has no owner, or an owner holds a coordinate outside the tile."""


class MisalignedAccess(LayoutError):
    """An address is no multiple of the width of the access."""
