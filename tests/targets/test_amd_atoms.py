"""The MFMA atoms against AMD's matrix instruction calculator, and CDNA4's against the ISA's formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from layout_oracle import elements

from tilegen.atoms import MmaAtom, MmaOperand
from tilegen.target import load_target

CALCULATOR = json.loads((Path(__file__).parent / "data" / "amd_matrix_layouts.json").read_text())
OPERAND_BITS = {"float16": 16, "bfloat16": 16, "float32": 32}


def calculator_table(instruction: str, operand: str) -> set[tuple[int, ...]]:
    return {tuple(row) for row in CALCULATOR["tables"][CALCULATOR["instructions"][instruction][operand]]}


def atom_table(operand: MmaOperand, rows: int, transposed: bool) -> set[tuple[int, ...]]:
    """Rows of the calculator's form: (row, column, first register, lane, first bit)."""
    bits = OPERAND_BITS[operand.dtype]
    table = set()
    for lane, value, row, column in elements(operand, rows):
        place = (value * bits // 32, lane, value * bits % 32)
        table.add((column, row, *place) if transposed else (row, column, *place))
    return table


def atoms_of(target: str) -> list[MmaAtom]:
    return list(load_target(target).mma_atoms)


CASES = [("gfx90a", "cdna2", atom) for atom in atoms_of("gfx90a")]
CASES += [("gfx942", "cdna3", atom) for atom in atoms_of("gfx942")]


@pytest.mark.parametrize(
    ("target", "generation", "atom"), CASES, ids=lambda case: getattr(case, "name", case)
)
def test_atoms_agree_with_the_calculator(target: str, generation: str, atom: MmaAtom) -> None:
    instruction = f"{generation}/{atom.instruction}"
    assert atom_table(atom.a, atom.m, transposed=False) == calculator_table(instruction, "A")
    assert atom_table(atom.b, atom.n, transposed=True) == calculator_table(instruction, "B")
    assert atom_table(atom.c, atom.m, transposed=False) == calculator_table(instruction, "D")


def test_every_instruction_of_the_calculator_is_an_atom() -> None:
    described = {f"{generation}/{atom.instruction}" for _, generation, atom in CASES}
    assert described == set(CALCULATOR["instructions"])


def test_cdna4_atoms_follow_the_isa() -> None:
    new = [atom for atom in atoms_of("gfx950") if atom not in atoms_of("gfx942")]
    assert [atom.shape for atom in new] == [(32, 32, 16), (16, 16, 32)] * 2
    for atom in new:
        for operand, extent in ((atom.a, atom.m), (atom.b, atom.n)):
            for lane, value, row, k in elements(operand, extent):
                assert row == lane % extent
                assert k == 8 * (lane // extent) + value
        for lane, value, row, column in elements(atom.c, atom.m):
            assert column == lane % atom.n
            if atom.m == 16:
                assert row == 4 * (lane // 16) + value
            else:
                assert row == 8 * (value // 4) + 4 * (lane // 32) + value % 4
