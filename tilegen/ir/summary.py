"""What a program computes, as one formula over its tensors: `C = max(A @ B, 0)`.

The statements are run on text: a tile stands for the tensor that it was copied from, a gemm for `@`, an element-wise
loop for its expression. Where the formula would not tell the whole truth (masks, values carried from one iteration of a
loop to the next, windows of one tensor that differ) there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilegen.ir.build import const
from tilegen.ir.expressions import Binary, Call, Cast, Const, Expr, Load, Unary, Var
from tilegen.ir.linear import linear
from tilegen.ir.nodes import (
    AddPartials,
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    Fill,
    For,
    Gemm,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
    SyncThreads,
)
from tilegen.ir.traversal import free_vars, substitute
from tilegen.ir.walk import subexpressions

LONGEST = 72  # characters
_SUM, _PRODUCT, _SIGN, _ATOM = 1, 2, 3, 4
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}
_REDUCTIONS = {"sum": "sum", "max": "max", "min": "min", "prod": "prod", "any": "any", "all": "all"}


def summary(program: Program) -> str:
    """The formula, `outputs from inputs` where there is none, and nothing where the program has no outputs."""
    try:
        text = "; ".join(_Run().outputs(program))
    except _Unclear:
        text = ""
    if text and len(text) <= LONGEST:
        return text
    outputs = ", ".join(program.outputs) or ", ".join(t.name for t in program.tensors if t.role != "input")
    inputs = ", ".join(tensor.name for tensor in program.tensors if tensor.role == "input")
    return f"{outputs} from {inputs}" if outputs and inputs else ""


class _Unclear(Exception):
    """The program does something that a formula does not say."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A formula and how tightly its outermost operator binds."""

    text: str
    level: int = _ATOM

    def within(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


_ZERO = _Value("0")


@dataclass(slots=True)
class _Run:
    """The values of all buffers at one point of the program."""

    values: dict[str, _Value] = field(default_factory=dict)  # of tiles
    windows: dict[str, tuple[Expr, ...]] = field(default_factory=dict)  # where each tensor is read
    results: dict[str, tuple[str, _Value]] = field(default_factory=dict)  # of tensors: operator and value
    loop: str = ""  # the variable of the loop that is open
    moving: dict[str, None] = field(default_factory=dict)  # tiles that differ from iteration to iteration
    early: dict[str, None] = field(default_factory=dict)  # tiles read in an iteration before it writes them
    fresh: dict[str, None] = field(default_factory=dict)  # tiles that the iteration wrote

    def outputs(self, program: Program) -> list[str]:
        self.block(program.kernel.body)
        if not self.results:
            raise _Unclear
        return [f"{name} {op} {value.text}" for name, (op, value) in self.results.items()]

    # ------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[Stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Copy(source, target):
                self.write(target, self.read(source), self.moves(source))
            case Fill(target, Const() as value):
                self.write(target, _number(value), False)
            case Gemm():
                self.gemm(statement)
            case Reduce():
                self.reduce(statement)
            case ParallelFor():
                self.parallel(statement)
            case AtomicTile("add", source, target):
                self.result(target.buffer, "+=", self.read(source))
            case For():
                self.repeat(statement)
            case Persistent():
                self.block(statement.body)
            case Let(mutable=False) | SyncThreads() | AddPartials():
                pass
            case _:
                raise _Unclear

    def repeat(self, loop: For) -> None:
        """One iteration tells all of them, unless a value passes from one to the next."""
        if self.loop:
            raise _Unclear
        for state in (self.moving, self.early, self.fresh):
            state.clear()
        self.loop = loop.var.name
        self.block(loop.body)
        if any(name in self.early for name in self.fresh):
            raise _Unclear
        self.loop = ""

    def gemm(self, gemm: Gemm) -> None:
        a, b = self.read(gemm.a), self.read(gemm.b)
        a = _transposed(a) if gemm.transpose_a else a
        b = _transposed(b) if gemm.transpose_b else b
        product = _Value(f"{a.within(_PRODUCT)} @ {b.within(_SIGN)}", _PRODUCT)
        name = gemm.c.buffer.name
        known = self.values.get(name)
        if not gemm.clear and known is None:
            raise _Unclear
        accumulates = self.loop and not gemm.clear
        if accumulates and (name in self.fresh or not (self.moves(gemm.a) or self.moves(gemm.b))):
            raise _Unclear
        if not gemm.clear and known is not None and known != _ZERO:
            product = _Value(f"{known.within(_SUM)} + {product.text}", _SUM)
        self.write(gemm.c, product, False)

    def reduce(self, reduction: Reduce) -> None:
        function = _REDUCTIONS.get(reduction.op)
        if function is None or not reduction.clear:
            raise _Unclear
        value = _Value(f"{function}({self.read(reduction.source).text})")
        self.write(reduction.target, value, self.moves(reduction.source))

    def parallel(self, loop: ParallelFor) -> None:
        lets: dict[str, Expr] = {}
        order = tuple(var.name for var in loop.vars)
        for statement in loop.body:
            match statement:
                case Let(var, value, mutable=False):
                    lets[var.name] = substitute(value, lets)
                case Store(buffer, indices, value) | AtomicElement("add", buffer, indices, value):
                    axes = _axes(buffer, indices, order)
                    result = self.expression(substitute(value, lets), axes, order)
                    if isinstance(statement, AtomicElement):
                        self.result(buffer, "+=", result)
                    elif buffer.scope == "global":
                        self.result(buffer, "=", result)
                    else:
                        self.tile(buffer.name, result, bool(self.loop))
                case _:
                    raise _Unclear

    # ------------------------------------------------------------------------------------- tiles and tensors

    def read(self, region: Region) -> _Value:
        if region.buffer.scope == "global":
            return self.tensor(region.buffer, region.offsets)
        _check_whole(region)
        return self.known(region.buffer)

    def known(self, buffer: Buffer) -> _Value:
        if buffer.name not in self.values:
            raise _Unclear
        if self.loop and buffer.name not in self.fresh:
            self.early[buffer.name] = None
        return self.values[buffer.name]

    def tensor(self, buffer: Buffer, offsets: tuple[Expr, ...]) -> _Value:
        """A tensor is read through one window only, else its name would stand for two things."""
        _check_origin(offsets)
        if buffer.name in self.results or self.windows.setdefault(buffer.name, offsets) != offsets:
            raise _Unclear
        return _Value(buffer.name)

    def moves(self, region: Region) -> bool:
        """Whether the region differs from one iteration of the open loop to the next."""
        if region.buffer.scope == "global":
            return any(self.loop in free_vars(offset) for offset in region.offsets)
        return region.buffer.name in self.moving

    def write(self, region: Region, value: _Value, moves: bool) -> None:
        if region.buffer.scope == "global":
            _check_origin(region.offsets)
            self.result(region.buffer, "=", value)
        else:
            _check_whole(region)
            self.tile(region.buffer.name, value, moves)

    def tile(self, name: str, value: _Value, moves: bool) -> None:
        self.values[name] = value
        self.fresh[name] = None
        if moves:
            self.moving[name] = None

    def result(self, buffer: Buffer, op: str, value: _Value) -> None:
        if self.results.get(buffer.name, (op, value)) != (op, value):
            raise _Unclear
        self.results[buffer.name] = (op, value)

    # ------------------------------------------------------------------------------------- expressions

    def expression(self, expr: Expr, axes: tuple[str, ...], order: tuple[str, ...]) -> _Value:
        """The value of an element; `axes` are the loop's variables in the order of what is stored."""

        def inner(part: Expr) -> _Value:
            return self.expression(part, axes, order)

        match expr:
            case Const():
                return _number(expr)
            case Var(name) if name not in order and name != self.loop:
                return _Value(name)
            case Cast(operand):
                return inner(operand)
            case Load(buffer, indices):
                return self.load(buffer, indices, axes, order)
            case Unary("-", operand):
                return _Value(f"-{inner(operand).within(_SIGN)}", _SIGN)
            case Binary("min" | "max" as function, left, right):
                return _Value(f"{function}({inner(left).text}, {inner(right).text})")
            case Binary(op, left, right) if op in _LEVELS:
                level = _LEVELS[op]
                return _Value(f"{inner(left).within(level)} {op} {inner(right).within(level + 1)}", level)
            case Call(function, arguments):
                return _Value(f"{function}({', '.join(inner(argument).text for argument in arguments)})")
            case _:
                raise _Unclear

    def load(
        self, buffer: Buffer, indices: tuple[Expr, ...], axes: tuple[str, ...], order: tuple[str, ...]
    ) -> _Value:
        found = _axes(buffer, indices, order)
        if buffer.scope == "global":
            zero: Mapping[str, Expr] = {name: const(0) for name in order}
            value = self.tensor(buffer, tuple(substitute(index, zero) for index in indices))
        else:
            value = self.known(buffer)
        if found == tuple(axis for axis in axes if axis in found):
            return value
        if len(found) == 2 and found == tuple(reversed(axes)):
            return _transposed(value)
        raise _Unclear


def _transposed(value: _Value) -> _Value:
    return _Value(f"{value.within(_ATOM)}.T")


def _check_whole(region: Region) -> None:
    """Raises _Unclear for a part of a tile."""
    if region.shape != region.buffer.extents:
        raise _Unclear


def _check_origin(offsets: tuple[Expr, ...]) -> None:
    """Raises _Unclear for a window that is shifted by a number, or lies where data say."""
    for offset in offsets:
        if linear(offset).constant or any(isinstance(part, Load) for part in subexpressions(offset)):
            raise _Unclear


def _axes(buffer: Buffer, indices: tuple[Expr, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """The loop's variables in the order of the indices: each index is one of them, or in a tensor one of them beyond an
    offset."""
    found: list[str] = []
    for axis, index in enumerate(indices):
        touched = [name for name in free_vars(index) if name in order]
        if not touched:
            if buffer.scope != "global" and buffer.extents[axis] != 1:
                raise _Unclear
            continue
        form = linear(index)
        plain = [atom for atom in form.terms if isinstance(atom, Var) and atom.name in order]
        if len(touched) > 1 or len(plain) != 1 or form.terms[plain[0]] != 1:
            raise _Unclear
        if form.constant or (buffer.scope != "global" and len(form.terms) > 1):
            raise _Unclear
        found += touched
    if len(set(found)) != len(found):
        raise _Unclear
    return tuple(found)


def _number(constant: Const) -> _Value:
    value = constant.value
    if isinstance(value, bool):
        return _Value(str(value))
    text = f"{value:.6g}"
    return _Value(text, _SIGN if text.startswith("-") else _ATOM)
