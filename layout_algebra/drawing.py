"""Drawings of layouts and fragments, as text and as SVG.

A drawing is a table of cells: rows are the first mode, columns the second. A layout shows offsets; a fragment
shows `T3 V1` (thread 3, value 1) for each owner.
"""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from layout_algebra.errors import LayoutError
from layout_algebra.fragment import Fragment
from layout_algebra.int_tuple import product_each
from layout_algebra.layout import OffsetMap

Drawable: TypeAlias = OffsetMap | Fragment
Cell = TypeVar("Cell")

# Eight pale colours that black text is legible on, one a thread or a row of banks in turn
PALETTE = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc")
CELL_HEIGHT = 22
CHARACTER_WIDTH = 7
MARGIN = 30


def draw_text(drawn: Drawable) -> str:
    """Table of the cells with row and column numbers, one row a line. Raises LayoutError on more than two
    modes.
    """
    cells, _ = _cells(drawn)
    header = ["", *(str(column) for column in range(len(cells[0])))]
    table = [header, *([str(row), *line] for row, line in enumerate(cells))]
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    return "\n".join([str(drawn), *lines]) + "\n"


def draw_svg(drawn: Drawable) -> str:
    """An SVG image of the cells, coloured by thread (fragments) or by offset. Raises as `draw_text`."""
    cells, colours = _cells(drawn)
    width = CHARACTER_WIDTH * (2 + max(len(text) for line in cells for text in line))
    total_width = MARGIN + width * len(cells[0])
    total_height = 2 * MARGIN + CELL_HEIGHT * len(cells)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{total_height}" '
        'font-family="monospace" font-size="11" text-anchor="middle">',
        f'<text x="4" y="14" text-anchor="start">{_escaped(str(drawn))}</text>',
    ]
    for column in range(len(cells[0])):
        lines.append(_text(MARGIN + width * column + width // 2, 2 * MARGIN - 6, str(column)))
    for row, line in enumerate(cells):
        y = 2 * MARGIN + CELL_HEIGHT * row
        lines.append(_text(MARGIN // 2, y + CELL_HEIGHT - 7, str(row)))
        for column, text in enumerate(line):
            x = MARGIN + width * column
            lines.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}" stroke="#666666" '
                f'fill="{PALETTE[colours[row][column] % len(PALETTE)]}"/>'
            )
            lines.append(_text(x + width // 2, y + CELL_HEIGHT - 7, text))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cells(drawn: Drawable) -> tuple[list[list[str]], list[list[int]]]:
    """Text and colour number of each cell, by row and column."""
    extents = drawn.shape if isinstance(drawn, Fragment) else product_each(drawn.shape)
    if len(extents) > 2:
        raise LayoutError(f"{drawn} has {len(extents)} modes; a drawing has rows and columns only")
    rows, columns = (*extents, 1, 1)[:2]
    if isinstance(drawn, Fragment):
        texts = [" ".join(f"T{thread} V{value}" for thread, value in owners) for owners in drawn.inverse()]
        colours = [owners[0][0] for owners in drawn.inverse()]
    else:
        texts = [str(offset) for offset in drawn.offsets()]
        colours = list(drawn.offsets())
    return _by_row(texts, rows, columns), _by_row(colours, rows, columns)


def _by_row(values: Sequence[Cell], rows: int, columns: int) -> list[list[Cell]]:
    """Rows of a column-major sequence."""
    return [[values[row + rows * column] for column in range(columns)] for row in range(rows)]
