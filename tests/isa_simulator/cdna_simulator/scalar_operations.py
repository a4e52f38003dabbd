"""Scalar instructions: SOP1, SOP2, SOPC, SOPK, and scalar memory. Values are unsigned Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cdna_simulator.code_object import Instruction
from cdna_simulator.operands import scalar_reader, scalar_writer
from cdna_simulator.wave import Wave

Action = Callable[[Wave], object]
_MASK32 = 0xFFFFFFFF


def signed(value: int, bits: int = 32) -> int:
    """Two's complement."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def _overflows(value: int) -> bool:
    return not -(1 << 31) <= value < 1 << 31


def _bit_field(value: int, control: int, bits: int) -> int:
    offset, width = control & (bits - 1), control >> 16 & 127
    return value >> offset & ((1 << width) - 1)


def _reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _first_one_low(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else -1


def _first_one_high(value: int, bits: int) -> int:
    return bits - value.bit_length() if value else -1


# Results that set SCC when they are not 0; bits of the sources in the name.
_NONZERO: dict[str, Callable[..., int]] = {
    "s_and": lambda a, b: a & b,
    "s_or": lambda a, b: a | b,
    "s_xor": lambda a, b: a ^ b,
    "s_andn2": lambda a, b: a & ~b,
    "s_orn2": lambda a, b: a | ~b,
    "s_nand": lambda a, b: ~(a & b),
    "s_nor": lambda a, b: ~(a | b),
    "s_xnor": lambda a, b: ~(a ^ b),
    "s_not": lambda a: ~a,
    "s_bcnt1_i32": lambda a: a.bit_count(),
}
# Results that leave SCC alone.
_PLAIN: dict[str, Callable[..., int]] = {
    "s_mov_b32": lambda a: a,
    "s_mov_b64": lambda a: a,
    "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "s_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "s_bfm_b64": lambda a, b: ((1 << (a & 63)) - 1) << (b & 63),
    "s_brev_b32": lambda a: _reverse(a, 32),
    "s_brev_b64": lambda a: _reverse(a, 64),
    "s_ff1_i32_b32": _first_one_low,
    "s_ff1_i32_b64": _first_one_low,
    "s_flbit_i32_b32": lambda a: _first_one_high(a, 32),
    "s_flbit_i32_b64": lambda a: _first_one_high(a, 64),
    "s_sext_i32_i8": lambda a: signed(a, 8),
    "s_sext_i32_i16": lambda a: signed(a, 16),
    "s_pack_ll_b32_b16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
    "s_pack_lh_b32_b16": lambda a, b: a & 0xFFFF | b & 0xFFFF0000,
    "s_pack_hh_b32_b16": lambda a, b: a >> 16 | b & 0xFFFF0000,
}
# Results with their own SCC.
_WITH_SCC: dict[str, Callable[..., tuple[int, bool]]] = {
    "s_add_u32": lambda a, b: (a + b, a + b > _MASK32),
    "s_sub_u32": lambda a, b: (a - b, a < b),
    "s_add_i32": lambda a, b: (a + b, _overflows(signed(a) + signed(b))),
    "s_sub_i32": lambda a, b: (a - b, _overflows(signed(a) - signed(b))),
    "s_min_i32": lambda a, b: (min(signed(a), signed(b)), signed(a) < signed(b)),
    "s_max_i32": lambda a, b: (max(signed(a), signed(b)), signed(a) > signed(b)),
    "s_min_u32": lambda a, b: (min(a, b), a < b),
    "s_max_u32": lambda a, b: (max(a, b), a > b),
    "s_lshl1_add_u32": lambda a, b: ((a << 1) + b, (a << 1) + b > _MASK32),
    "s_lshl2_add_u32": lambda a, b: ((a << 2) + b, (a << 2) + b > _MASK32),
    "s_lshl3_add_u32": lambda a, b: ((a << 3) + b, (a << 3) + b > _MASK32),
    "s_lshl4_add_u32": lambda a, b: ((a << 4) + b, (a << 4) + b > _MASK32),
    "s_abs_i32": lambda a: (abs(signed(a)), signed(a) != 0),
}
_NONZERO_SIZED: dict[str, Callable[..., int]] = {
    "s_lshl_b32": lambda a, b: a << (b & 31),
    "s_lshl_b64": lambda a, b: a << (b & 63),
    "s_lshr_b32": lambda a, b: a >> (b & 31),
    "s_lshr_b64": lambda a, b: a >> (b & 63),
    "s_ashr_i32": lambda a, b: signed(a) >> (b & 31),
    "s_ashr_i64": lambda a, b: signed(a, 64) >> (b & 63),
    "s_bfe_u32": lambda a, b: _bit_field(a, b, 32),
    "s_bfe_u64": lambda a, b: _bit_field(a, b, 64),
    "s_bfe_i32": lambda a, b: signed(_bit_field(a, b, 32), max(b >> 16 & 127, 1)),
    "s_bfe_i64": lambda a, b: signed(_bit_field(a, b, 64), max(b >> 16 & 127, 1)),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def decode_scalar(instruction: Instruction) -> Action | None:
    """The action of a scalar instruction; None when it is none, or unknown."""
    name = instruction.mnemonic
    for table, form in ((_PLAIN, _plain), (_NONZERO_SIZED, _nonzero)):
        if name in table:
            return form(instruction, table[name])
    if name in _WITH_SCC:
        return _with_scc(instruction, _WITH_SCC[name])
    stem = name.rpartition("_")[0] if name[-4:] in ("_b32", "_b64") else name
    if stem in _NONZERO:
        return _nonzero(instruction, _NONZERO[stem])
    if name.startswith(("s_cmp_", "s_cmpk_")):
        return _compare(instruction)
    special = _SPECIAL.get(name)
    if special:
        return special(instruction)
    if name.startswith(("s_load_dword", "s_buffer_load_dword")):
        return _load(instruction)
    return None


def _source_words(instruction: Instruction, position: int) -> int:
    """Words of a source: 64-bit names take pairs, but a shift count or a field control is one word."""
    name = instruction.mnemonic
    if position > 0 and name.startswith(("s_lshl_", "s_lshr_", "s_ashr_", "s_bfe_", "s_bfm_")):
        return 1
    return 2 if name.endswith("64") else 1


def _readers(instruction: Instruction) -> list[Callable[[Wave], int]]:
    sources = instruction.operands[1:]
    return [scalar_reader(text, _source_words(instruction, i)) for i, text in enumerate(sources)]


def _result_mask(instruction: Instruction) -> int:
    name = instruction.mnemonic
    wide = name.endswith("64") and not name.startswith(("s_ff1", "s_flbit", "s_bcnt1"))
    return (1 << 64) - 1 if wide else _MASK32


def _plain(instruction: Instruction, function: Callable[..., int]) -> Action:
    sources, write, mask = (
        _readers(instruction),
        scalar_writer(instruction.operands[0]),
        _result_mask(instruction),
    )
    return lambda wave: write(wave, function(*(read(wave) for read in sources)) & mask)


def _nonzero(instruction: Instruction, function: Callable[..., int]) -> Action:
    sources, write, mask = (
        _readers(instruction),
        scalar_writer(instruction.operands[0]),
        _result_mask(instruction),
    )

    def action(wave: Wave) -> None:
        result = function(*(read(wave) for read in sources)) & mask
        write(wave, result)
        wave.scc = result != 0

    return action


def _with_scc(instruction: Instruction, function: Callable[..., tuple[int, bool]]) -> Action:
    sources, write = _readers(instruction), scalar_writer(instruction.operands[0])

    def action(wave: Wave) -> None:
        result, scc = function(*(read(wave) for read in sources))
        write(wave, result & _MASK32)
        wave.scc = scc

    return action


def _compare(instruction: Instruction) -> Action:
    """s_cmp_lt_i32, s_cmpk_lg_u32, s_cmp_eq_u64 ..."""
    _, _, relation, kind = instruction.mnemonic.split("_")
    holds = _COMPARE[relation]
    words = 2 if kind.endswith("64") else 1
    left, right = (scalar_reader(text, words) for text in instruction.operands)
    if instruction.mnemonic.startswith("s_cmpk"):
        constant = int(instruction.operands[1], 0)
        constant = signed(constant, 16) & _MASK32 if kind == "i32" else constant & 0xFFFF
        right = lambda wave: constant  # noqa: E731
    sign = kind[0] == "i"

    def action(wave: Wave) -> None:
        a, b = left(wave), right(wave)
        wave.scc = holds(signed(a, 32 * words), signed(b, 32 * words)) if sign else holds(a, b)

    return action


def _carry(instruction: Instruction) -> Action:
    first, second = _readers(instruction)
    write = scalar_writer(instruction.operands[0])
    subtract = instruction.mnemonic == "s_subb_u32"

    def action(wave: Wave) -> None:
        a, b, carry = first(wave), second(wave), int(wave.scc)
        result = a - b - carry if subtract else a + b + carry
        write(wave, result & _MASK32)
        wave.scc = not 0 <= result <= _MASK32

    return action


def _select(instruction: Instruction) -> Action:
    first, second = _readers(instruction)
    write = scalar_writer(instruction.operands[0])
    return lambda wave: write(wave, first(wave) if wave.scc else second(wave))


def _conditional_move(instruction: Instruction) -> Action:
    (source,) = _readers(instruction)
    write = scalar_writer(instruction.operands[0])
    return lambda wave: write(wave, source(wave)) if wave.scc else None


def _immediate(instruction: Instruction) -> Action:
    """s_movk_i32, s_addk_i32, s_mulk_i32: a signed 16-bit constant."""
    constant = signed(int(instruction.operands[1], 0), 16)
    read, write = scalar_reader(instruction.operands[0]), scalar_writer(instruction.operands[0])
    name = instruction.mnemonic

    def action(wave: Wave) -> None:
        if name == "s_movk_i32":
            write(wave, constant & _MASK32)
        elif name == "s_mulk_i32":
            write(wave, read(wave) * constant & _MASK32)
        else:
            total = signed(read(wave)) + constant
            write(wave, total & _MASK32)
            wave.scc = _overflows(total)

    return action


def _save_exec(instruction: Instruction) -> Action:
    """s_and_saveexec_b64 and its kin: the old EXEC is saved, the new one is a combination with the source."""
    combine: dict[str, Callable[[int, int], int]] = {
        "s_and_saveexec_b64": lambda source, old: source & old,
        "s_or_saveexec_b64": lambda source, old: source | old,
        "s_xor_saveexec_b64": lambda source, old: source ^ old,
        "s_andn2_saveexec_b64": lambda source, old: source & ~old,
        "s_andn1_saveexec_b64": lambda source, old: ~source & old,
    }
    read = scalar_reader(instruction.operands[1], 2)
    write = scalar_writer(instruction.operands[0])
    function = combine[instruction.mnemonic]

    def action(wave: Wave) -> None:
        source, old = read(wave), wave.exec
        write(wave, old)
        wave.set_exec(function(source, old) & 0xFFFFFFFFFFFFFFFF)
        wave.scc = wave.exec != 0

    return action


def _bit_test(instruction: Instruction) -> Action:
    wide = instruction.mnemonic.endswith("64")
    value, bit = (
        scalar_reader(instruction.operands[0], 2 if wide else 1),
        scalar_reader(instruction.operands[1]),
    )
    wanted = 1 if "bitcmp1" in instruction.mnemonic else 0
    limit = 63 if wide else 31

    def action(wave: Wave) -> None:
        wave.scc = value(wave) >> (bit(wave) & limit) & 1 == wanted

    return action


def _bit_set(instruction: Instruction) -> Action:
    wide = instruction.mnemonic.endswith("64")
    target, bit = instruction.operands
    read, write, position = scalar_reader(target, 2 if wide else 1), scalar_writer(target), scalar_reader(bit)
    one = "bitset1" in instruction.mnemonic

    def action(wave: Wave) -> None:
        flag = 1 << (position(wave) & (63 if wide else 31))
        write(wave, read(wave) | flag if one else read(wave) & ~flag)

    return action


def _load(instruction: Instruction) -> Action:
    """s_load_dwordxN: N words from base + offset. Word-aligned by definition."""
    size = 4 * int(instruction.mnemonic.rpartition("dword")[2].lstrip("x") or 1)
    write = scalar_writer(instruction.operands[0])
    base, offset = scalar_reader(instruction.operands[1], 2), scalar_reader(instruction.operands[2])
    buffer = instruction.mnemonic.startswith("s_buffer")
    extra = instruction.modifier("offset")

    def action(wave: Wave) -> None:
        start = base(wave) & ((1 << 48) - 1) if buffer else base(wave)
        address = np.array([start + offset(wave) + extra], np.uint64)
        write(wave, int.from_bytes(wave.memory.load(address, size).tobytes(), "little"))

    return action


_SPECIAL: dict[str, Callable[[Instruction], Action]] = {
    "s_addc_u32": _carry,
    "s_subb_u32": _carry,
    "s_cselect_b32": _select,
    "s_cselect_b64": _select,
    "s_cmov_b32": _conditional_move,
    "s_cmov_b64": _conditional_move,
    "s_movk_i32": _immediate,
    "s_addk_i32": _immediate,
    "s_mulk_i32": _immediate,
    "s_and_saveexec_b64": _save_exec,
    "s_or_saveexec_b64": _save_exec,
    "s_xor_saveexec_b64": _save_exec,
    "s_andn2_saveexec_b64": _save_exec,
    "s_andn1_saveexec_b64": _save_exec,
    "s_bitcmp0_b32": _bit_test,
    "s_bitcmp1_b32": _bit_test,
    "s_bitcmp0_b64": _bit_test,
    "s_bitcmp1_b64": _bit_test,
    "s_bitset0_b32": _bit_set,
    "s_bitset1_b32": _bit_set,
    "s_bitset0_b64": _bit_set,
    "s_bitset1_b64": _bit_set,
}
