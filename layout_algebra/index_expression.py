"""Integer expressions on sympy: floor division, modulo and bit operations that stay what the user wrote.

sympy's own `floor(x / n)` and `Mod` are turned into these. Importing this module imports sympy.
"""

from typing import Any, ClassVar, TypeAlias, Union

import sympy

from layout_algebra.errors import LayoutError

# What may stand in a user's function for an integer
Operand: TypeAlias = Union[int, sympy.Expr, "Index"]


class _IntegerFunction(sympy.Function):  # type: ignore[misc]
    """A function of two integers that sympy evaluates only where both are numbers."""

    nargs = 2
    is_integer = True
    symbol: ClassVar[str]

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        """The value for two plain integers."""
        raise NotImplementedError

    @classmethod
    def eval(cls, first: sympy.Expr, second: sympy.Expr) -> sympy.Expr | None:
        if first.is_Integer and second.is_Integer:
            return sympy.Integer(cls.evaluate(int(first), int(second)))
        return None

    def _sympystr(self, printer: Any) -> str:
        bare = (sympy.Atom, _IntegerFunction)
        texts = [printer._print(part) for part in self.args]
        first, second = (
            text if isinstance(part, bare) else f"({text})"
            for text, part in zip(texts, self.args, strict=True)
        )
        return f"({first} {self.symbol} {second})"


class FloorDiv(_IntegerFunction):
    """Quotient rounded towards minus infinity."""

    symbol = "//"

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        return first // second


class FloorMod(_IntegerFunction):
    """Remainder of FloorDiv, with the sign of the divisor."""

    symbol = "%"

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        return first % second


class BitXor(_IntegerFunction):
    """Exclusive or of two integers."""

    symbol = "^"

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        return first ^ second


class BitAnd(_IntegerFunction):
    """Bitwise and of two integers."""

    symbol = "&"

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        return first & second


class BitOr(_IntegerFunction):
    """Bitwise or of two integers."""

    symbol = "|"

    @staticmethod
    def evaluate(first: int, second: int) -> int:
        return first | second


# How lambdify evaluates them, on integers and on NumPy arrays
NAMESPACE = {function.__name__: function.evaluate for function in (FloorDiv, FloorMod, BitXor, BitAnd, BitOr)}


class Index:
    """Stands for an integer in a user's function: all of Python's integer operators, recorded as an
    expression.

    `/` raises LayoutError, since an index stays an integer; so does a division by 0, a shift by anything but
    a number, and a branch on an index.
    """

    __slots__ = ("expression",)

    def __init__(self, expression: Operand) -> None:
        self.expression = to_expression(expression)

    def _sympy_(self) -> sympy.Expr:
        return self.expression

    def __add__(self, other: Operand) -> "Index":
        return Index(self.expression + to_expression(other))

    def __sub__(self, other: Operand) -> "Index":
        return Index(self.expression - to_expression(other))

    def __mul__(self, other: Operand) -> "Index":
        return Index(self.expression * to_expression(other))

    def __floordiv__(self, other: Operand) -> "Index":
        return Index(FloorDiv(self.expression, _divisor(other)))

    def __mod__(self, other: Operand) -> "Index":
        return Index(FloorMod(self.expression, _divisor(other)))

    def __xor__(self, other: Operand) -> "Index":
        return Index(BitXor(self.expression, to_expression(other)))

    def __and__(self, other: Operand) -> "Index":
        return Index(BitAnd(self.expression, to_expression(other)))

    def __or__(self, other: Operand) -> "Index":
        return Index(BitOr(self.expression, to_expression(other)))

    def __lshift__(self, count: int) -> "Index":
        return self * _power_of_two(count)

    def __rshift__(self, count: int) -> "Index":
        return self // _power_of_two(count)

    def __neg__(self) -> "Index":
        return Index(-self.expression)

    def __radd__(self, other: Operand) -> "Index":
        return Index(other) + self

    def __rsub__(self, other: Operand) -> "Index":
        return Index(other) - self

    def __rmul__(self, other: Operand) -> "Index":
        return Index(other) * self

    def __rfloordiv__(self, other: Operand) -> "Index":
        return Index(other) // self

    def __rmod__(self, other: Operand) -> "Index":
        return Index(other) % self

    def __rxor__(self, other: Operand) -> "Index":
        return Index(other) ^ self

    def __rand__(self, other: Operand) -> "Index":
        return Index(other) & self

    def __ror__(self, other: Operand) -> "Index":
        return Index(other) | self

    def __truediv__(self, other: Operand) -> "Index":
        raise LayoutError("an index stays an integer: write // instead of /")

    __rtruediv__ = __truediv__

    def __bool__(self) -> bool:
        raise LayoutError("an index map cannot branch on an index; use // and % to tell cases apart")

    def __repr__(self) -> str:
        return f"Index({self.expression})"


def _divisor(value: Operand) -> sympy.Expr:
    divisor = to_expression(value)
    if divisor == 0:
        raise LayoutError("an index map divides by 0")
    return divisor


def _power_of_two(count: int) -> int:
    if not isinstance(count, int) or count < 0:
        raise LayoutError(f"an index is shifted by a number that is not negative, not by {count}")
    return 1 << count


def to_expression(value: Operand) -> sympy.Expr:
    """Integer, Index or sympy expression as an expression of this module. Raises LayoutError on anything
    else.

    sympy's `floor(x / n)`, `ceiling(x / n)` and `Mod(x, n)` become FloorDiv and FloorMod.
    """
    if isinstance(value, Index):
        return value.expression
    try:
        expression = sympy.sympify(value, strict=True)
    except sympy.SympifyError:
        raise LayoutError(f"an index is an integer expression, not {value!r}") from None
    if not isinstance(expression, sympy.Expr) or expression.has(sympy.Float):
        raise LayoutError(f"an index is an integer expression, not {value!r}")
    expression = expression.replace(sympy.Mod, FloorMod)
    expression = expression.replace(sympy.floor, _floor_of_quotient)
    expression = expression.replace(sympy.ceiling, lambda argument: -_floor_of_quotient(-argument))
    if any(number.q != 1 for number in expression.atoms(sympy.Rational)):
        raise LayoutError(f"{value} is not an integer for every index: write // instead of /")
    return expression


def _floor_of_quotient(argument: sympy.Expr) -> sympy.Expr:
    numerator, denominator = sympy.fraction(sympy.together(argument))
    return FloorDiv(numerator, denominator)
