"""The NVIDIA atoms against the formulas of the PTX ISA, written out here from its text."""

from __future__ import annotations

import pytest
from layout_oracle import at, elements, size

from tilegen.atoms import MmaAtom
from tilegen.target import load_target

MMA_SYNC = [atom for atom in load_target("sm_80").mma_atoms if atom.primitive == "mma_sync"]
WGMMA = [atom for atom in load_target("sm_90a").mma_atoms if atom.primitive == "wgmma"]


@pytest.mark.parametrize("atom", MMA_SYNC, ids=lambda atom: atom.name)
def test_mma_sync_fragments(atom: MmaAtom) -> None:
    for thread, value, row, column in elements(atom.a, atom.m):
        group, thread_in_group = thread >> 2, thread % 4
        if atom.k == 16:
            expected_row = group if value < 2 or 4 <= value < 6 else group + 8
            expected_column = thread_in_group * 2 + (value & 1) + (8 if value >= 4 else 0)
        else:
            expected_row = group if value < 2 else group + 8
            expected_column = thread_in_group * 2 + (value & 1)
        assert (row, column) == (expected_row, expected_column)
    for thread, value, column, row in elements(atom.b, atom.n):
        group, thread_in_group = thread >> 2, thread % 4
        assert row == thread_in_group * 2 + (value & 1) + (8 if value >= 2 else 0)
        assert column == group
    for thread, value, row, column in elements(atom.c, atom.m):
        group, thread_in_group = thread >> 2, thread % 4
        assert row == (group if value < 2 else group + 8)
        assert column == thread_in_group * 2 + (value & 1)


@pytest.mark.parametrize("atom", WGMMA[:64:7] + WGMMA[64::9], ids=lambda atom: atom.name)
def test_wgmma_fragments(atom: MmaAtom) -> None:
    for thread, value, row, column in elements(atom.c, atom.m):
        warp, lane = thread // 32, thread % 32
        assert row == 16 * warp + lane // 4 + 8 * ((value // 2) % 2)
        assert column == 8 * (value // 4) + 2 * (lane % 4) + value % 2
    if atom.a.source == "register":
        for thread, value, row, column in elements(atom.a, atom.m):
            warp, lane = thread // 32, thread % 32
            assert row == 16 * warp + lane // 4 + 8 * ((value // 2) % 2)
            assert column == 2 * (lane % 4) + value % 2 + 8 * (value // 4)


def test_wgmma_comes_in_every_n_and_source() -> None:
    for dtype in ("float16", "bfloat16"):
        for source in ("shared", "register"):
            extents = [a.n for a in WGMMA if a.a.dtype == dtype and a.a.source == source]
            assert extents == list(range(8, 257, 8))
    assert (
        load_target("sm_90a")
        .mma("SM90_64x248x16_F32F16F16_SS")
        .instruction.endswith(".m64n248k16.f32.f16.f16")
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_register_fragments_hold_each_element_once(target: str) -> None:
    for atom in load_target(target).mma_atoms[:: 1 if target != "sm_90a" else 13]:
        for operand, rows, columns in (
            (atom.a, atom.m, atom.k),
            (atom.b, atom.n, atom.k),
            (atom.c, atom.m, atom.n),
        ):
            if operand.source == "register":
                found = sorted((row, column) for _, _, row, column in elements(operand, rows))
                assert found == [(row, column) for row in range(rows) for column in range(columns)]


@pytest.mark.parametrize("kind", ["ldmatrix", "stmatrix"])
def test_matrix_copies(kind: str) -> None:
    atoms = load_target("sm_90a").copies(kind)
    assert [(a.parameter("matrices"), a.parameter("transposed")) for a in atoms] == [
        (count, transposed) for transposed in (False, True) for count in (1, 2, 4)
    ]
    for atom in atoms:
        loads = kind == "ldmatrix"
        registers = atom.destination_layout if loads else atom.source_layout
        addresses = atom.source_layout if loads else atom.destination_layout
        assert registers is not None and addresses is not None
        count = int(atom.parameter("matrices"))
        assert size(registers.shape) == 32 * 2 * count
        for thread in range(32):
            for value in range(2 * count):
                row, column = thread // 4, 2 * (thread % 4) + value % 2
                if atom.parameter("transposed"):
                    row, column = column, row
                assert at(registers, thread, value) == row + 8 * column + 64 * (value // 2)
            if thread < 8 * count:
                for column in range(8):
                    assert at(addresses, thread, column) == thread % 8 + 8 * column + 64 * (thread // 8)
