"""LDS instructions: reads and writes of all widths, pairs, atomics, and the lane permutations that go through LDS."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Instruction
from cdna_simulator.errors import SimulationError
from cdna_simulator.memory_operations import AccessForm, read_registers, registers_of, write_registers
from cdna_simulator.operands import U32, vector_reader, vector_writer
from cdna_simulator.wave import LANES, Wave

Action = Callable[[Wave], object]

_FORMS = {
    "b8": AccessForm(1, False, ""), "b16": AccessForm(2, False, ""), "b32": AccessForm(4, False, ""),
    "b64": AccessForm(8, False, ""), "b96": AccessForm(12, False, ""), "b128": AccessForm(16, False, ""),
    "u8": AccessForm(1, False, ""), "i8": AccessForm(1, True, ""),
    "u16": AccessForm(2, False, ""), "i16": AccessForm(2, True, ""),
    "u8_d16": AccessForm(1, False, "low"), "u8_d16_hi": AccessForm(1, False, "high"),
    "u16_d16": AccessForm(2, False, "low"), "u16_d16_hi": AccessForm(2, False, "high"),
    "b8_d16_hi": AccessForm(1, False, "high"), "b16_d16_hi": AccessForm(2, False, "high"),
}  # fmt: skip


def decode_lds(instruction: Instruction) -> Action | None:
    """The action of an LDS instruction; None when it is none, or unknown."""
    name = instruction.mnemonic
    special = _SPECIAL.get(name)
    if special:
        return special(instruction)
    if match := re.fullmatch(r"ds_(read|write)2(st64)?_(b32|b64)", name):
        stride = _FORMS[match[3]].size * (64 if match[2] else 1)
        pair = _read_pair if match[1] == "read" else _write_pair
        return pair(instruction, _FORMS[match[3]], stride)
    if match := re.fullmatch(r"ds_(read|write)_(\w+)", name):
        form = _FORMS.get(match[2])
        if form:
            return _read(instruction, form) if match[1] == "read" else _write(instruction, form)
    if match := re.fullmatch(r"ds_(add|max|min|or|and)(_rtn)?_(u32|i32|f32|b32)", name):
        return _atomic(instruction, match[1], match[3], bool(match[2]))
    return None


def _addresses(instruction: Instruction, operand: int, offset: int) -> Callable[[Wave], NDArray[np.int64]]:
    read = vector_reader(instruction.operands[operand], U32)
    # In 32 bits: compilers let a base below 0 and an offset meet where they are inside.
    return lambda wave: (read(wave)[wave.active].astype(np.int64) + offset) & 0xFFFFFFFF


def _read(instruction: Instruction, form: AccessForm) -> Action:
    where = _addresses(instruction, 1, instruction.modifier("offset"))
    name, first = registers_of(instruction.operands[0])

    def action(wave: Wave) -> None:
        data = wave.lds.read(wave.number, wave.active, where(wave), form.size)
        write_registers(wave, name, first, wave.active, data, form)

    return action


def _write(instruction: Instruction, form: AccessForm) -> Action:
    where = _addresses(instruction, 0, instruction.modifier("offset"))
    name, first = registers_of(instruction.operands[1])

    def action(wave: Wave) -> None:
        wave.lds.write(
            wave.number, wave.active, where(wave), read_registers(wave, name, first, wave.active, form)
        )

    return action


def _read_pair(instruction: Instruction, form: AccessForm, stride: int) -> Action:
    """Both addresses are taken before the first result is written: it may overwrite the address register."""
    name, first = registers_of(instruction.operands[0])
    places = [_addresses(instruction, 1, stride * instruction.modifier(f"offset{i}")) for i in (0, 1)]

    def action(wave: Wave) -> None:
        wheres = [place(wave) for place in places]
        for i, where in enumerate(wheres):
            data = wave.lds.read(wave.number, wave.active, where, form.size)
            write_registers(wave, name, first + i * form.size // 4, wave.active, data, form)

    return action


def _write_pair(instruction: Instruction, form: AccessForm, stride: int) -> Action:
    sources = [registers_of(instruction.operands[1 + i]) for i in (0, 1)]
    places = [_addresses(instruction, 0, stride * instruction.modifier(f"offset{i}")) for i in (0, 1)]

    def action(wave: Wave) -> None:
        for (name, first), place in zip(sources, places, strict=True):
            wave.lds.write(
                wave.number, wave.active, place(wave), read_registers(wave, name, first, wave.active, form)
            )

    return action


_ATOMICS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "add": lambda a, b: a + b,
    "max": np.maximum,
    "min": np.minimum,
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
}


def _atomic(instruction: Instruction, operation: str, kind: str, returns: bool) -> Action:
    """ds_add_u32 address, data; ds_add_rtn_u32 result, address, data. Lanes in order."""
    dtype = np.dtype({"u32": "uint32", "i32": "int32", "f32": "float32", "b32": "uint32"}[kind])
    combine = _ATOMICS[operation]
    where = _addresses(instruction, int(returns), instruction.modifier("offset"))
    source = vector_reader(instruction.operands[1 + int(returns)], U32)
    result = registers_of(instruction.operands[0]) if returns else None

    def action(wave: Wave) -> None:
        values, addresses = source(wave)[wave.active].view(dtype), where(wave)
        old = np.zeros((len(addresses), 4), np.uint8)
        for i in range(len(addresses)):
            old[i] = wave.lds.peek(addresses[i : i + 1], 4)
            wave.lds.poke(addresses[i : i + 1], combine(old[i].view(dtype), values[i : i + 1]).view(np.uint8))
        if result:
            write_registers(wave, *result, wave.active, old, _FORMS["b32"])

    return action


def _permute_backward(instruction: Instruction) -> Action:
    """ds_bpermute_b32: each lane reads the register of lane (address / 4) % 64; inactive sources give 0."""
    where, source = (vector_reader(text, U32) for text in instruction.operands[1:3])
    write = vector_writer(instruction.operands[0])
    offset = np.uint32(instruction.modifier("offset"))

    def action(wave: Wave) -> None:
        lanes = ((where(wave) + offset) >> np.uint32(2) & np.uint32(LANES - 1)).astype(np.intp)
        write(wave, np.where(wave.mask[lanes], source(wave)[lanes], 0).astype(np.uint32))

    return action


def _permute_forward(instruction: Instruction) -> Action:
    """ds_permute_b32: each lane sends its register to lane (address / 4) % 64; lanes that get nothing hold 0."""
    where, source = (vector_reader(text, U32) for text in instruction.operands[1:3])
    write = vector_writer(instruction.operands[0])
    offset = np.uint32(instruction.modifier("offset"))

    def action(wave: Wave) -> None:
        lanes = ((where(wave) + offset) >> np.uint32(2) & np.uint32(LANES - 1)).astype(np.intp)
        received = np.zeros(LANES, np.uint32)
        received[lanes[wave.active]] = source(wave)[wave.active]
        write(wave, received)

    return action


def _swizzle(instruction: Instruction) -> Action:
    """ds_swizzle_b32: quad permutation, or (lane & and) | or ^ xor within 32 lanes."""
    source, write = vector_reader(instruction.operands[1], U32), vector_writer(instruction.operands[0])
    pattern = _swizzle_pattern(instruction)
    return lambda wave: write(wave, np.where(wave.mask[pattern], source(wave)[pattern], 0).astype(np.uint32))


def _swizzle_pattern(instruction: Instruction) -> NDArray[np.int64]:
    lanes = np.arange(LANES)
    text = instruction.word("offset")
    if match := re.fullmatch(r"swizzle\((\w+),(.+)\)", text):
        mode, arguments = match[1], match[2].split(",")
        if mode == "QUAD_PERM":
            return lanes // 4 * 4 + np.array([int(number) for number in arguments])[lanes % 4]
        if mode == "SWAP":
            return lanes ^ int(arguments[0])
        if mode == "REVERSE":
            return lanes ^ (int(arguments[0]) - 1)
        if mode == "BROADCAST":
            group, lane = int(arguments[0]), int(arguments[1])
            return lanes // group * group + lane
        if mode == "BITMASK_PERM":
            bits = arguments[0].strip('"')
            result = lanes.copy()
            for position, symbol in enumerate(reversed(bits)):
                flag = 1 << position
                if symbol == "0":
                    result &= ~flag
                elif symbol == "1":
                    result |= flag
                elif symbol == "i":
                    result ^= flag
            return result
        raise SimulationError(f"unknown swizzle: {instruction}")
    number = int(text, 0)
    if number & 0x8000:
        return lanes // 4 * 4 + (number >> 2 * (lanes % 4) & 3)
    inner = (lanes % 32 & (number & 31) | number >> 5 & 31) ^ (number >> 10 & 31)
    return lanes // 32 * 32 + inner


_SPECIAL: dict[str, Callable[[Instruction], Action]] = {
    "ds_bpermute_b32": _permute_backward,
    "ds_permute_b32": _permute_forward,
    "ds_swizzle_b32": _swizzle,
}
