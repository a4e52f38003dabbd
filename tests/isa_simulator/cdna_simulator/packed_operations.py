"""Packed (VOP3P) instructions: two halves or two binary32 a lane, and the mixed-precision multiply-adds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cdna_simulator.code_object import Instruction
from cdna_simulator.operands import (
    F16,
    F32,
    I16,
    U16,
    U32,
    Kind,
    Lanes,
    VectorReader,
    half_writer,
    parse_register,
    vector_reader,
    vector_writer,
)  # fmt: skip
from cdna_simulator.vector_tables import fused_multiply_add
from cdna_simulator.wave import Wave

Action = Callable[[Wave], object]

_HALVES: dict[str, tuple[Kind, Callable[..., Lanes]]] = {
    "v_pk_add_f16": (F16, lambda a, b: a + b),
    "v_pk_mul_f16": (F16, lambda a, b: a * b),
    "v_pk_fma_f16": (F16, fused_multiply_add),
    "v_pk_max_f16": (F16, np.fmax),
    "v_pk_min_f16": (F16, np.fmin),
    "v_pk_add_u16": (U16, lambda a, b: a + b),
    "v_pk_sub_u16": (U16, lambda a, b: a - b),
    "v_pk_sub_i16": (U16, lambda a, b: a - b),
    "v_pk_add_i16": (U16, lambda a, b: a + b),
    "v_pk_mul_lo_u16": (U16, lambda a, b: a * b),
    "v_pk_mad_u16": (U16, lambda a, b, c: a * b + c),
    "v_pk_max_u16": (U16, np.maximum),
    "v_pk_min_u16": (U16, np.minimum),
    "v_pk_max_i16": (I16, np.maximum),
    "v_pk_min_i16": (I16, np.minimum),
    "v_pk_lshlrev_b16": (U16, lambda a, b: b << (a & np.uint16(15))),
    "v_pk_lshrrev_b16": (U16, lambda a, b: b >> (a & np.uint16(15))),
    "v_pk_ashrrev_i16": (I16, lambda a, b: b >> (a & np.int16(15))),
}
_PAIRS: dict[str, Callable[..., Lanes]] = {
    "v_pk_add_f32": lambda a, b: a + b,
    "v_pk_mul_f32": lambda a, b: a * b,
    "v_pk_fma_f32": fused_multiply_add,
}


def decode_packed(instruction: Instruction) -> Action | None:
    """The action of a packed instruction; None when it is none, or unknown."""
    name = instruction.mnemonic
    if name in _HALVES:
        return _halves(instruction, *_HALVES[name])
    if name == "v_pk_mov_b32":
        return _move_pair(instruction)
    if name in _PAIRS:
        return _pairs(instruction, _PAIRS[name])
    if name.startswith(("v_fma_mix", "v_mad_mix")):
        return _mixed(instruction)
    return None


def _signed(instruction: Instruction, half: str, position: int, read: VectorReader) -> VectorReader:
    """neg_lo and neg_hi flip the sign of one half of a source."""
    if instruction.selectors(f"neg_{half}", (0, 0, 0))[position : position + 1] == (1,):
        return lambda wave: -read(wave)
    return read


def _halves(instruction: Instruction, kind: Kind, function: Callable[..., Lanes]) -> Action:
    texts = instruction.operands[1:]
    low_of = instruction.selectors("op_sel", (0, 0, 0))
    high_of = instruction.selectors("op_sel_hi", (1, 1, 1))
    low, high = (
        [
            _signed(instruction, half, i, _half_reader(text, kind, bool(choice[i])))
            for i, text in enumerate(texts)
        ]
        for half, choice in (("lo", low_of), ("hi", high_of))
    )
    write = vector_writer(instruction.operands[0])

    def action(wave: Wave) -> None:
        lower = function(*(read(wave) for read in low)).view(np.uint16).astype(np.uint32)
        upper = function(*(read(wave) for read in high)).view(np.uint16).astype(np.uint32)
        write(wave, lower | upper << np.uint32(16))

    return action


def _half_reader(text: str, kind: Kind, high: bool) -> VectorReader:
    """A half of a register; an inline constant is the same 16 bits in its low half, a literal has 32 bits."""
    if high and parse_register(text) is None and text.startswith("0x"):
        read = vector_reader(text, U32)
        return lambda wave: (read(wave) >> np.uint32(16)).astype(np.uint16).view(kind.dtype)
    return vector_reader(text, kind, high)


def _pair_readers(instruction: Instruction, count: int) -> tuple[list[VectorReader], list[VectorReader]]:
    low_of = instruction.selectors("op_sel", (0, 0, 0))
    high_of = instruction.selectors("op_sel_hi", (1, 1, 1))
    texts = instruction.operands[1 : 1 + count]
    low = [_signed(instruction, "lo", i, _word_reader(text, low_of[i])) for i, text in enumerate(texts)]
    high = [_signed(instruction, "hi", i, _word_reader(text, high_of[i])) for i, text in enumerate(texts)]
    return low, high


def _word_reader(text: str, which: int) -> VectorReader:
    """Word 0 or 1 of a 64-bit source; a constant is the same in both."""
    register = parse_register(text)
    if register is None:
        return vector_reader(text, F32)
    name, first, _ = register
    return vector_reader(f"{name}{first + which}", F32)


def _pairs(instruction: Instruction, function: Callable[..., Lanes]) -> Action:
    low, high = _pair_readers(instruction, len(instruction.operands) - 1)
    write_low, write_high = _pair_writers(instruction)

    def action(wave: Wave) -> None:
        lower = function(*(read(wave) for read in low))
        upper = function(*(read(wave) for read in high))
        write_low(wave, lower)
        write_high(wave, upper)

    return action


def _move_pair(instruction: Instruction) -> Action:
    """v_pk_mov_b32 d, a, b: word op_sel[0] of a, then word op_sel[1] of b."""
    choice = instruction.selectors("op_sel", (0, 0))
    first, second = (_word_reader(text, choice[i]) for i, text in enumerate(instruction.operands[1:3]))
    write_low, write_high = _pair_writers(instruction)

    def action(wave: Wave) -> None:
        lower, upper = first(wave).copy(), second(wave).copy()
        write_low(wave, lower)
        write_high(wave, upper)

    return action


def _pair_writers(
    instruction: Instruction,
) -> tuple[Callable[[Wave, Lanes], None], Callable[[Wave, Lanes], None]]:
    register = parse_register(instruction.operands[0])
    assert register is not None
    name, first, _ = register
    return vector_writer(f"{name}{first}"), vector_writer(f"{name}{first + 1}")


def _mixed(instruction: Instruction) -> Action:
    """v_fma_mix_f32, v_fma_mixlo_f16, v_fma_mixhi_f16: op_sel_hi says which sources are halves, op_sel which half."""
    is_half = instruction.selectors("op_sel_hi", (0, 0, 0))
    high = instruction.selectors("op_sel", (0, 0, 0))
    readers: list[VectorReader] = []
    for i, text in enumerate(instruction.operands[1:4]):
        if is_half[i]:
            half = vector_reader(text, F16, bool(high[i]))
            readers.append(lambda wave, half=half: half(wave).astype(np.float32))  # type: ignore[misc]
        else:
            readers.append(vector_reader(text, F32))
    if instruction.mnemonic.endswith("mix_f32"):
        write = vector_writer(instruction.operands[0])
        return lambda wave: write(wave, fused_multiply_add(*(read(wave) for read in readers)))
    write_half = half_writer(instruction.operands[0], high="mixhi" in instruction.mnemonic)
    return lambda wave: write_half(
        wave, fused_multiply_add(*(read(wave).astype(np.float32) for read in readers)).astype(np.float16)
    )
