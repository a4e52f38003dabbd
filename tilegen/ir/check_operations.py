"""Shapes, dtypes and memory of tile operations."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import regions_read, regions_written, summed_outputs
from tilegen.ir.nodes import (
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    Gemm,
    Program,
    Reduce,
    Region,
    Stmt,
)
from tilegen.ir.printer import expression_text
from tilegen.ir.types import DType, float32, float64, int32
from tilegen.ir.walk import each_statement
from tilegen.location import Location

_BITWISE = ("bitand", "bitor", "bitxor")


def check_operations(program: Program) -> None:
    """Checks every tile operation by itself.

    Raises:
        ProgramError: at the operation, with the buffers that clash.
    """
    summed = summed_outputs(program)
    for statement in each_statement(program.kernel.body):
        _check(statement)
        match statement:
            case AtomicTile(target=target):
                _check_atomic(target.buffer, summed, statement.location)
            case AtomicElement(buffer=buffer):
                _check_atomic(buffer, summed, statement.location)
            case _:
                pass


def _check(statement: Stmt) -> None:
    if isinstance(statement, Copy | Reduce | AtomicTile):
        _check_divided(statement)
    match statement:
        case Copy():
            _check_copy(statement)
        case Gemm():
            _check_gemm(statement)
        case Reduce():
            _check_reduce(statement)
        case AtomicTile():
            _check_same_shape("the atomic update", statement.source, statement.target, statement.location)
        case _:
            pass


def _check_divided(statement: Stmt) -> None:
    """What divides a tile among the threads takes no array that each of them has for itself."""
    for region in (*regions_read(statement), *regions_written(statement)):
        buffer = region.buffer
        if buffer.scope == "local":
            raise ProgramError(
                statement.location,
                f"each thread has {buffer.name} for itself, but this divides a tile among the threads",
                remedy=f"make {buffer.name} a fragment, T.alloc_fragment, or go through its elements with T.serial",
                related=declared(buffer),
            )


def declared(*buffers: Buffer) -> list[tuple[Location, str]]:
    """Where buffers are declared, each once."""
    return [
        (buffer.location, f"{buffer.name} is declared here, {buffer.dtype}{_shape(buffer)}")
        for buffer in dict.fromkeys(buffers)
        if buffer.location.line
    ]


def _shape(buffer: Buffer) -> str:
    return f"[{', '.join(expression_text(extent) for extent in buffer.shape)}]"


def _text(tile: tuple[int, ...]) -> str:
    return f"({tile[0]},)" if len(tile) == 1 else f"({', '.join(map(str, tile))})"


def _check_same_shape(what: str, source: Region, target: Region, location: Location) -> None:
    if source.tile == target.tile:
        return
    raise ProgramError(
        location,
        f"{what} has tiles of different shapes: {source.buffer.name} gives {_text(source.tile)}, "
        f"{target.buffer.name} takes {_text(target.tile)}",
        remedy="slice the larger side, or allocate the tile in the other side's shape",
        related=declared(source.buffer, target.buffer),
    )


def _check_copy(statement: Copy) -> None:
    source, target = statement.source, statement.target
    _check_same_shape("T.copy", source, target, statement.location)
    if source.buffer.scope == "global" and source.buffer == target.buffer:
        raise ProgramError(
            statement.location,
            f"T.copy moves a tile of {source.buffer.name} within {source.buffer.name}, where the two may overlap",
            remedy="copy to a shared tile first, T.alloc_shared(…), then on to the target",
            related=declared(source.buffer, target.buffer),
        )


# --------------------------------------------------------------------------------------------- gemm


def _check_gemm(statement: Gemm) -> None:
    a, b, c = statement.a, statement.b, statement.c
    location = statement.location
    for name, region in (("A", a), ("B", b), ("C", c)):
        if len(region.tile) != 2:
            raise ProgramError(
                location,
                f"{name} of T.gemm is a matrix, but {region.buffer.name} gives a tile of shape {_text(region.tile)}",
                remedy="index the other axes away",
                related=declared(region.buffer),
            )
    _check_gemm_memory(statement)
    _check_gemm_shapes(statement)
    _check_gemm_dtypes(statement)


def _check_gemm_memory(statement: Gemm) -> None:
    for name, region in (("A", statement.a), ("B", statement.b)):
        if region.buffer.scope not in ("shared", "fragment"):
            raise ProgramError(
                statement.location,
                f"{name} of T.gemm is {region.buffer.name}, which lies in {region.buffer.scope} memory",
                remedy="copy it to a tile of T.alloc_shared first",
                related=declared(region.buffer),
            )
    if statement.c.buffer.scope != "fragment":
        raise ProgramError(
            statement.location,
            f"C of T.gemm is {statement.c.buffer.name}, which lies in {statement.c.buffer.scope} memory",
            remedy="accumulate in a tile of T.alloc_fragment and copy the result",
            related=declared(statement.c.buffer),
        )


def _check_gemm_shapes(statement: Gemm) -> None:
    a, b, c = statement.a, statement.b, statement.c
    m, k = reversed(a.tile) if statement.transpose_a else a.tile
    k_of_b, n = reversed(b.tile) if statement.transpose_b else b.tile
    m_of_c, n_of_c = c.tile
    clashes = [
        ("K", a, k, b, k_of_b),
        ("M", a, m, c, m_of_c),
        ("N", b, n, c, n_of_c),
    ]
    for letter, first, extent, second, other in clashes:
        if extent != other:
            raise ProgramError(
                statement.location,
                f"T.gemm needs one {letter}, but {first.buffer.name} {_text(first.tile)} has {extent} and "
                f"{second.buffer.name} {_text(second.tile)} has {other}",
                remedy=_gemm_remedy(statement),
                related=declared(first.buffer, second.buffer),
            )


def _gemm_remedy(statement: Gemm) -> str:
    """The transpositions that would make the shapes fit, if some do."""
    a, b, c = statement.a.tile, statement.b.tile, statement.c.tile
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            m, k = (a[1], a[0]) if transpose_a else (a[0], a[1])
            k_of_b, n = (b[1], b[0]) if transpose_b else (b[0], b[1])
            if k == k_of_b and (m, n) == c:
                return f"these shapes fit with transpose_A={transpose_a}, transpose_B={transpose_b}"
    sides = "A is (K, M)" if statement.transpose_a else "A is (M, K)"
    sides += ", B is (N, K)" if statement.transpose_b else ", B is (K, N)"
    return f"{sides}, C is (M, N); transpose_A and transpose_B swap the axes of A and B"


def _accumulator(operand: DType) -> DType | None:
    """The dtype that products of an operand dtype accumulate in; None where there is no such product."""
    if operand == float64:
        return float64
    if operand.is_float:
        return float32
    return int32 if operand.is_integer and operand.bits <= 8 else None


def _check_gemm_dtypes(statement: Gemm) -> None:
    a, b, c = (region.buffer for region in (statement.a, statement.b, statement.c))
    both_fp8 = a.dtype.is_float and b.dtype.is_float and a.dtype.bits == b.dtype.bits == 8
    same_family = a.dtype.name.endswith("fnuz") == b.dtype.name.endswith("fnuz")
    if a.dtype != b.dtype and not (both_fp8 and same_family):
        raise ProgramError(
            statement.location,
            f"T.gemm multiplies {a.name} of {a.dtype} with {b.name} of {b.dtype}",
            remedy=f"copy one of them to a tile of the other's dtype; T.copy converts, say {b.name} to {a.dtype}",
            related=declared(a, b),
        )
    wanted = _accumulator(a.dtype)
    if wanted is None:
        raise ProgramError(
            statement.location,
            f"T.gemm has no product of {a.dtype} operands",
            remedy="convert them to float16 or bfloat16 first: T.copy to a tile of that dtype does",
            related=declared(a),
        )
    if c.dtype != wanted:
        raise ProgramError(
            statement.location,
            f"T.gemm accumulates products of {a.dtype} in {wanted}, but {c.name} is {c.dtype}",
            remedy=f"allocate {c.name} as T.{wanted}; a T.copy to the output converts",
            related=declared(c),
        )


# --------------------------------------------------------------------------------------------- reduce, atomics


def _check_reduce(statement: Reduce) -> None:
    source, target = statement.source, statement.target
    expected = source.tile[: statement.axis] + source.tile[statement.axis + 1 :]
    fits = target.tile == expected or (not expected and target.tile == (1,))
    if not fits:
        raise ProgramError(
            statement.location,
            f"reducing axis {statement.axis} of {source.buffer.name} {_text(source.tile)} gives "
            f"{_text(expected) if expected else '(1,)'}, but {target.buffer.name} is {_text(target.tile)}",
            remedy="give the result that shape, or reduce along another dim",
            related=declared(source.buffer, target.buffer),
        )
    for region in (source, target):
        if region.buffer.scope == "global":
            raise ProgramError(
                statement.location,
                f"the reduction works on {region.buffer.name} in global memory",
                remedy="copy it to a fragment first; results are copied back by T.copy",
                related=declared(region.buffer),
            )
        if statement.op in _BITWISE and region.buffer.dtype.is_float:
            raise ProgramError(
                statement.location,
                f"{statement.op} needs integers, but {region.buffer.name} is {region.buffer.dtype}",
                remedy="T.reinterpret gives the bits of a floating value",
                related=declared(region.buffer),
            )


def _check_atomic(buffer: Buffer, summed: tuple[Buffer, ...], location: Location) -> None:
    if buffer.scope not in ("global", "shared"):
        raise ProgramError(
            location,
            f"an atomic updates {buffer.name}, which lies in {buffer.scope} memory that no other thread sees",
            remedy="update it with a plain assignment",
            related=declared(buffer),
        )
    if buffer.role == "output" and buffer not in summed:
        raise ProgramError(
            location,
            f"an atomic updates {buffer.name}, but a new output tensor holds no values yet",
            remedy=f"make {buffer.name} a parameter, {buffer.name}: T.Tensor(shape, dtype), and pass a zeroed tensor; "
            "an output that T.atomic_add alone touches starts from zeros",
            related=declared(buffer),
        )
