"""IndexMap: symbolic maps from coordinates to indices, for what strides cannot say."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian_product
from math import prod
from typing import Any, TypeAlias

import sympy

from layout_algebra.errors import CoordinateError, LayoutError, NotComposable, ProfileError
from layout_algebra.fitting import fit
from layout_algebra.index_bounds import Ranges, is_within
from layout_algebra.index_expression import (
    NAMESPACE,
    BitXor,
    FloorDiv,
    FloorMod,
    Index,
    Operand,
    to_expression,
)
from layout_algebra.index_simplify import simplify
from layout_algebra.int_tuple import leaves
from layout_algebra.layout import Layout
from layout_algebra.swizzle import ComposedLayout, Swizzle

# A number, the name of an extent known only at launch, or an expression of such names
Extent: TypeAlias = int | str | sympy.Expr


@dataclass(frozen=True, slots=True, repr=False)
class IndexMap:
    """Integer expressions in coordinates: `(i, j) -> 72*i + j`, with one result (an offset) or several (a
    coordinate).

    `variables[d]` runs over 0 … `extents[d]` - 1. Symbols of extents are launch-time constants of at least 1.
    Expressions are kept simplified for these ranges; maps are equal if extents, variables and simplified
    expressions are.

    Use `from_function` or `from_layout`. Raises ProfileError unless there is one extent a variable.
    """

    variables: tuple[sympy.Symbol, ...]
    extents: tuple[sympy.Expr, ...]
    expressions: tuple[sympy.Expr, ...]

    def __post_init__(self) -> None:
        if len(self.variables) != len(self.extents):
            raise ProfileError(f"{len(self.variables)} variables, but {len(self.extents)} extents")
        ranges = self.ranges
        simplified = tuple([simplify(expression, ranges) for expression in self.expressions])
        object.__setattr__(self, "expressions", simplified)

    @classmethod
    def from_function(cls, extents: Sequence[Extent], function: Callable[..., Any]) -> "IndexMap":
        """From a function of as many indices as there are extents, which may use all of Python's integer
        operators.

        It returns one result or a tuple or list of them. A string names an extent known only at launch; the
        function may use `dynamic_extent(name)`. Raises LayoutError where the result is no integer expression
        or a name is used twice.
        """
        sizes = tuple([_extent(extent) for extent in extents])
        variables = tuple([_variable(name) for name in _argument_names(function, len(sizes))])
        names = [variable.name for variable in variables]
        clashes = sorted({symbol.name for size in sizes for symbol in size.free_symbols} & set(names))
        if clashes or len(set(names)) < len(names):
            raise LayoutError(
                f"indices {', '.join(names)}: a name is used twice, or is also that of an extent"
            )
        result = function(*map(Index, variables))
        results = result if isinstance(result, (tuple, list)) else (result,)
        return cls(variables, sizes, tuple([to_expression(each) for each in results]))

    @classmethod
    def from_layout(cls, layout: Layout | ComposedLayout) -> "IndexMap":
        """The same map, with one variable i0, i1, … for each top-level mode."""
        inside = layout.layout if isinstance(layout, ComposedLayout) else layout
        variables = tuple([_variable(f"i{mode}") for mode in range(inside.rank)])
        extents = tuple([sympy.Integer(mode.size) for mode in inside])
        strided = [_strided(mode, variable) for mode, variable in zip(inside, variables, strict=True)]
        offset = sympy.Add(*strided)
        if isinstance(layout, ComposedLayout):
            offset += layout.offset
            for swizzle in reversed(layout.swizzles):
                offset = _swizzled(swizzle, offset)
        return cls(variables, extents, (offset,))

    @property
    def rank(self) -> int:
        """Number of variables."""
        return len(self.variables)

    @property
    def ranges(self) -> Ranges:
        """Smallest and largest value of each variable."""
        zero = sympy.Integer(0)
        return {
            variable: (zero, extent - 1)
            for variable, extent in zip(self.variables, self.extents, strict=True)
        }

    @property
    def is_concrete(self) -> bool:
        """All extents are numbers, and so is every result at a given coordinate."""
        free = {symbol for expression in self.expressions for symbol in expression.free_symbols}
        return all(extent.is_Integer for extent in self.extents) and free <= set(self.variables)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of a concrete map. Raises LayoutError if some are known only at launch."""
        self._require_concrete()
        return tuple([int(extent) for extent in self.extents])

    @property
    def size(self) -> int:
        """Number of coordinates of a concrete map. Raises LayoutError as `shape`."""
        return prod(self.shape)

    @property
    def cosize(self) -> int:
        """Largest offset plus one, of a concrete map with one result. Raises LayoutError as `offsets`."""
        return max(self.offsets()) + 1

    def __call__(self, *coordinate: Operand) -> Any:
        """Result at a coordinate, a tuple if the map has several: integers for integers, else simplified
        expressions.

        Raises ProfileError unless there is one index a variable, CoordinateError where an integer is out of
        range.
        """
        if len(coordinate) != self.rank:
            raise ProfileError(f"{self} takes {self.rank} indices, not {len(coordinate)}")
        point = [to_expression(index) for index in coordinate]
        for index, extent in zip(point, self.extents, strict=True):
            if index.is_Integer and (index < 0 or (extent.is_Integer and index >= extent)):
                raise CoordinateError(f"index {index} is outside 0 to {extent} - 1 in {self}")
        values = dict(zip(self.variables, point, strict=True))
        results = [expression.xreplace(values) for expression in self.expressions]
        results = [int(each) if each.is_Integer else simplify(each, {}) for each in map(_evaluated, results)]
        return results[0] if len(results) == 1 else tuple(results)

    def compose(self, inner: "IndexMap") -> "IndexMap":
        """`R(c) == self(inner(c))`. Raises NotComposable unless all results of `inner` are proved (or, if
        both are concrete, found) to be coordinates of this map, ProfileError where their number differs from
        this map's rank.
        """
        if len(inner.expressions) != self.rank:
            raise ProfileError(f"{inner} gives {len(inner.expressions)} indices, {self} takes {self.rank}")
        for result, extent in zip(inner.expressions, self.extents, strict=True):
            if not is_within(result, extent, inner.ranges):
                self._check_inside(inner, result, extent)
        values = dict(zip(self.variables, inner.expressions, strict=True))
        composed = tuple([expression.xreplace(values) for expression in self.expressions])
        return IndexMap(inner.variables, inner.extents, composed)

    def _check_inside(self, inner: "IndexMap", result: sympy.Expr, extent: sympy.Expr) -> None:
        only = IndexMap(inner.variables, inner.extents, (result,))
        if not (only.is_concrete and extent.is_Integer):
            raise NotComposable(f"cannot prove that 0 <= {result} < {extent} for all indices of {inner}")
        offsets = only.offsets()
        if min(offsets) < 0 or max(offsets) >= extent:
            raise NotComposable(
                f"{result} reaches {min(offsets)} to {max(offsets)}, outside 0 to {extent} - 1 of {self}"
            )

    def bind(self, extents: Mapping[str, int]) -> "IndexMap":
        """Give launch-time extents their values, by name. Raises LayoutError on a value below 1 or an unknown
        name.
        """
        symbols = {symbol for part in (*self.extents, *self.expressions) for symbol in part.free_symbols}
        known = {symbol.name: symbol for symbol in symbols if symbol not in self.variables}
        for name, value in extents.items():
            if name not in known or value < 1:
                raise LayoutError(
                    f"{name} = {value}: {self} has the extents {sorted(known)}, each at least 1"
                )
        values = {known[name]: sympy.Integer(value) for name, value in extents.items()}
        return IndexMap(
            self.variables,
            tuple([_evaluated(extent.xreplace(values)) for extent in self.extents]),
            tuple([expression.xreplace(values) for expression in self.expressions]),
        )

    def table(self) -> tuple[tuple[int, ...], ...]:
        """Results at every coordinate, first index fastest, of a concrete map. Memoised. Raises LayoutError
        as `shape`.
        """
        return _table(self)

    def offsets(self) -> tuple[int, ...]:
        """Offset at every coordinate, first index fastest, of a concrete map with one result. Memoised.

        Raises LayoutError as `shape`, and where the map has several results.
        """
        if len(self.expressions) != 1:
            raise LayoutError(f"{self} gives {len(self.expressions)} indices, not one offset")
        return _offsets(self)

    def to_layout(self) -> Layout:
        """The Layout with the same offsets, found by `fit`; one mode a variable.

        Raises NotRepresentable where there is none, LayoutError as `offsets`.
        """
        return fit(self.offsets(), self.shape)

    def _require_concrete(self) -> None:
        if not self.is_concrete:
            raise LayoutError(f"{self} has extents known only at launch: bind them first")

    def __str__(self) -> str:
        names = ", ".join(variable.name for variable in self.variables)
        results = ", ".join(str(expression) for expression in self.expressions)
        return f"({names}) -> {results if len(self.expressions) == 1 else f'({results})'}"

    def __repr__(self) -> str:
        return f"IndexMap({self} on {self.extents})"


def dynamic_extent(name: str) -> sympy.Symbol:
    """The symbol of an extent known only at launch, at least 1."""
    return sympy.Symbol(name, integer=True, positive=True)


def _variable(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def _extent(extent: Extent) -> sympy.Expr:
    size = dynamic_extent(extent) if isinstance(extent, str) else to_expression(extent)
    if size.is_Integer and size < 1:
        raise LayoutError(f"every extent is at least 1, got {extent}")
    return size


def _argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """The function's own argument names, or i0, i1, … if it takes any number."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return [f"i{position}" for position in range(count)]
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if len(required) != count:
        raise ProfileError(f"the function takes {len(required)} indices, but there are {count} extents")
    return required


def _strided(mode: Layout, variable: sympy.Symbol) -> sympy.Expr:
    terms = []
    place = 1
    for extent, stride in zip(leaves(mode.shape), leaves(mode.stride), strict=True):
        terms.append(FloorMod(FloorDiv(variable, sympy.Integer(place)), sympy.Integer(extent)) * stride)
        place *= extent
    return sympy.Add(*terms)


def _swizzled(swizzle: Swizzle, offset: sympy.Expr) -> sympy.Expr:
    source = swizzle.base + max(swizzle.shift, 0)
    target = swizzle.base + max(-swizzle.shift, 0)
    field = FloorMod(FloorDiv(offset, sympy.Integer(1 << source)), sympy.Integer(1 << swizzle.bits))
    return BitXor(offset, field * (1 << target))


def _evaluated(expression: sympy.Expr) -> sympy.Expr:
    """Evaluate functions whose arguments became numbers by replacement."""
    return expression if expression.is_Atom else expression.func(*map(_evaluated, expression.args))


@lru_cache(maxsize=128)
def _table(index_map: IndexMap) -> tuple[tuple[int, ...], ...]:
    shape = index_map.shape
    evaluate = sympy.lambdify(index_map.variables, index_map.expressions, modules=[NAMESPACE])
    backwards = cartesian_product(*map(range, reversed(shape)))
    return tuple([tuple(evaluate(*coordinate[::-1])) for coordinate in backwards])


@lru_cache(maxsize=128)
def _offsets(index_map: IndexMap) -> tuple[int, ...]:
    return tuple([results[0] for results in _table(index_map)])
