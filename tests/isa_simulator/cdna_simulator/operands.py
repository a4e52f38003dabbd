"""Operands as LLVM prints them become readers and writers: functions of a wave, made once when a kernel is decoded."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.errors import SimulationError
from cdna_simulator.wave import LANES, M0, VCC, Wave

Lanes = NDArray[Any]
ScalarReader = Callable[[Wave], int]
ScalarWriter = Callable[[Wave, int], None]
VectorReader = Callable[[Wave], Lanes]
VectorWriter = Callable[[Wave, Lanes], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """How the bits of a vector operand are read: a numpy type of 16, 32 or 64 bits."""

    dtype: np.dtype[Any]

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"


U16, I16, F16 = (Kind(np.dtype(name)) for name in ("uint16", "int16", "float16"))
U32, I32, F32 = (Kind(np.dtype(name)) for name in ("uint32", "int32", "float32"))
U64, I64, F64 = (Kind(np.dtype(name)) for name in ("uint64", "int64", "float64"))

_FLOATS = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494", "0.15915494309189532"}
_NAMED = {"vcc_lo": VCC, "vcc_hi": VCC + 1, "m0": M0}


def parse_register(text: str) -> tuple[str, int, int] | None:
    """("v", 4, 2) for v[4:5]: file, first register, count. None for anything else."""
    match = re.fullmatch(r"([vas])\[?(\d+)(?::(\d+))?\]?", text)
    if not match:
        return None
    first = int(match[2])
    return match[1], first, int(match[3] or first) - first + 1


def constant_bits(text: str, kind: Kind) -> int:
    """The bits of an inline constant or literal, read as `kind`."""
    if text in _FLOATS:
        form = {16: "<e", 32: "<f", 64: "<d"}[kind.bits if kind.is_float else 32]
        return int.from_bytes(struct.pack(form, float(text)), "little")
    try:
        return int(text, 0) & ((1 << kind.bits) - 1)
    except ValueError as error:
        raise SimulationError(f"unknown operand {text}") from error


def scalar_reader(text: str, dwords: int = 1) -> ScalarReader:
    """Reads a scalar source as an unsigned integer of `dwords` words."""
    register = parse_register(text)
    if register and register[0] == "s":
        first, count = register[1], register[2]
        if count == 1:
            return lambda wave: wave.scalar[first]
        return lambda wave: sum(wave.scalar[first + i] << 32 * i for i in range(count))
    if text in _NAMED:
        number = _NAMED[text]
        return lambda wave: wave.scalar[number]
    match text:
        case "vcc":
            return lambda wave: wave.vcc
        case "exec":
            return lambda wave: wave.exec
        case "exec_lo":
            return lambda wave: wave.exec & 0xFFFFFFFF
        case "exec_hi":
            return lambda wave: wave.exec >> 32
        case "scc" | "src_scc":
            return lambda wave: int(wave.scc)
    value = constant_bits(text, U64 if dwords == 2 else U32)
    return lambda wave: value


def scalar_writer(text: str) -> ScalarWriter:
    """Writes a scalar destination; its width is in its name."""
    register = parse_register(text)
    if register and register[0] == "s":
        return _register_writer(register[1], register[2])
    if text in _NAMED:
        return _register_writer(_NAMED[text], 1)
    match text:
        case "vcc":
            return _register_writer(VCC, 2)
        case "exec":
            return lambda wave, value: wave.set_exec(value & 0xFFFFFFFFFFFFFFFF)
        case "exec_lo":
            return lambda wave, value: wave.set_exec(wave.exec >> 32 << 32 | value & 0xFFFFFFFF)
        case "exec_hi":
            return lambda wave, value: wave.set_exec(wave.exec & 0xFFFFFFFF | (value & 0xFFFFFFFF) << 32)
        case "null":
            return lambda wave, value: None
    raise SimulationError(f"unknown scalar destination {text}")


def _register_writer(first: int, count: int) -> ScalarWriter:
    def write(wave: Wave, value: int) -> None:
        for i in range(count):
            wave.scalar[first + i] = value >> 32 * i & 0xFFFFFFFF

    return write


def register_file(wave: Wave, name: str) -> NDArray[np.uint32]:
    return wave.vector if name == "v" else wave.accumulation


def vector_reader(text: str, kind: Kind, high_half: bool = False) -> VectorReader:
    """Reads a vector source (a register, a scalar, a constant) with its -x and |x| as an array of 64 of `kind`."""
    negate = text.startswith("-") and not re.fullmatch(r"-[\d.].*", text)
    text = text[1:] if negate else text
    absolute = text.startswith("|")
    text = text.strip("|")
    read = _plain_reader(text, kind, high_half)
    if absolute and negate:
        return lambda wave: -np.abs(read(wave))
    if absolute:
        return lambda wave: np.abs(read(wave))
    if negate:
        return lambda wave: -read(wave)
    return read


def _plain_reader(text: str, kind: Kind, high_half: bool) -> VectorReader:
    dtype = kind.dtype
    register = parse_register(text)
    if register and register[0] in "va":
        name, number, _ = register
        if kind.bits == 64:
            return lambda wave: _pair(register_file(wave, name), number).view(dtype)
        if kind.bits == 16:
            shift = np.uint32(16 if high_half else 0)
            return lambda wave: (register_file(wave, name)[number] >> shift).astype(np.uint16).view(dtype)
        return lambda wave: register_file(wave, name)[number].view(dtype)
    unsigned = np.dtype(f"uint{kind.bits}")
    mask = (1 << kind.bits) - 1
    if register or text in _NAMED or text in ("vcc", "exec", "exec_lo", "exec_hi", "src_scc", "scc"):
        read = scalar_reader(text, 2 if kind.bits == 64 else 1)
        shift_bits = 16 if high_half and kind.bits == 16 else 0
        return lambda wave: np.full(LANES, read(wave) >> shift_bits & mask, unsigned).view(dtype)
    constant = np.full(LANES, constant_bits(text, kind), unsigned).view(dtype)
    return lambda wave: constant


def _pair(file: NDArray[np.uint32], number: int) -> NDArray[np.uint64]:
    return file[number].astype(np.uint64) | file[number + 1].astype(np.uint64) << np.uint64(32)


def vector_writer(text: str) -> VectorWriter:
    """Writes 32 or 64 bits to the active lanes of a vector register; 16-bit results clear the upper half."""
    register = parse_register(text)
    if register is None or register[0] == "s":
        raise SimulationError(f"unknown vector destination {text}")
    name, number, count = register

    def write(wave: Wave, values: Lanes) -> None:
        file = register_file(wave, name)
        if count == 2:
            bits = values.view(np.uint64)
            _assign(wave, file, number, (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32))
            _assign(wave, file, number + 1, (bits >> np.uint64(32)).astype(np.uint32))
        elif values.dtype.itemsize == 2:
            _assign(wave, file, number, values.view(np.uint16).astype(np.uint32))
        else:
            _assign(wave, file, number, values.view(np.uint32))

    return write


def half_writer(text: str, high: bool) -> VectorWriter:
    """Writes 16 bits to one half of a vector register and keeps the other."""
    register = parse_register(text)
    if register is None or register[0] == "s":
        raise SimulationError(f"unknown vector destination {text}")
    name, number, _ = register
    shift = np.uint32(16 if high else 0)
    keep = np.uint32(0x0000FFFF if high else 0xFFFF0000)

    def write(wave: Wave, values: Lanes) -> None:
        file = register_file(wave, name)
        half = values.view(np.uint16).astype(np.uint32) << shift
        _assign(wave, file, number, file[number] & keep | half)

    return write


def _assign(wave: Wave, file: NDArray[np.uint32], number: int, values: NDArray[np.uint32]) -> None:
    if wave.full:
        file[number] = values
    else:
        file[number, wave.active] = values[wave.active]
