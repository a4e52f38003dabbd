"""Vector ALU instructions: plain ones by table, with DPP, SDWA, op_sel and clamp; comparisons, carries, lane access."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Instruction
from cdna_simulator.errors import SimulationError
from cdna_simulator.lane_patterns import dpp_reader, dpp_writer, sdwa_reader, sdwa_writer
from cdna_simulator.operands import (
    F32,
    U32,
    U64,
    Kind,
    Lanes,
    VectorReader,
    VectorWriter,
    half_writer,
    parse_register,
    register_file,
    scalar_reader,
    scalar_writer,
    vector_reader,
    vector_writer,
)
from cdna_simulator.vector_tables import OPERATIONS, VectorOperation
from cdna_simulator.wave import LANES, Wave, bits_of, lanes_of

Action = Callable[[Wave], object]

_COMPARE: dict[str, Callable[[Lanes, Lanes], NDArray[np.bool_]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: (a < b) | (a > b),
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}
_OUTPUT_SCALES = {"mul:2": 2.0, "mul:4": 4.0, "div:2": 0.5}


def decode_vector(instruction: Instruction) -> Action | None:
    """The action of a vector ALU instruction; None when it is none, or unknown."""
    name = re.sub(r"_(e32|e64|dpp|sdwa)$", "", instruction.mnemonic)
    plain = replace(instruction, mnemonic=name)
    special = _SPECIAL.get(name)
    if special:
        return special(plain)
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _compare(plain)
    operation = OPERATIONS.get(name)
    return _operate(plain, operation) if operation else None


def _operate(instruction: Instruction, operation: VectorOperation) -> Action:
    count = len(operation.sources) - operation.accumulates
    texts = instruction.operands[1 : 1 + count]
    selected = instruction.selectors("op_sel", (0, 0, 0, 0))
    readers = [
        _source(instruction, position, text, kind, bool(selected[position]))
        for position, (text, kind) in enumerate(zip(texts, operation.sources, strict=False))
    ]
    if operation.accumulates:
        readers.append(vector_reader(instruction.operands[0], operation.sources[-1]))
    write = _destination(instruction, operation.result, bool(selected[count]))
    function = operation.function
    finish = _finisher(instruction, operation.result)
    if len(readers) == 2 and finish is None:
        left, right = readers
        return lambda wave: write(wave, function(left(wave), right(wave)))
    if finish is None:
        return lambda wave: write(wave, function(*(read(wave) for read in readers)))
    return lambda wave: write(wave, finish(function(*(read(wave) for read in readers))))


def _source(instruction: Instruction, position: int, text: str, kind: Kind, high_half: bool) -> VectorReader:
    if position < 2 and instruction.selectable(f"src{position}_sel"):
        return sdwa_reader(text, kind, instruction.word(f"src{position}_sel"))
    read = vector_reader(text, kind, high_half)
    return dpp_reader(instruction, read, kind) if position == 0 else read


def _destination(instruction: Instruction, kind: Kind, high_half: bool) -> VectorWriter:
    text = instruction.operands[0]
    if instruction.selectable("dst_sel"):
        return sdwa_writer(text, instruction.word("dst_sel"), instruction.word("dst_unused"))
    if kind.bits == 16 and high_half:
        return half_writer(text, high=True)
    return dpp_writer(instruction, vector_writer(text), kind)


def _finisher(instruction: Instruction, kind: Kind) -> Callable[[Lanes], Lanes] | None:
    """Output scaling and clamping, in this order."""
    scale = next((_OUTPUT_SCALES[word] for word in instruction.modifiers if word in _OUTPUT_SCALES), None)
    clamp = "clamp" in instruction.modifiers
    if scale is None and not clamp:
        return None
    if not kind.is_float:
        raise SimulationError(f"integer clamp is not modelled: {instruction}")
    factor = kind.dtype.type(1.0 if scale is None else scale)
    return lambda values: np.clip(values * factor, 0, 1).astype(kind.dtype) if clamp else values * factor


def _compare(instruction: Instruction) -> Action:
    """v_cmp_lt_f32 vcc|s[a:b], x, y; v_cmpx_... writes EXEC as well."""
    _, form, relation, kind_name = _split_compare(instruction.mnemonic)
    if relation == "class":
        return _compare_class(instruction)
    kind = Kind(np.dtype({"f": "float", "i": "int", "u": "uint"}[kind_name[0]] + kind_name[1:]))
    left = _source(instruction, 0, instruction.operands[1], kind, False)
    right = _source(instruction, 1, instruction.operands[2], kind, False)
    return _write_mask(instruction, form == "cmpx", left, right, _COMPARE[relation])


def _split_compare(name: str) -> tuple[str, str, str, str]:
    first, form, relation, kind = name.split("_")
    return first, form, relation, kind


def _write_mask(
    instruction: Instruction,
    to_exec: bool,
    left: VectorReader,
    right: VectorReader,
    holds: Callable[[Lanes, Lanes], NDArray[np.bool_]],
) -> Action:
    write = scalar_writer(instruction.operands[0])

    def action(wave: Wave) -> None:
        bits = bits_of(holds(left(wave), right(wave)) & wave.mask)
        write(wave, bits)
        if to_exec:
            wave.set_exec(bits)

    return action


def _compare_class(instruction: Instruction) -> Action:
    """Bits of the mask: signalling NaN, quiet NaN, then -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf."""
    value = vector_reader(instruction.operands[1], F32)
    classes = vector_reader(instruction.operands[2], U32)

    def holds(x: Lanes, wanted: Lanes) -> NDArray[np.bool_]:
        negative, magnitude = np.signbit(x), np.abs(x)
        nan, infinite, zero = np.isnan(x), np.isinf(x), x == 0
        denormal = ~zero & (magnitude < np.finfo(np.float32).tiny)
        normal = ~(nan | infinite | zero | denormal)
        kinds = [nan & False, nan]
        kinds += [each & negative for each in (infinite, normal, denormal, zero)]
        kinds += [each & ~negative for each in (zero, denormal, normal, infinite)]
        result = np.zeros(LANES, bool)
        for bit, kind in enumerate(kinds):
            result |= kind & (wanted >> np.uint32(bit) & np.uint32(1) != 0)
        return result

    return _write_mask(instruction, False, value, classes, holds)


def _select(instruction: Instruction) -> Action:
    """v_cndmask_b32 d, if_clear, if_set, mask; signs of the sources are those of binary32."""
    signed = any(text.startswith(("-v", "-s", "-|", "|")) for text in instruction.operands[1:3])
    kind = F32 if signed else U32
    clear = _source(instruction, 0, instruction.operands[1], kind, False)
    chosen = _source(instruction, 1, instruction.operands[2], kind, False)
    mask = scalar_reader(instruction.operands[3] if len(instruction.operands) > 3 else "vcc", 2)
    write = _destination(instruction, kind, False)
    return lambda wave: write(wave, np.where(lanes_of(mask(wave)), chosen(wave), clear(wave)))


def _carry(instruction: Instruction) -> Action:
    """v_add_co_u32 d, carry_out, a, b and its kin; addc and subb take a carry-in as the last operand."""
    name = instruction.mnemonic
    left = _source(instruction, 0, instruction.operands[2], U32, False)
    right = _source(instruction, 1, instruction.operands[3], U32, False)
    with_carry = name.startswith(("v_addc", "v_subb"))
    carry_in = scalar_reader(instruction.operands[4], 2) if with_carry else None
    write, write_carry = vector_writer(instruction.operands[0]), scalar_writer(instruction.operands[1])

    def action(wave: Wave) -> None:
        a, b = left(wave).astype(np.int64), right(wave).astype(np.int64)
        carry = lanes_of(carry_in(wave)).astype(np.int64) if carry_in else np.int64(0)
        if "rev" in name:
            a, b = b, a
        total = a - b - carry if name.startswith("v_sub") else a + b + carry
        write_carry(wave, bits_of((total >> 32 != 0) & wave.mask))
        write(wave, (total & 0xFFFFFFFF).astype(np.uint32))

    return action


def _wide_multiply_add(instruction: Instruction) -> Action:
    """v_mad_u64_u32 d, carry_out, a, b, c and v_mad_i64_i32; the carry is not modelled: nothing here reads it."""
    kind = np.int64 if instruction.mnemonic == "v_mad_i64_i32" else np.uint64
    source = Kind(np.dtype(np.int32 if kind is np.int64 else np.uint32))
    left, right = (vector_reader(text, source) for text in instruction.operands[2:4])
    addend = vector_reader(instruction.operands[4], U64)
    write = vector_writer(instruction.operands[0])
    return lambda wave: write(
        wave, (left(wave).astype(kind) * right(wave).astype(kind)).astype(np.uint64) + addend(wave)
    )


def _divide_scale(instruction: Instruction) -> Action:
    """v_div_scale d, vcc, a, b, c: no scaling, since v_div_fixup here divides by itself."""
    value = vector_reader(instruction.operands[2], F32)
    write, write_mask = vector_writer(instruction.operands[0]), scalar_writer(instruction.operands[1])

    def action(wave: Wave) -> None:
        write(wave, value(wave))
        write_mask(wave, 0)

    return action


def _read_first_lane(instruction: Instruction) -> Action:
    read, write = vector_reader(instruction.operands[1], U32), scalar_writer(instruction.operands[0])
    return lambda wave: write(wave, int(read(wave)[wave.active[0] if len(wave.active) else 0]))


def _read_lane(instruction: Instruction) -> Action:
    read, lane = vector_reader(instruction.operands[1], U32), scalar_reader(instruction.operands[2])
    write = scalar_writer(instruction.operands[0])
    return lambda wave: write(wave, int(read(wave)[lane(wave) % LANES]))


def _write_lane(instruction: Instruction) -> Action:
    register = parse_register(instruction.operands[0])
    if register is None:
        raise SimulationError(f"unknown destination: {instruction}")
    name, number, _ = register
    value, lane = scalar_reader(instruction.operands[1]), scalar_reader(instruction.operands[2])

    def action(wave: Wave) -> None:
        register_file(wave, name)[number, lane(wave) % LANES] = value(wave)

    return action


def _masked_bit_count(instruction: Instruction) -> Action:
    """v_mbcnt_lo / hi: bits of the mask below this lane, in its lower or upper word, plus an addend."""
    lower = "_lo_" in instruction.mnemonic
    mask, addend = vector_reader(instruction.operands[1], U32), vector_reader(instruction.operands[2], U32)
    write = vector_writer(instruction.operands[0])
    lanes = np.arange(LANES, dtype=np.uint64)
    below = (np.uint64(1) << lanes) - np.uint64(1)
    half = (below if lower else below >> np.uint64(32)).astype(np.uint32)
    return lambda wave: write(wave, np.bitwise_count(mask(wave) & half).astype(np.uint32) + addend(wave))


def _swap(instruction: Instruction) -> Action:
    left, right = (vector_reader(text, U32) for text in instruction.operands)
    write_left, write_right = (vector_writer(text) for text in instruction.operands)

    def action(wave: Wave) -> None:
        a, b = left(wave).copy(), right(wave).copy()
        write_left(wave, b)
        write_right(wave, a)

    return action


_SPECIAL: dict[str, Callable[[Instruction], Action]] = {
    "v_cndmask_b32": _select,
    "v_add_co_u32": _carry,
    "v_addc_co_u32": _carry,
    "v_sub_co_u32": _carry,
    "v_subb_co_u32": _carry,
    "v_subrev_co_u32": _carry,
    "v_subbrev_co_u32": _carry,
    "v_mad_u64_u32": _wide_multiply_add,
    "v_mad_i64_i32": _wide_multiply_add,
    "v_div_scale_f32": _divide_scale,
    "v_readfirstlane_b32": _read_first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_mbcnt_lo_u32_b32": _masked_bit_count,
    "v_mbcnt_hi_u32_b32": _masked_bit_count,
    "v_swap_b32": _swap,
}
