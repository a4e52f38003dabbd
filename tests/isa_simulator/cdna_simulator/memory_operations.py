"""Vector memory: global, flat and buffer accesses, atomics, direct-to-LDS loads.

A load's registers are written at once, since compiled code waits before it reads them; a direct-to-LDS load lands only
at the s_waitcnt that covers it. On gfx9 loads and stores count in vmcnt alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Instruction
from cdna_simulator.errors import SimulationError
from cdna_simulator.memory import Bytes
from cdna_simulator.operands import U32, U64, parse_register, register_file, scalar_reader, vector_reader
from cdna_simulator.wave import LANES, M0, Wave

Action = Callable[[Wave], object]
Addresses = Callable[[Wave], tuple[NDArray[np.intp], NDArray[np.uint64]]]

_SIZES = {
    "ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2,
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccessForm:
    """What a mnemonic says: bytes a lane; `signed` extension; which half of a register a 16-bit form means."""

    size: int
    signed: bool
    half: str  # "", "low" or "high"


def access_form(text: str) -> AccessForm | None:
    """ "ushort", "dwordx4", "short_d16_hi" …; None for anything else."""
    name, _, rest = text.partition("_")
    if name not in _SIZES or rest not in ("", "d16", "d16_hi"):
        return None
    half = {"": "", "d16": "low", "d16_hi": "high"}[rest]
    return AccessForm(_SIZES[name], name.startswith("s") and name != "short", half)


def decode_memory(instruction: Instruction) -> Action | None:
    """The action of a vector memory instruction; None when it is none, or unknown."""
    match = re.fullmatch(r"(global|flat|buffer)_(load|store|atomic)_(.+)", instruction.mnemonic)
    if not match:
        return None
    space, operation, rest = match.groups()
    if operation == "atomic":
        return _atomic(instruction, space, rest)
    form = access_form(rest)
    if form is None:
        return None
    if operation == "load":
        if "lds" in instruction.modifiers:
            return _direct_load(instruction, form)
        return _load(instruction, space, form)
    return _store(instruction, space, form)


def registers_of(text: str) -> tuple[str, int]:
    register = parse_register(text)
    if register is None or register[0] == "s":
        raise SimulationError(f"{text} is no vector register")
    return register[0], register[1]


def write_registers(
    wave: Wave, name: str, first: int, lanes: NDArray[np.intp], data: Bytes, form: AccessForm
) -> None:
    """Bytes [lanes, size] into registers, extended or merged as the form says."""
    file = register_file(wave, name)
    if form.size >= 4:
        words = np.ascontiguousarray(data).view(np.uint32)
        for i in range(words.shape[1]):
            file[first + i, lanes] = words[:, i]
        return
    dtype = {(1, False): np.uint8, (1, True): np.int8, (2, False): np.uint16, (2, True): np.int16}[
        form.size, form.signed
    ]
    values = np.ascontiguousarray(data).view(dtype)[:, 0]
    if form.half:
        half = values.astype(np.uint16).astype(np.uint32)
        old = file[first, lanes]
        high = form.half == "high"
        file[first, lanes] = (
            old & np.uint32(0xFFFF) | half << np.uint32(16) if high else old & np.uint32(0xFFFF0000) | half
        )
    else:
        file[first, lanes] = (
            values.astype(np.int32).view(np.uint32) if form.signed else values.astype(np.uint32)
        )


def read_registers(wave: Wave, name: str, first: int, lanes: NDArray[np.intp], form: AccessForm) -> Bytes:
    """The bytes [lanes, size] that a store takes from registers."""
    file = register_file(wave, name)
    count = max(form.size // 4, 1)
    words = np.ascontiguousarray(file[first : first + count, lanes].T)
    if form.half == "high":
        words = words >> np.uint32(16)
    return words.view(np.uint8)[:, : form.size]


def _global_addresses(instruction: Instruction, address: str, base: str, space: str) -> Addresses:
    offset = np.uint64(_offset(instruction) & 0xFFFFFFFFFFFFFFFF)
    if space == "flat" or base == "off":
        read = vector_reader(address, U64)
        return lambda wave: (wave.active, (read(wave) + offset)[wave.active])
    start, index = scalar_reader(base, 2), vector_reader(address, U32)
    return lambda wave: (
        wave.active,
        (index(wave).astype(np.uint64) + np.uint64(start(wave)) + offset)[wave.active],
    )


def _offset(instruction: Instruction) -> int:
    return instruction.modifier("offset")


def _buffer_addresses(instruction: Instruction, operands: tuple[str, ...], size: int) -> Addresses:
    """Lanes within the resource's range and their addresses; soffset takes no part in the check (raw buffers)."""
    offset_text, resource_text, scalar_text = operands
    if "idxen" in instruction.modifiers:
        raise SimulationError(f"indexed buffers are not modelled: {instruction}")
    resource, scalar = scalar_reader(resource_text, 4), scalar_reader(scalar_text)
    use_offset = "offen" in instruction.modifiers
    voffset = vector_reader(offset_text, U32) if use_offset else None
    immediate = _offset(instruction)

    def addresses(wave: Wave) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
        descriptor = resource(wave)
        base, records = descriptor & ((1 << 48) - 1), descriptor >> 64 & 0xFFFFFFFF
        offsets = (voffset(wave).astype(np.int64) if voffset else np.zeros(LANES, np.int64)) + immediate
        lanes = np.flatnonzero(wave.mask & (offsets + size <= records))
        return lanes, offsets[lanes].astype(np.uint64) + np.uint64(base + scalar(wave))

    return addresses


def _addressing(instruction: Instruction, space: str, is_load: bool, size: int) -> tuple[str, Addresses]:
    """The data register's text and the addresses. global_load d, address, base; global_store address, d, base."""
    operands = instruction.operands
    if space == "buffer":
        return operands[0], _buffer_addresses(instruction, operands[1:4], size)
    data, address = (operands[0], operands[1]) if is_load else (operands[1], operands[0])
    base = operands[2] if len(operands) > 2 else "off"
    return data, _global_addresses(instruction, address, base, space)


def _load(instruction: Instruction, space: str, form: AccessForm) -> Action:
    data, addresses = _addressing(instruction, space, True, form.size)
    name, first = registers_of(data)

    def action(wave: Wave) -> None:
        lanes, where = addresses(wave)
        if len(lanes) < len(wave.active):  # a buffer's lanes out of range read 0
            zeros = np.zeros((len(wave.active), form.size), np.uint8)
            write_registers(wave, name, first, wave.active, zeros, form)
        if len(lanes):
            write_registers(wave, name, first, lanes, wave.memory.load(where, form.size), form)
        wave.in_flight.append(None)

    return action


def _store(instruction: Instruction, space: str, form: AccessForm) -> Action:
    data, addresses = _addressing(instruction, space, False, form.size)
    name, first = registers_of(data)

    def action(wave: Wave) -> None:
        lanes, where = addresses(wave)
        if len(lanes):
            wave.memory.store(where, read_registers(wave, name, first, lanes, form))
        wave.in_flight.append(None)

    return action


def _direct_load(instruction: Instruction, form: AccessForm) -> Action:
    """buffer_load … lds: lane i lands at M0 + offset + size * i (CDNA3 ISA, LDS = 1)."""
    addresses = _buffer_addresses(instruction, instruction.operands, form.size)
    immediate = _offset(instruction)

    def action(wave: Wave) -> None:
        lanes, where = addresses(wave)
        data = np.zeros((LANES, form.size), np.uint8)
        if len(lanes):
            data[lanes] = wave.memory.load(where, form.size)
        active, number, lds = wave.active, wave.number, wave.lds
        target = (wave.scalar[M0] & 0xFFFF) + immediate + form.size * active.astype(np.int64)
        lds.begin_direct_load(number, target, form.size)
        wave.in_flight.append(lambda: lds.finish_direct_load(target, data[active]))

    return action


Combine = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

_ATOMICS: dict[str, tuple[Any, int, Combine]] = {
    "add_f32": (np.float32, 4, lambda a, b: a + b),
    "add_f64": (np.float64, 8, lambda a, b: a + b),
    "pk_add_f16": (np.float16, 4, lambda a, b: a + b),
    "pk_add_bf16": (ml_dtypes.bfloat16, 4, lambda a, b: a + b),
    "add": (np.uint32, 4, lambda a, b: a + b),
    "add_x2": (np.uint64, 8, lambda a, b: a + b),
    "smax": (np.int32, 4, np.maximum),
    "smin": (np.int32, 4, np.minimum),
    "umax": (np.uint32, 4, np.maximum),
    "umin": (np.uint32, 4, np.minimum),
    "and": (np.uint32, 4, lambda a, b: a & b),
    "or": (np.uint32, 4, lambda a, b: a | b),
    "inc": (np.uint32, 4, lambda a, b: np.where(a >= b, 0, a + 1).astype(np.uint32)),
    "dec": (np.uint32, 4, lambda a, b: np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32)),
    "swap": (np.uint32, 4, lambda a, b: b),
}


def _atomic(instruction: Instruction, space: str, operation: str) -> Action | None:
    """An atomic in lane order; with sc0 or glc the old value is returned."""
    if operation in ("cmpswap", "cmpswap_x2"):
        return _compare_and_swap(instruction, space, 8 if operation.endswith("x2") else 4)
    if operation not in _ATOMICS:
        return None
    dtype, size, combine = _ATOMICS[operation]
    returns = "sc0" in instruction.modifiers or "glc" in instruction.modifiers
    data, addresses, result = _atomic_operands(instruction, space, returns, size)
    name, first = registers_of(data)
    form = AccessForm(size, False, "")

    def action(wave: Wave) -> None:
        lanes, where = addresses(wave)
        operands = read_registers(wave, name, first, lanes, form)
        old = np.zeros((len(lanes), size), np.uint8)
        for i in range(len(lanes)):
            at = where[i : i + 1]
            old[i] = wave.memory.load(at, size)[0]
            wave.memory.store(at, combine(old[i].view(dtype), operands[i].view(dtype)).view(np.uint8)[None])
        if result:
            write_registers(wave, *registers_of(result), lanes, old, form)
        wave.in_flight.append(None)

    return action


def _compare_and_swap(instruction: Instruction, space: str, size: int) -> Action:
    """The data registers hold the new value, then the one to compare with."""
    returns = "sc0" in instruction.modifiers or "glc" in instruction.modifiers
    data, addresses, result = _atomic_operands(instruction, space, returns, size)
    name, first = registers_of(data)
    form, both = AccessForm(size, False, ""), AccessForm(2 * size, False, "")

    def action(wave: Wave) -> None:
        lanes, where = addresses(wave)
        operands = read_registers(wave, name, first, lanes, both)
        old = np.zeros((len(lanes), size), np.uint8)
        for i in range(len(lanes)):
            at = where[i : i + 1]
            old[i] = wave.memory.load(at, size)[0]
            if (old[i] == operands[i, size:]).all():
                wave.memory.store(at, operands[i : i + 1, :size])
        if result:
            write_registers(wave, *registers_of(result), lanes, old, form)
        wave.in_flight.append(None)

    return action


def _atomic_operands(
    instruction: Instruction, space: str, returns: bool, size: int
) -> tuple[str, Addresses, str]:
    """Data, addresses and the result register (empty without one). A buffer's result overwrites its data."""
    operands = instruction.operands
    if space == "buffer":
        return (
            operands[0],
            _buffer_addresses(instruction, operands[1:4], size),
            operands[0] if returns else "",
        )
    result, rest = (operands[0], operands[1:]) if returns else ("", operands)
    base = rest[2] if len(rest) > 2 else "off"
    return rest[1], _global_addresses(instruction, rest[0], base, space), result
