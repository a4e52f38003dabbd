"""How the threads of a block carry a tile from global memory through registers to shared memory.

A thread loads pieces of 16 bytes along the tensor's contiguous axis. Where shared memory keeps the tile as the
tensor does, a piece is stored as it is. Where the other axis is to be contiguous (an operand whose k is not), a
thread loads the same columns of several rows and stores one short run a column: the transposition happens in its
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilegen.inference.fragment import Fragment, Mode, blocked
from tilegen.inference.vector_access import ACCESS_BYTES


@dataclass(frozen=True, slots=True)
class TileTransfer:
    """Which thread carries which elements of a tile [rows, columns], columns contiguous in global memory.

    Registers of `fragment` are [pieces][elements of a piece], or [blocks][rows][elements of a piece] with
    `transposes`: then each column of a block is stored as one run of `rows` elements along the row axis.
    """

    fragment: Fragment
    transposes: bool

    @property
    def piece(self) -> int:
        """Elements of one load."""
        return self.fragment.register_shape[-1]

    @property
    def rows(self) -> int:
        """Rows of a block: elements of one store of a transposed tile."""
        return self.fragment.register_shape[-2] if self.transposes else 1

    @property
    def blocks(self) -> int:
        """How many blocks (or pieces) a thread carries."""
        return self.fragment.register_shape[0]

    @property
    def loads(self) -> int:
        """Loads of a thread."""
        return self.blocks * self.rows


def straight_transfer(tile: tuple[int, int], threads: int, element_bytes: int) -> TileTransfer:
    """Rows are stored as they are loaded; as many threads on a row as it has pieces.

    Raises:
        ValueError: when pieces do not divide a row.
    """
    fragment = blocked(tile, threads, ACCESS_BYTES // element_bytes)
    outer, piece = fragment.registers[:-1], fragment.registers[-1]
    flat = tuple(mode for modes in reversed(outer) for mode in modes) or (Mode(1, (0, 0)),)
    # Threads to spare stand below the tile, where a guard keeps them from storing what others store.
    lanes = tuple(Mode(mode.extent, (tile[0], 0)) if mode.replicates else mode for mode in fragment.threads)
    return TileTransfer(Fragment(tile, lanes, (flat, piece)), False)


def transposing_transfers(
    tile: tuple[int, int], threads: int, element_bytes: int, line_bytes: int
) -> tuple[TileTransfer, ...]:
    """The ways to carry a tile that is to be stored transposed, best first; they differ in the order of threads.
    Neighbouring threads load a cache line of `line_bytes` together.

    Raises:
        ValueError: when pieces do not divide a row, or the rows are odd in number.
    """
    rows, columns = tile
    piece = ACCESS_BYTES // element_bytes
    if columns % piece or rows % 2:
        raise ValueError(f"a tile of {rows} x {columns} has no blocks of 2 x {piece}")
    run = _run(tile, threads, piece)
    across, down = columns // piece, rows // run
    first = min(line_bytes // ACCESS_BYTES, across)
    while across % first or threads % first:
        first -= 1
    found = []
    for inserted in (2, 1, 4, 8):
        # `first` threads along a row, `inserted` down, then the rest of the row, then the rest of the rows
        if down % inserted or threads % (first * inserted):
            continue
        along = across // first
        while threads // (first * inserted) % along:
            along -= 1
        found.append(TileTransfer(_blocks(tile, threads, (run, piece), (first, inserted, along)), True))
    return tuple(found)


def _blocks(
    tile: tuple[int, int], threads: int, block: tuple[int, int], lanes: tuple[int, int, int]
) -> Fragment:
    """Blocks of rows and columns, one a thread at a time: `lanes` go along a row, then down, then along the rest of the
    row; the threads that are left go down the rest of the rows."""
    (rows, columns), (run, piece) = tile, block
    across, down = columns // piece, rows // run
    first, inserted, along = lanes
    left = threads // prod(lanes)
    deeper = min(left, down // inserted)
    while left % deeper:
        deeper -= 1
    modes = (
        Mode(first, (0, piece)), Mode(inserted, (run, 0)), Mode(along, (0, piece * first)),
        Mode(deeper, (run * inserted, 0)), Mode(left // deeper, (rows, 0)),
    )  # fmt: skip
    repeats = (
        Mode(-(-across // (first * along)), (0, piece * first * along)),
        Mode(-(-down // (inserted * deeper)), (run * inserted * deeper, 0)),
    )
    return Fragment(
        tile,
        tuple(mode for mode in modes if mode.extent > 1),
        (
            tuple(mode for mode in repeats if mode.extent > 1) or (Mode(1, (0, 0)),),
            (Mode(run, (1, 0)),),
            (Mode(piece, (0, 1)),),
        ),
    )


def _run(tile: tuple[int, int], threads: int, piece: int) -> int:
    """Rows of a block: as many as leave every thread the same work, at most 16 bytes of them."""
    rows, columns = tile
    for run in (piece, piece // 2, 2):
        if rows % run == 0 and rows // run * (columns // piece) % threads == 0:
            return run
    return next(run for run in (piece // 2, 2) if rows % run == 0)
