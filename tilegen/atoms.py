"""Atoms: the copies and matrix instructions that a target offers, with their thread-value layouts (data only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilegen._target_schema import Nested, Scalar, Table, TargetError

Space = Literal["global", "shared", "register"]
_SPACES = ("global", "shared", "register")
_COPY_KINDS = (
    "global_load", "global_store", "shared_load", "shared_store", "cp_async", "ldmatrix", "stmatrix",
    "tma_load", "tma_store", "tma_reduce", "buffer_load", "buffer_store", "buffer_load_lds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ThreadValueLayout:
    """Shape:Stride of (thread, value) → column-major element index of a tile, CuTe's `MMA_Traits` convention."""

    shape: Nested
    stride: Nested

    def __str__(self) -> str:
        return f"{_nested_text(self.shape)}:{_nested_text(self.stride)}"


@dataclass(frozen=True, slots=True)
class MmaOperand:
    """One operand of a matrix instruction.

    `source` is "register" or "shared"; `majors` says which dimension may be contiguous in shared memory ("k" or "mn";
    for a register operand the order its values need).
    """

    dtype: str
    source: Space
    majors: tuple[str, ...]
    layout: ThreadValueLayout


@dataclass(frozen=True, slots=True)
class MmaAtom:
    """One matrix instruction D (m, n) = A (m, k) B (n, k)ᵀ + C; D has C's element type and layout.

    `name` is the device primitive's name in emitted text, `primitive` the template that holds it.
    """

    name: str
    capability: str
    instruction: str
    primitive: str
    parameters: tuple[tuple[str, Scalar], ...]
    m: int
    n: int
    k: int
    threads: int
    a: MmaOperand
    b: MmaOperand
    c: MmaOperand

    @property
    def d(self) -> MmaOperand:
        return self.c

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    def parameter(self, key: str) -> Scalar:
        return _parameter(self.name, self.parameters, key)


@dataclass(frozen=True, slots=True)
class CopyAtom:
    """One copy instruction: `threads` threads move `widths` bytes each (any one of them; empty: the tensor map says).

    `alignment` is what addresses must be a multiple of, in bytes (0: the width). Layouts, where they matter, map
    (thread, value) to the element index within the instruction's tile.
    """

    name: str
    kind: str
    capability: str
    instruction: str
    primitive: str
    parameters: tuple[tuple[str, Scalar], ...]
    source: Space
    destination: Space
    widths: tuple[int, ...]
    alignment: int
    threads: int
    source_layout: ThreadValueLayout | None
    destination_layout: ThreadValueLayout | None

    def parameter(self, key: str) -> Scalar:
        return _parameter(self.name, self.parameters, key)


@dataclass(frozen=True, slots=True)
class AtomicAtom:
    """An atomic operation in global memory without a result: `elements` neighbours of `dtype` in one instruction."""

    operation: str
    dtype: str
    elements: int
    instruction: str


@dataclass(frozen=True, slots=True)
class SharedPhase:
    """Lanes whose shared-memory addresses meet the banks in the same cycle, for one kind and width of access."""

    accesses: tuple[str, ...]
    width: int
    groups: tuple[tuple[int, ...], ...]


def read_mma_atoms(table: Table) -> tuple[MmaAtom, ...]:
    """The atoms of one `[[mma]]` entry: one, or one for each n of its `n_range`."""
    extents: tuple[int | None, ...] = (None,)
    if table.has("n_range"):
        first, last, step = table.integers("n_range", 3)
        extents = tuple(range(first, last + 1, step))
    atoms = tuple(_read_mma_atom(table, n) for n in extents)
    table.finish()
    return atoms


def read_copy_atom(table: Table) -> CopyAtom:
    atom = CopyAtom(
        name=table.text("name"),
        kind=table.choice("kind", _COPY_KINDS),
        capability=table.text("capability", ""),
        instruction=table.text("instruction"),
        primitive=table.text("primitive", ""),
        parameters=table.scalars("parameters"),
        source=_space(table, "source"),
        destination=_space(table, "destination"),
        widths=table.integers("bytes"),
        alignment=table.integer("alignment") if table.has("alignment") else 0,
        threads=table.integer("threads", 1),
        source_layout=_optional_layout(table, "source_layout"),
        destination_layout=_optional_layout(table, "destination_layout"),
    )
    table.finish()
    return atom


def read_atomic(table: Table) -> AtomicAtom:
    atom = AtomicAtom(
        operation=table.text("operation"),
        dtype=table.text("dtype"),
        elements=table.integer("elements", 1),
        instruction=table.text("instruction"),
    )
    table.finish()
    return atom


def read_shared_phase(table: Table, warp_size: int) -> SharedPhase:
    """A `[[shared_phase]]` entry; its groups must cover every lane of a warp exactly once."""
    accesses = table.texts("access")
    width = table.integer("bytes", 1)
    if table.has("consecutive_lanes"):
        lanes = table.integer("consecutive_lanes", 1)
        groups = tuple(tuple(range(first, first + lanes)) for first in range(0, warp_size, lanes))
    else:
        nested = table.nested("lanes", None)
        groups = tuple(
            tuple(lane for lane in _items(group) if isinstance(lane, int)) for group in _items(nested)
        )
    if sorted(lane for group in groups for lane in group) != list(range(warp_size)):
        raise table.error("lanes", f"groups that hold each of the {warp_size} lanes once", groups)
    table.finish()
    return SharedPhase(accesses, width, groups)


def _read_mma_atom(table: Table, n: int | None) -> MmaAtom:
    shape = table.nested("shape", n)
    match shape:
        case (int() as m, int() as columns, int() as k):
            pass
        case _:
            raise table.error("shape", "[m, n, k]", shape)
    threads = table.integer("threads", 1)
    atom = MmaAtom(
        name=_with_n(table.text("name"), n),
        capability=table.text("capability"),
        instruction=_with_n(table.text("instruction"), n),
        primitive=table.text("primitive"),
        parameters=table.scalars("parameters"),
        m=m,
        n=columns,
        k=k,
        threads=threads,
        a=_read_operand(table.table("a"), n, m * k, threads),
        b=_read_operand(table.table("b"), n, columns * k, threads),
        c=_read_operand(table.table("c"), n, m * columns, threads),
    )
    return atom


def _read_operand(table: Table, n: int | None, elements: int, threads: int) -> MmaOperand:
    operand = MmaOperand(
        dtype=table.text("dtype"),
        source=_space(table, "source"),
        majors=table.texts("major", ()),
        layout=_read_layout(table, n),
    )
    _check_extent(table, operand, elements, threads)
    table.finish()
    return operand


def _check_extent(table: Table, operand: MmaOperand, elements: int, threads: int) -> None:
    """Threads, and values of all threads together, must match the tile: a slip in a stride is for the tests."""
    modes = _items(operand.layout.shape)
    if len(modes) != 2 or _size(modes[0]) != threads:
        raise table.error("shape", f"(thread, value) with {threads} threads", operand.layout.shape)
    values = _size(modes[1]) * (threads if operand.source == "register" else 1)
    if values != elements:
        raise table.error("shape", f"{elements} elements", operand.layout.shape)
    if not _congruent(operand.layout.shape, operand.layout.stride):
        raise table.error("stride", f"nested like the shape {operand.layout.shape}", operand.layout.stride)


def _read_layout(table: Table, n: int | None) -> ThreadValueLayout:
    return ThreadValueLayout(table.nested("shape", n), table.nested("stride", n))


def _optional_layout(table: Table, key: str) -> ThreadValueLayout | None:
    if not table.has(key):
        return None
    inner = table.table(key)
    layout = _read_layout(inner, None)
    if not _congruent(layout.shape, layout.stride):
        raise inner.error("stride", f"nested like the shape {layout.shape}", layout.stride)
    inner.finish()
    return layout


def _space(table: Table, key: str) -> Space:
    match table.choice(key, _SPACES):
        case "global":
            return "global"
        case "shared":
            return "shared"
        case _:
            return "register"


def _with_n(text: str, n: int | None) -> str:
    return text if n is None else text.replace("{n}", str(n))


def _items(nested: Nested) -> tuple[Nested, ...]:
    return nested if isinstance(nested, tuple) else (nested,)


def _size(nested: Nested) -> int:
    if isinstance(nested, int):
        return nested
    size = 1
    for item in nested:
        size *= _size(item)
    return size


def _congruent(shape: Nested, stride: Nested) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(_congruent, shape, stride))


def _nested_text(nested: Nested) -> str:
    return str(nested) if isinstance(nested, int) else f"({', '.join(map(_nested_text, nested))})"


def _parameter(atom: str, parameters: tuple[tuple[str, Scalar], ...], key: str) -> Scalar:
    for name, value in parameters:
        if name == key:
            return value
    raise TargetError(f"atom {atom} has no parameter '{key}'")
