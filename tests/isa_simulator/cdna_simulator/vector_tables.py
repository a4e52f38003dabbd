"""What the vector ALU computes: for each mnemonic the kinds of result and sources, and a function on 64 lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.operands import F16, F32, F64, I16, I32, I64, U16, U32, U64, Kind, Lanes


@dataclass(frozen=True, slots=True)
class VectorOperation:
    """`accumulates`: the destination is the last source too (v_fmac, v_dot2c)."""

    result: Kind
    sources: tuple[Kind, ...]
    function: Callable[..., Lanes]
    accumulates: bool = False


def _shift(bits: int, count: Lanes) -> Lanes:
    return count & count.dtype.type(bits - 1)


def fused_multiply_add(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Exact product, then one rounding of the sum to binary64 and one to the result: enough for the tests here."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(a.dtype)


def _via_float64(function: Callable[[Lanes], Lanes]) -> Callable[[Lanes], Lanes]:
    return lambda a: function(a.astype(np.float64)).astype(a.dtype)


def _to_integer(low: int, high: int, dtype: type) -> Callable[[Lanes], Lanes]:
    """Truncation; NaN becomes 0, what is out of range saturates."""
    return lambda a: (
        np.clip(np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0), low, high)
        .astype(np.int64)
        .astype(dtype)
    )


def _field_unsigned(value: Lanes, offset: Lanes, width: Lanes) -> Lanes:
    return value >> _shift(32, offset) & ((np.uint32(1) << _shift(32, width)) - np.uint32(1))


def _field_signed(value: Lanes, offset: Lanes, width: Lanes) -> Lanes:
    bits = _shift(32, width).astype(np.int64)
    field = _field_unsigned(value, offset, width).astype(np.int64)
    sign = (bits > 0) & (field >> np.maximum(bits - 1, 0) & 1 == 1)
    return (field - (sign.astype(np.int64) << bits)).astype(np.int32)


def _byte_permute(high: Lanes, low: Lanes, selector: Lanes) -> Lanes:
    """Selectors 0-3 name bytes of `low`, 4-7 of `high`, 8-11 repeat sign bits, 12 is 0x00, more is 0xFF."""
    both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    result = np.zeros(len(both), np.uint32)
    for position in range(4):
        which = selector >> np.uint32(8 * position) & np.uint32(0xFF)
        byte = both >> (which & np.uint32(7)).astype(np.uint64) * np.uint64(8) & np.uint64(0xFF)
        sign_bit = np.select(
            [which == k for k in (8, 9, 10, 11)], [both >> np.uint64(s) for s in (15, 31, 47, 63)], 0
        )
        sign = np.where(sign_bit.astype(np.uint64) & np.uint64(1) != 0, 0xFF, 0)
        value = np.where(which < 8, byte, np.where(which < 12, sign, np.where(which == 12, 0, 0xFF)))
        result |= value.astype(np.uint32) << np.uint32(8 * position)
    return result


def _align(unit: int, mask: int) -> Callable[[Lanes, Lanes, Lanes], Lanes]:
    def align(high: Lanes, low: Lanes, count: Lanes) -> Lanes:
        both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        return (both >> (count & np.uint32(mask)).astype(np.uint64) * np.uint64(unit)).astype(np.uint32)

    return align


def _reverse_bits(a: Lanes) -> Lanes:
    return np.array([int(f"{int(x):032b}"[::-1], 2) for x in a], np.uint32)


def _leading_zeros(a: Lanes) -> Lanes:
    return np.array([32 - int(x).bit_length() if x else 0xFFFFFFFF for x in a], np.uint32)


def _trailing_zeros(a: Lanes) -> Lanes:
    return np.array([(int(x) & -int(x)).bit_length() - 1 if x else 0xFFFFFFFF for x in a], np.uint32)


def _bit_count(a: Lanes, b: Lanes) -> Lanes:
    return np.bitwise_count(a).astype(np.uint32) + b


def _sign_extended_24(a: Lanes) -> NDArray[np.int64]:
    low = (a & np.uint32(0xFFFFFF)).astype(np.int64)
    return low - (low >> 23 << 24)


def _round_toward_zero_f16(a: Lanes) -> NDArray[np.uint16]:
    """binary32 to binary16 by truncation, for v_cvt_pkrtz."""
    nearest = a.astype(np.float16)
    bits = nearest.view(np.uint16)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(a.astype(np.float64))
    return (bits - too_far.astype(np.uint16)).astype(np.uint16)


def _pack_rtz(a: Lanes, b: Lanes) -> Lanes:
    return _round_toward_zero_f16(a).astype(np.uint32) | _round_toward_zero_f16(b).astype(
        np.uint32
    ) << np.uint32(16)


def bfloat16_bits(a: Lanes) -> NDArray[np.uint16]:
    """binary32 to bfloat16, nearest even."""
    bits = a.view(np.uint32)
    rounded = (
        bits.astype(np.uint64) + np.uint64(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    ) >> np.uint64(16)
    return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16)


def _divide(_: Lanes, denominator: Lanes, numerator: Lanes) -> Lanes:
    """v_div_fixup ends the division sequence: the quotient, correctly rounded, is what the sequence is for."""
    return (numerator.astype(np.float64) / denominator.astype(np.float64)).astype(denominator.dtype)


def _dot2(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    left, right = (x.view(np.float16).reshape(-1, 2).astype(np.float64) for x in (a, b))
    return ((left * right).sum(axis=1) + c.astype(np.float64)).astype(np.float32)


def _dot4_signed(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    left, right = (np.ascontiguousarray(x).view(np.int8).reshape(-1, 4).astype(np.int64) for x in (a, b))
    return ((left * right).sum(axis=1) + c.astype(np.int64)).astype(np.int32)


def _fraction(a: Lanes) -> Lanes:
    return np.minimum(a - np.floor(a), np.float32(1 - 2**-24))


def _exponential(a: Lanes) -> Lanes:
    """v_exp_f32 gives 0 for what is below the normal numbers; v_exp_f16 has them all."""
    result = _via_float64(np.exp2)(a)
    return (
        result
        if a.dtype == np.float16
        else np.where(result < np.finfo(np.float32).tiny, 0, result).astype(a.dtype)
    )


_Entry = tuple[Kind, tuple[Kind, ...], Callable[..., Lanes]]
_FLOAT_BASICS: dict[str, tuple[int, Callable[..., Lanes]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "subrev": (2, lambda a, b: b - a),
    "mul": (2, lambda a, b: a * b),
    "max": (2, np.fmax),
    "min": (2, np.fmin),
    "fma": (3, fused_multiply_add),
    "mad": (3, lambda a, b, c: a * b + c),
    "fmaak": (3, fused_multiply_add),
    "fmamk": (3, fused_multiply_add),
    "max3": (3, lambda a, b, c: np.fmax(np.fmax(a, b), c)),
    "min3": (3, lambda a, b, c: np.fmin(np.fmin(a, b), c)),
    "med3": (3, lambda a, b, c: np.fmax(np.fmin(np.fmax(a, b), c), np.fmin(a, b))),
    "exp": (1, _exponential),
    "log": (1, _via_float64(np.log2)),
    "sqrt": (1, _via_float64(np.sqrt)),
    "rsq": (1, _via_float64(lambda a: 1 / np.sqrt(a))),
    "rcp": (1, _via_float64(lambda a: 1 / a)),
    "rndne": (1, np.rint),
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "trunc": (1, np.trunc),
    "fract": (1, _fraction),
    "sin": (1, _via_float64(lambda a: np.sin(2 * np.pi * a))),
    "cos": (1, _via_float64(lambda a: np.cos(2 * np.pi * a))),
    "frexp_mant": (1, lambda a: np.where(np.isfinite(a), np.frexp(a)[0], a).astype(a.dtype)),
    "div_fixup": (3, _divide),
    "div_fmas": (3, fused_multiply_add),
    "mul_legacy": (2, lambda a, b: np.where((a == 0) | (b == 0), 0, a * b).astype(a.dtype)),
}
_INTEGERS: dict[str, _Entry] = {
    "mov_b32": (U32, (U32,), lambda a: a),
    "mov_b64": (U64, (U64,), lambda a: a),
    "accvgpr_read_b32": (U32, (U32,), lambda a: a),
    "accvgpr_write_b32": (U32, (U32,), lambda a: a),
    "accvgpr_mov_b32": (U32, (U32,), lambda a: a),
    "not_b32": (U32, (U32,), lambda a: ~a),
    "bfrev_b32": (U32, (U32,), _reverse_bits),
    "ffbh_u32": (U32, (U32,), _leading_zeros),
    "ffbl_b32": (U32, (U32,), _trailing_zeros),
    "and_b32": (U32, (U32, U32), lambda a, b: a & b),
    "or_b32": (U32, (U32, U32), lambda a, b: a | b),
    "xor_b32": (U32, (U32, U32), lambda a, b: a ^ b),
    "xnor_b32": (U32, (U32, U32), lambda a, b: ~(a ^ b)),
    "lshlrev_b32": (U32, (U32, U32), lambda a, b: b << _shift(32, a)),
    "lshrrev_b32": (U32, (U32, U32), lambda a, b: b >> _shift(32, a)),
    "ashrrev_i32": (I32, (I32, I32), lambda a, b: b >> _shift(32, a)),
    "lshlrev_b64": (U64, (U32, U64), lambda a, b: b << _shift(64, a).astype(np.uint64)),
    "lshrrev_b64": (U64, (U32, U64), lambda a, b: b >> _shift(64, a).astype(np.uint64)),
    "ashrrev_i64": (I64, (U32, I64), lambda a, b: b >> _shift(64, a).astype(np.int64)),
    "add_u32": (U32, (U32, U32), lambda a, b: a + b),
    "add_i32": (U32, (U32, U32), lambda a, b: a + b),
    "sub_u32": (U32, (U32, U32), lambda a, b: a - b),
    "sub_i32": (U32, (U32, U32), lambda a, b: a - b),
    "subrev_u32": (U32, (U32, U32), lambda a, b: b - a),
    "min_i32": (I32, (I32, I32), np.minimum),
    "max_i32": (I32, (I32, I32), np.maximum),
    "min_u32": (U32, (U32, U32), np.minimum),
    "max_u32": (U32, (U32, U32), np.maximum),
    "min3_i32": (I32, (I32, I32, I32), lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "max3_i32": (I32, (I32, I32, I32), lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "min3_u32": (U32, (U32, U32, U32), lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "max3_u32": (U32, (U32, U32, U32), lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "med3_i32": (
        I32,
        (I32, I32, I32),
        lambda a, b, c: np.maximum(np.minimum(np.maximum(a, b), c), np.minimum(a, b)),
    ),
    "med3_u32": (
        U32,
        (U32, U32, U32),
        lambda a, b, c: np.maximum(np.minimum(np.maximum(a, b), c), np.minimum(a, b)),
    ),
    "and_or_b32": (U32, (U32, U32, U32), lambda a, b, c: a & b | c),
    "or3_b32": (U32, (U32, U32, U32), lambda a, b, c: a | b | c),
    "xad_u32": (U32, (U32, U32, U32), lambda a, b, c: (a ^ b) + c),
    "add3_u32": (U32, (U32, U32, U32), lambda a, b, c: a + b + c),
    "lshl_or_b32": (U32, (U32, U32, U32), lambda a, b, c: a << _shift(32, b) | c),
    "lshl_add_u32": (U32, (U32, U32, U32), lambda a, b, c: (a << _shift(32, b)) + c),
    "add_lshl_u32": (U32, (U32, U32, U32), lambda a, b, c: (a + b) << _shift(32, c)),
    "lshl_add_u64": (U64, (U64, U32, U64), lambda a, b, c: (a << b.astype(np.uint64)) + c),
    "bfe_u32": (U32, (U32, U32, U32), _field_unsigned),
    "bfe_i32": (I32, (U32, U32, U32), _field_signed),
    "bfi_b32": (U32, (U32, U32, U32), lambda a, b, c: a & b | ~a & c),
    "bfm_b32": (
        U32,
        (U32, U32),
        lambda a, b: ((np.uint32(1) << _shift(32, a)) - np.uint32(1)) << _shift(32, b),
    ),
    "perm_b32": (U32, (U32, U32, U32), _byte_permute),
    "alignbit_b32": (U32, (U32, U32, U32), _align(1, 31)),
    "alignbyte_b32": (U32, (U32, U32, U32), _align(8, 3)),
    "bcnt_u32_b32": (U32, (U32, U32), _bit_count),
    "mul_lo_u32": (U32, (U32, U32), lambda a, b: a * b),
    "mul_hi_u32": (
        U32,
        (U32, U32),
        lambda a, b: (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(np.uint32),
    ),
    "mul_hi_i32": (
        I32,
        (I32, I32),
        lambda a, b: (a.astype(np.int64) * b.astype(np.int64) >> 32).astype(np.int32),
    ),
    "mul_u32_u24": (U32, (U32, U32), lambda a, b: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF))),
    "mul_i32_i24": (
        U32,
        (U32, U32),
        lambda a, b: (_sign_extended_24(a) * _sign_extended_24(b)).astype(np.uint32),
    ),
    "mad_u32_u24": (
        U32,
        (U32, U32, U32),
        lambda a, b, c: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF)) + c,
    ),
    "mad_i32_i24": (
        U32,
        (U32, U32, U32),
        lambda a, b, c: (_sign_extended_24(a) * _sign_extended_24(b)).astype(np.uint32) + c,
    ),
    "sad_u32": (U32, (U32, U32, U32), lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
    "pack_b32_f16": (
        U32,
        (U16, U16),
        lambda a, b: a.astype(np.uint32) | b.astype(np.uint32) << np.uint32(16),
    ),
    "add_u16": (U16, (U16, U16), lambda a, b: a + b),
    "sub_u16": (U16, (U16, U16), lambda a, b: a - b),
    "subrev_u16": (U16, (U16, U16), lambda a, b: b - a),
    "mul_lo_u16": (U16, (U16, U16), lambda a, b: a * b),
    "mad_u16": (U16, (U16, U16, U16), lambda a, b, c: a * b + c),
    "min_u16": (U16, (U16, U16), np.minimum),
    "max_u16": (U16, (U16, U16), np.maximum),
    "min_i16": (I16, (I16, I16), np.minimum),
    "max_i16": (I16, (I16, I16), np.maximum),
    "lshlrev_b16": (U16, (U16, U16), lambda a, b: b << _shift(16, a)),
    "lshrrev_b16": (U16, (U16, U16), lambda a, b: b >> _shift(16, a)),
    "ashrrev_i16": (I16, (I16, I16), lambda a, b: b >> _shift(16, a)),
    "dot2_f32_f16": (F32, (U32, U32, F32), _dot2),
    "dot4_i32_i8": (I32, (U32, U32, I32), _dot4_signed),
}
_CONVERSIONS: dict[str, _Entry] = {
    "cvt_f32_i32": (F32, (I32,), lambda a: a.astype(np.float32)),
    "cvt_f32_u32": (F32, (U32,), lambda a: a.astype(np.float32)),
    "cvt_i32_f32": (I32, (F32,), _to_integer(-(2**31), 2**31 - 1, np.int32)),
    "cvt_u32_f32": (U32, (F32,), _to_integer(0, 2**32 - 1, np.uint32)),
    "cvt_f16_f32": (F16, (F32,), lambda a: a.astype(np.float16)),
    "cvt_f32_f16": (F32, (F16,), lambda a: a.astype(np.float32)),
    "cvt_f16_u16": (F16, (U16,), lambda a: a.astype(np.float16)),
    "cvt_f16_i16": (F16, (I16,), lambda a: a.astype(np.float16)),
    "cvt_u16_f16": (U16, (F16,), _to_integer(0, 2**16 - 1, np.uint16)),
    "cvt_i16_f16": (I16, (F16,), _to_integer(-(2**15), 2**15 - 1, np.int16)),
    "cvt_f64_f32": (F64, (F32,), lambda a: a.astype(np.float64)),
    "cvt_f32_f64": (F32, (F64,), lambda a: a.astype(np.float32)),
    "cvt_pkrtz_f16_f32": (U32, (F32, F32), _pack_rtz),
    "cvt_f32_ubyte0": (F32, (U32,), lambda a: (a & np.uint32(255)).astype(np.float32)),
    "cvt_f32_ubyte1": (F32, (U32,), lambda a: (a >> np.uint32(8) & np.uint32(255)).astype(np.float32)),
    "cvt_f32_ubyte2": (F32, (U32,), lambda a: (a >> np.uint32(16) & np.uint32(255)).astype(np.float32)),
    "cvt_f32_ubyte3": (F32, (U32,), lambda a: (a >> np.uint32(24)).astype(np.float32)),
    "ldexp_f32": (F32, (F32, I32), lambda a, b: np.ldexp(a, b)),
    "ldexp_f16": (F16, (F16, I16), lambda a, b: np.ldexp(a, b)),
    "rcp_iflag_f32": (F32, (F32,), _via_float64(lambda a: 1 / a)),
    "frexp_exp_i32_f32": (
        I32,
        (F32,),
        lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(np.int32),
    ),
    "add_f64": (F64, (F64, F64), lambda a, b: a + b),
    "mul_f64": (F64, (F64, F64), lambda a, b: a * b),
    "fma_f64": (F64, (F64, F64, F64), lambda a, b, c: a * b + c),
}


def _build() -> dict[str, VectorOperation]:
    operations = {
        f"v_{name}": VectorOperation(*entry) for name, entry in (*_INTEGERS.items(), *_CONVERSIONS.items())
    }
    for name, (count, function) in _FLOAT_BASICS.items():
        for suffix, kind in (("f32", F32), ("f16", F16)):
            operations[f"v_{name}_{suffix}"] = VectorOperation(kind, (kind,) * count, function)
    for suffix, kind in (("f32", F32), ("f16", F16)):
        sources = (kind, kind, kind)
        operations[f"v_fmac_{suffix}"] = VectorOperation(kind, sources, fused_multiply_add, accumulates=True)
    operations["v_mac_f32"] = VectorOperation(
        F32, (F32, F32, F32), lambda a, b, c: a * b + c, accumulates=True
    )
    operations["v_dot2c_f32_f16"] = VectorOperation(F32, (U32, U32, F32), _dot2, accumulates=True)
    operations["v_dot4c_i32_i8"] = VectorOperation(I32, (U32, U32, I32), _dot4_signed, accumulates=True)
    return operations


OPERATIONS = _build()
