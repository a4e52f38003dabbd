"""Operand forms that move data between lanes (DPP) or pick bytes and halves of a register (SDWA)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Instruction
from cdna_simulator.errors import SimulationError
from cdna_simulator.operands import U32, Kind, Lanes, VectorReader, VectorWriter, vector_reader, vector_writer
from cdna_simulator.wave import LANES, Wave

_LANE = np.arange(LANES)
_SELECTIONS = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8),
    "WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32),
}  # fmt: skip


def dpp_pattern(instruction: Instruction) -> NDArray[np.int64] | None:
    """The lane that each lane reads (-1: none) under a DPP control; None without one (CDNA3 ISA, DPP)."""
    row, position = _LANE // 16 * 16, _LANE % 16
    for word in instruction.modifiers:
        name, _, value = word.partition(":")
        match name:
            case "quad_perm":
                quad = np.array([int(number) for number in value[1:-1].split(",")])
                return _LANE // 4 * 4 + quad[_LANE % 4]
            case "row_shl":
                return np.where(position + int(value) < 16, _LANE + int(value), -1)
            case "row_shr":
                return np.where(position >= int(value), _LANE - int(value), -1)
            case "row_ror":
                return row + (position - int(value)) % 16
            case "row_mirror":
                return row + 15 - position
            case "row_half_mirror":
                return _LANE // 8 * 8 + 7 - _LANE % 8
            case "row_newbcast":
                return row + int(value)
            case "row_bcast":
                return np.where(
                    int(value) + 1 <= _LANE, (_LANE // (int(value) + 1)) * (int(value) + 1) - 1, -1
                )
            case "wave_shr" | "wave_shl" | "wave_ror" | "wave_rol":
                raise SimulationError(f"{name} is not modelled: {instruction}")
    return None


def _has_source(wave: Wave, pattern: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Lanes whose source exists and is active."""
    return (pattern >= 0) & wave.mask[pattern]


def dpp_reader(instruction: Instruction, read: VectorReader, kind: Kind) -> VectorReader:
    """Wraps source 0 in the instruction's DPP pattern, when it has one. Lanes without a source read 0."""
    pattern = dpp_pattern(instruction)
    if pattern is None:
        return read
    return lambda wave: np.where(_has_source(wave, pattern), read(wave)[pattern], 0).astype(kind.dtype)


def dpp_writer(instruction: Instruction, write: VectorWriter, kind: Kind) -> VectorWriter:
    """Under DPP, lanes left out by row_mask or bank_mask, or without a source and bound_ctrl, keep the destination."""
    pattern = dpp_pattern(instruction)
    if pattern is None:
        return write
    rows = instruction.modifier("row_mask") >> (_LANE // 16) & 1
    banks = instruction.modifier("bank_mask") >> (_LANE % 16 // 4) & 1
    chosen = (rows == 1) & (banks == 1)
    zero_fill = instruction.selectable("bound_ctrl")
    old = vector_reader(instruction.operands[0], kind)

    def keeping(wave: Wave, values: Lanes) -> None:
        writes = chosen if zero_fill else chosen & _has_source(wave, pattern)
        write(wave, np.where(writes, values.view(kind.dtype), old(wave)))

    return keeping


def sdwa_reader(text: str, kind: Kind, selection: str) -> VectorReader:
    """A byte or half of a 32-bit source, zero- or sign-extended, then read as `kind` with its sign operations."""
    sign_extended = text.startswith("sext(")
    name = text[5:-1] if sign_extended else text
    negate, name = (True, name[1:]) if name.startswith("-") else (False, name)
    absolute = name.startswith("|")
    read = vector_reader(name.strip("|"), U32)
    shift, bits = _SELECTIONS[selection]
    mask = np.uint32((1 << bits) - 1)

    def selected(wave: Wave) -> Lanes:
        field = read(wave) >> np.uint32(shift) & mask
        if sign_extended:
            wide = field.astype(np.int64)
            field = (wide - (wide >> (bits - 1) << bits)).astype(np.int32).view(np.uint32)
        value = field.astype(np.uint16).view(kind.dtype) if kind.bits == 16 else field.view(kind.dtype)
        value = np.abs(value) if absolute else value
        return -value if negate else value

    return selected


def sdwa_writer(text: str, selection: str, unused: str) -> VectorWriter:
    """Writes a byte or half of the destination; the rest is cleared, kept, or filled with the sign."""
    write, old = vector_writer(text), vector_reader(text, U32)
    shift, bits = _SELECTIONS[selection]
    mask = np.uint32((1 << bits) - 1)

    def selected(wave: Wave, values: Lanes) -> None:
        raw = (
            values.view(np.uint16).astype(np.uint32) if values.dtype.itemsize == 2 else values.view(np.uint32)
        )
        field = (raw & mask) << np.uint32(shift)
        if unused == "UNUSED_PRESERVE":
            field = field | old(wave) & ~(mask << np.uint32(shift))
        elif unused == "UNUSED_SEXT":
            raise SimulationError("dst_unused:UNUSED_SEXT is not modelled")
        write(wave, field)

    return selected
