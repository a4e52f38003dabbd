"""Fragments that are made of 8 x 8 matrices, as stmatrix writes them four at a time (PTX ISA, "stmatrix")."""

from __future__ import annotations

from typing import Literal

from tilegen.inference.fragment import Fragment, Mode

MATRIX_ROWS = (Mode(4, (0, 2)), Mode(8, (1, 0)))  # lanes of a matrix: a lane holds two neighbours of a row
MATRIX_VALUES = (Mode(2, (0, 1)), Mode(2, (8, 0)))  # registers of two matrices, one above the other


def matrices(fragment: Fragment) -> Literal["rows", "columns"] | None:
    """Along what each register pair's neighbours lie: rows of the tile, columns (of which stmatrix makes rows as it
    stores), or None where the registers are no such matrices."""
    if len(fragment.tile) != 2:
        return None
    return "rows" if _stacked(fragment) else "columns" if _stacked(fragment.turned()) else None


def _stacked(fragment: Fragment) -> bool:
    return (
        fragment.threads[:2] == MATRIX_ROWS
        and fragment.registers[-1][:2] == MATRIX_VALUES
        and len(fragment.registers[-1]) == 3
        and fragment.registers[-1][2].steps == (0, 8)
        and fragment.registers[-1][2].extent % 2 == 0
    )
