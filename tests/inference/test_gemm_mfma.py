"""Gemms on CDNA's matrix cores: the lanes' elements against the ISA's formula, LDS layouts against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from layout_algebra import bank_conflicts
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment
from tilegen.inference.gemm_mfma import (
    decide,
    lane_k,
    operand_conflicts,
    operand_fragment,
    operand_layout,
    operand_transfer,
    why_not,
)
from tilegen.inference.shared import SharedLayout, Xor
from tilegen.ir.build import const
from tilegen.ir.nodes import Buffer, Gemm, GemmPolicy, Region
from tilegen.ir.types import DType, bfloat16, float16, float32
from tilegen.target import load_target

WAVE = 64
SHAPES = [
    (128, 128, 32, 128),
    (128, 128, 32, 256),
    (256, 128, 64, 256),
    (256, 256, 64, 512),
    (64, 64, 64, 256),
    (64, 256, 32, 256),
    (128, 128, 128, 256),
    (64, 64, 16, 64),
    (16, 64, 64, 64),
    (64, 80, 64, 64),
]
SMALL = [shape for shape in SHAPES if shape[0] * shape[1] <= 128 * 128]


def gemm(
    m: int,
    n: int,
    k: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    policy: GemmPolicy = "square",
    a_scope: str = "shared",
    dtype: DType = float16,
    b_scope: str = "shared",
) -> Gemm:
    def region(name: str, shape: tuple[int, int], scope: str, element: DType) -> Region:
        buffer = Buffer(name, (const(shape[0]), const(shape[1])), element, scope)  # type: ignore[arg-type]
        return Region(buffer, (const(0), const(0)), shape)

    a = region("A", (k, m) if transpose_a else (m, k), a_scope, dtype)
    b = region("B", (n, k) if transpose_b else (k, n), b_scope, dtype)
    return Gemm(a, b, region("C", (m, n), "fragment", float32), transpose_a, transpose_b, policy, False)


def decision(m: int, n: int, k: int, threads: int, target: str = "gfx942", **options: object) -> GemmDecision:
    node = gemm(m, n, k, **options)  # type: ignore[arg-type]
    assert why_not(node, threads, load_target(target)) is None
    return decide(node, threads, load_target(target))


def instruction(size: int, depth: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """D of one instruction by the ISA's formula; a and b are [lane, element], the result [lane, register]."""
    own = depth * size // WAVE
    left, right = np.zeros((size, depth)), np.zeros((depth, size))
    for lane, element in product(range(WAVE), range(own)):
        left[lane % size, own * (lane // size) + element] = a[lane, element]
        right[own * (lane // size) + element, lane % size] = b[lane, element]
    d = left @ right
    registers = size * size // WAVE
    result = np.zeros((WAVE, registers))
    for lane, r in product(range(WAVE), range(registers)):
        row = 8 * (r // 4) + 4 * (lane // 32) + r % 4 if size == 32 else 4 * (lane // 16) + r
        result[lane, r] = d[row, lane % size]
    return result


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(("m", "n", "k", "threads"), SMALL)
def test_the_instructions_compute_the_product(target: str, m: int, n: int, k: int, threads: int) -> None:
    """What lanes read, multiplied as the ISA says in the order of the lowering, is A B where the accumulator says."""
    found = decision(m, n, k, threads, target)
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-4, 5, (m, k)).astype(float), rng.integers(-4, 5, (k, n)).astype(float)
    expected = a @ b
    size, _, depth = found.instruction
    own = depth * size // WAVE
    lanes = lane_k(found)
    parts = {which: operand_fragment(found, which) for which in ("a", "b")}
    result = np.full((m, n), np.nan)
    for wave, mi, ni in product(range(threads // WAVE), range(found.repeats[0]), range(found.repeats[1])):
        d = np.zeros((WAVE, size * size // WAVE))
        for step, half in product(range(parts["a"].register_shape[1]), range(lanes // own)):
            operands = {}
            for which, repeat in (("a", mi), ("b", ni)):
                values = np.zeros((WAVE, own))
                for lane, element in product(range(WAVE), range(own)):
                    place = parts[which].coordinates(WAVE * wave + lane, (repeat, step, own * half + element))
                    values[lane, element] = a[place] if which == "a" else b[place[::-1]]
                operands[which] = values
            d += instruction(size, depth, operands["b"], operands["a"])
        for lane, register in product(range(WAVE), range(d.shape[1])):
            place = found.c.coordinates(WAVE * wave + lane, (mi, ni, register))
            assert np.isnan(result[place])
            result[place] = d[lane, register]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("n", [32, 64, 128, 96])
@pytest.mark.parametrize("rows", [16, 32])
def test_an_accumulator_is_the_next_operand(target: str, rows: int, n: int) -> None:
    """P = Q K^T becomes the A operand of P V without moving an element."""
    first = decision(2 * rows, n, 64, 128, target, transpose_b=True, policy="full_row")
    second = decision(2 * rows, 64, n, 128, target, a_scope="fragment")
    assert second.a is not None
    assert first.c.same_distribution(second.a)


def test_a_lane_holds_eight_neighbours_along_n() -> None:
    for m, n, threads in [(128, 128, 128), (256, 128, 256), (16, 64, 64), (64, 96, 192)]:
        flat = decision(m, n, 64, threads).c.normalised()
        assert flat.contiguous_registers(1) >= 8


def _stored_tile_accesses(
    layout: SharedLayout, fragment: Fragment, transposed: bool, elements: int
) -> list[list[int | None]]:
    """Byte addresses of each access of each wave, by SharedLayout.offset; outermost registers are accesses."""
    found = []
    inner = len(fragment.registers) - 1
    for wave in range(fragment.thread_count // WAVE):
        for register in fragment.each_register():
            if register[inner] != 0:
                continue
            addresses: list[int | None] = []
            for lane in range(WAVE):
                row, column = fragment.coordinates(WAVE * wave + lane, register)
                if row >= fragment.tile[0] or column >= fragment.tile[1]:
                    addresses.append(None)
                    continue
                first = layout.offset((column, row) if transposed else (row, column))
                last = (column + elements - 1, row) if transposed else (row, column + elements - 1)
                assert layout.offset(last) == first + elements - 1
                addresses.append(layout.dtype.bytes * first)
            found.append(addresses)
    return found


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "threads"), [*SMALL, (256, 128, 64, 256)])
def test_no_access_meets_a_bank_conflict(
    target: str, transpose: bool, m: int, n: int, k: int, threads: int
) -> None:
    """Counted again from SharedLayout.offset with the algebra's counter: reads of operands, stores of tiles."""
    machine = load_target(target)
    node = gemm(m, n, k, transpose_a=not transpose, transpose_b=transpose)
    found = decide(node, threads, machine)
    for which, region, transposes in (("a", node.a, not transpose), ("b", node.b, not transpose)):
        layout = operand_layout(found, which, region.buffer, machine)
        transfer = operand_transfer(found, which, region.buffer, machine)
        assert layout.transposed == transfer.transposes == transposes
        reads = operand_fragment(found, which)
        stores = transfer.fragment
        if transposes:
            blocks, run, piece = stores.registers
            turned = Fragment(stores.tile, stores.threads, (blocks, piece, run))
            stores = turned.project((1, 0), stores.tile[::-1])
        lost = 0
        for kind, fragment in (("load", reads), ("store", stores)):
            elements = fragment.register_shape[-1]
            phases = machine.shared_phases(kind, 2 * elements)
            for addresses in _stored_tile_accesses(layout, fragment, transposes, elements):
                lost += bank_conflicts(addresses, 2 * elements, machine.limits.banks, phases)
        assert lost == operand_conflicts(found, which, layout, transfer, machine)
        if k >= 32 and transfer.fragment.exact:
            assert lost == 0


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "threads"), SMALL)
def test_layouts_and_transfers_reach_each_element_once(
    transpose: bool, m: int, n: int, k: int, threads: int
) -> None:
    machine = load_target("gfx942")
    node = gemm(m, n, k, transpose_a=transpose, transpose_b=not transpose)
    found = decide(node, threads, machine)
    for which, region in (("a", node.a), ("b", node.b)):
        shape = region.buffer.extents
        layout = operand_layout(found, which, region.buffer, machine)
        offsets = [layout.offset(place) for place in product(*map(range, shape))]
        assert len(set(offsets)) == len(offsets)
        assert max(offsets) < layout.elements
        fragment = operand_transfer(found, which, region.buffer, machine).fragment
        carried = [
            fragment.coordinates(thread, register)
            for thread in range(threads)
            for register in fragment.each_register()
        ]
        inside = [place for place in carried if place[0] < shape[0] and place[1] < shape[1]]
        assert sorted(inside) == sorted(product(*map(range, shape)))


def test_xors_beyond_a_row_move_rows() -> None:
    layout = SharedLayout((64, 32), float16, 32, (Xor(8, 8), Xor(2, 2)))
    assert layout.row_xors == (Xor(32, 2),)
    assert layout.chunk_xors == (Xor(8, 4), Xor(2, 2))
    offsets = {layout.offset(place) for place in product(range(64), range(32))}
    assert offsets == set(range(64 * 32))


@pytest.mark.parametrize(
    ("node", "threads", "reason"),
    [
        (gemm(128, 128, 32), 96, "whole waves"),
        (gemm(128, 128, 20), 128, "8 columns"),
        (gemm(24, 64, 32), 64, "cannot share a tile"),
        (gemm(256, 256, 64), 64, "accumulation registers"),
        (gemm(64, 64, 32, dtype=float32), 64, "no form"),
    ],
)
def test_reasons(node: Gemm, threads: int, reason: str) -> None:
    found = why_not(node, threads, load_target("gfx942"))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("turned", [False, True])
def test_operands_in_registers_lie_as_lanes_read_them_from_lds(turned: bool) -> None:
    node = gemm(64, 64, 64, turned, turned, a_scope="fragment", b_scope="fragment")
    made = decide(node, 128, load_target("gfx942"))
    assert made.a is not None and made.b is not None
    assert (made.a_source, made.b_source) == ("register", "register")
    for which, held, is_turned in (("a", made.a, turned), ("b", made.b, not turned)):
        read = operand_fragment(made, which)
        assert held.tile == (read.tile[::-1] if is_turned else read.tile)
        for thread, register in product((0, 5, 63, 100), read.each_register()):
            place = read.coordinates(thread, register)
            assert held.coordinates(thread, register) == (place[::-1] if is_turned else place)


def test_policies_and_instructions() -> None:
    assert decision(128, 128, 32, 256, policy="full_row").warps == (4, 1)
    assert decision(128, 128, 32, 256, policy="full_col").warps == (1, 4)
    assert decision(256, 128, 64, 256).warps == (2, 2)
    assert decision(128, 128, 32, 256).instruction == (32, 32, 8)
    assert decision(128, 128, 32, 256, "gfx950").instruction == (32, 32, 16)
    assert decision(16, 128, 64, 128, "gfx950").instruction == (16, 16, 32)
    assert decision(128, 128, 32, 256, dtype=bfloat16).atom.endswith("bf16")
