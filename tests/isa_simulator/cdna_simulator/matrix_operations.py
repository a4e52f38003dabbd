"""MFMA: one matrix a wave. The lane maps are the CDNA ISA's, the formula that covers every single-block instruction."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Instruction
from cdna_simulator.errors import SimulationError
from cdna_simulator.memory_operations import registers_of
from cdna_simulator.operands import F32, I32, Kind, parse_register, register_file, vector_reader
from cdna_simulator.wave import LANES, Wave

Action = Callable[[Wave], object]
Decode = Callable[[NDArray[np.uint8]], NDArray[np.float64]]

_TYPES: dict[str, object] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "i8": np.int8,
    "fp8": ml_dtypes.float8_e4m3fnuz,
    "bf8": ml_dtypes.float8_e5m2fnuz,
}
_NAME = re.compile(r"v_mfma_(f32|i32)_(16x16|32x32)x(\d+)_?(f16|bf16|f32|i8|fp8|bf8)(?:_(fp8|bf8))?(_1k)?")


def decode_matrix(instruction: Instruction) -> Action | None:
    """The action of an MFMA; None when it is none, or unknown."""
    match = _NAME.fullmatch(instruction.mnemonic)
    if not match:
        return None
    if any(word.startswith(("cbsz", "abid", "blgp", "neg")) for word in instruction.modifiers):
        raise SimulationError(f"broadcast and sign modifiers are not modelled: {instruction}")
    extent, depth = int(match[2].partition("x")[0]), int(match[3])
    left = _operand(instruction.operands[1], match[4], extent, depth)
    right = _operand(instruction.operands[2], match[5] or match[4], extent, depth)
    return _multiply(instruction, F32 if match[1] == "f32" else I32, extent, left, right)


def _operand(text: str, type_name: str, extent: int, depth: int) -> Callable[[Wave], NDArray[np.float64]]:
    """A reader of A as [row, k], or of B as [column, k]: lane l holds k = per_lane * (l // extent) + 0, 1, …"""
    name, first = registers_of(text)
    dtype = np.dtype(_TYPES[type_name])  # type: ignore[call-overload]
    per_lane = depth * extent // LANES
    registers = per_lane * dtype.itemsize // 4

    def read(wave: Wave) -> NDArray[np.float64]:
        words = np.ascontiguousarray(register_file(wave, name)[first : first + registers].T)
        values = words.view(dtype).astype(np.float64)  # [lane, element]
        return values.reshape(LANES // extent, extent, per_lane).transpose(1, 0, 2).reshape(extent, depth)

    return read


def _result_map(extent: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of C and D that (register, lane) holds."""
    registers, lanes = np.meshgrid(np.arange(extent * extent // LANES), np.arange(LANES), indexing="ij")
    if extent == 16:
        return 4 * (lanes // 16) + registers, lanes % 16
    return 8 * (registers // 4) + 4 * (lanes // 32) + registers % 4, lanes % 32


def _multiply(
    instruction: Instruction,
    kind: Kind,
    extent: int,
    left: Callable[[Wave], NDArray[np.float64]],
    right: Callable[[Wave], NDArray[np.float64]],
) -> Action:
    rows, columns = _result_map(extent)
    count = len(rows)
    name, first = registers_of(instruction.operands[0])
    addend_text = instruction.operands[3]
    addend = parse_register(addend_text)
    constant = None if addend else vector_reader(addend_text, kind)

    def action(wave: Wave) -> None:
        if not wave.full:
            raise SimulationError(f"MFMA with inactive lanes: {instruction}")
        product = (left(wave) @ right(wave).T)[rows, columns]
        if addend:
            old = register_file(wave, addend[0])[addend[1] : addend[1] + count].view(kind.dtype)
        else:
            assert constant is not None
            old = constant(wave)
        total = (old.astype(np.float64) + product).astype(kind.dtype)
        register_file(wave, name)[first : first + count] = total.view(np.uint32)

    return action
