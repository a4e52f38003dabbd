"""The rules of the HIP primitives, in the order in which a file lists them; texts in templates/hip/primitives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tilegen.atoms import MmaAtom
from tilegen.emit.primitive_rules import Rule, Value, Values, requiring
from tilegen.model.primitive_names import int4_function
from tilegen.target import Target, load_target, target_names

_WIDTHS: tuple[Value, ...] = (16, 8, 4, 2)
_CARRIERS = {16: "u32x4", 8: "u32x2", 4: "u32", 2: "u16"}
_SUFFIXES = {16: "x4", 8: "x2", 4: "", 2: ""}
_TYPES = {"float16": "fp16", "bfloat16": "bf16"}
_NATIVE = {"float16": "_Float16", "bfloat16": "__bf16"}
_MFMA: tuple[Value, ...] = tuple(
    f"mfma_f32_{shape}_{dtype}"
    for shape in ("32x32x8", "16x16x16", "32x32x16", "16x16x32")
    for dtype in ("f16", "bf16")
)
_RESOURCE = requiring("make_buffer_resource")


@cache
def _targets() -> tuple[Target, ...]:
    found = (load_target(name) for name in target_names())
    return tuple(target for target in found if target.has("mfma"))


@cache
def _atoms() -> dict[str, MmaAtom]:
    return {atom.name: atom for target in _targets() for atom in target.mma_atoms}


def _isa(values: Values) -> Mapping[str, object]:
    return {"isa": "CDNA"}


def _bits(values: Values) -> Mapping[str, object]:
    size = int(values["bytes"])
    return {
        "isa": "CDNA",
        "bits": 8 * size,
        "carrier": _CARRIERS[size],
        "instruction": f"dword{_SUFFIXES[size]}",
    }


def _masks(values: Values) -> Mapping[str, object]:
    target = _targets()[0]
    kinds = ("ds_read", "ds_write", "vmem_read", "mfma")
    return {kind: f"0x{target.schedule_mask(kind):03x}" for kind in kinds}


def _mfma(values: Values) -> Mapping[str, object]:
    """What the text of a matrix instruction needs: operand and accumulator types, and its rows of C in words."""
    atom = _atoms()[str(values["atom"])]
    own = atom.m * atom.k // 64
    registers = atom.m * atom.n // 64
    native = str(atom.parameter("vector"))
    row = f"4 (l / {atom.m}) + r" if registers == 4 else f"8 (r / 4) + 4 (l / {atom.m}) + r % 4"
    return {
        "isa": "CDNA",
        "builtin": atom.parameter("builtin"),
        "m": atom.m,
        "k": atom.k,
        "own": own,
        "registers": registers,
        "row": row,
        "operand": f"{_TYPES[atom.a.dtype]}x{own}",
        "element": _TYPES[atom.a.dtype],
        "accumulator": f"fp32x{registers}",
        "carrier": "" if native == _NATIVE[atom.a.dtype] else native,
    }


def _int4(values: Values) -> Mapping[str, object]:
    return {"function": int4_function("fp16x2", values["apart"])}


RULES: tuple[Rule, ...] = (
    Rule("shared_storage"),
    Rule("make_buffer_resource", context=_isa),
    Rule("buffer_load", (("bytes", _WIDTHS),), _RESOURCE, _bits),
    Rule("buffer_store", (("bytes", _WIDTHS),), _RESOURCE, _bits),
    Rule("buffer_load_lds", (("bytes", (16, 4)),), _RESOURCE, _bits),
    Rule("wait_loads"),
    Rule("halves", (("type", ("fp16", "bf16")),)),
    Rule("mfma", (("atom", _MFMA),), context=_mfma),
    Rule("hold_accumulators", (("registers", (16, 4)),)),
    Rule("block_sync_lds", context=_isa),
    Rule("wave_sync_lds", context=_isa),
    Rule("schedule", context=_masks),
    Rule("exp2_approx", context=_isa),
    Rule("atomic_add", (("type", ("f32", "f16x2", "bf16x2")),), context=_isa),
    Rule("atomic_extreme", (("op", ("max", "min")), ("type", ("f32",)))),
    Rule("count_in"),
    Rule("int4_pair", (("type", ("f16",)), ("apart", (16, 4))), context=_int4),
)
