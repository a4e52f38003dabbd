"""The simulator's instructions, through kernels that a compiler made, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cdna_simulator import SimulationError, simulate

from tilegen.target import load_target
from tilegen.toolchain import compile_hip

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module", params=["gfx90a", "gfx942"])
def operations(
    request: pytest.FixtureRequest,
    require_tool: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    require_tool("hip")
    require_tool("llvm_objdump")
    path = tmp_path_factory.mktemp("operations") / f"{request.param}.hsaco"
    path.write_bytes(compile_hip((DATA / "operations.hip").read_text(), load_target(request.param)).binary)
    return path


def test_softmax(operations: Path) -> None:
    x = np.random.default_rng(0).standard_normal((10, 64)).astype(np.float32) * 5
    y = np.zeros_like(x)
    simulate(operations, "softmax", (3,), (256,), [x, y, 10])
    expected = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(axis=1, keepdims=True), rtol=2e-6)


def test_lane_patterns(operations: Path) -> None:
    x = np.arange(64, dtype=np.float32) ** 2
    y = np.zeros_like(x)
    report = simulate(operations, "row_sum", (1,), (64,), [x, y])
    np.testing.assert_array_equal(y, np.repeat(x.reshape(4, 16).sum(axis=1), 16))
    assert any(name.endswith("_dpp") for name in report.counts)


def test_integers(operations: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-(2**31), 2**31, 300).astype(np.int32) for _ in range(2))
    out = np.zeros((300, 12), np.int32)
    simulate(operations, "integers", (2,), (256,), [a, b, out, 300])
    x, y = a.astype(object), b.astype(object)
    ux, uy = np.array([v & 0xFFFFFFFF for v in x]), np.array([(v | 1) & 0xFFFFFFFF for v in y])
    odd = [v | 1 for v in y]
    quotient = [
        int(abs(p) // abs(q)) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, odd, strict=True)
    ]
    expected = np.empty((300, 12), object)
    expected[:, 0] = quotient
    expected[:, 1] = [p - q * r for p, q, r in zip(x, odd, quotient, strict=True)]
    expected[:, 2] = ux // uy
    expected[:, 3] = [(p * q) >> 17 for p, q in zip(x, y, strict=True)]
    expected[:, 4] = [(p * q) >> 40 for p, q in zip(x, y, strict=True)]
    ones = [v.bit_count() + (32 - (v | 1).bit_length()) * 64 for v in ux.tolist()]
    expected[:, 5] = [v + 4096 * ((w & -w).bit_length()) for v, w in zip(ones, odd, strict=True)]
    expected[:, 6] = [p << (q & 31) for p, q in zip(x, y, strict=True)]
    expected[:, 7] = [p >> (q & 31) for p, q in zip(x, y, strict=True)]
    expected[:, 8] = [p >> (q & 31) for p, q in zip(ux.tolist(), uy.tolist(), strict=True)]
    expected[:, 9] = x ^ y
    expected[:, 10] = [(p & 0xFF) | (q << 24) | ((p >> 8 & 0xFFFF) << 8) for p, q in zip(x, y, strict=True)]
    narrow = a.astype(np.int8).astype(np.int64) + b.astype(np.int16) - (a >> 8).astype(np.uint8)
    expected[:, 11] = narrow.astype(object)
    wrapped = np.array([[int(v) & 0xFFFFFFFF for v in row] for row in expected], np.uint64).astype(np.uint32)
    np.testing.assert_array_equal(out.view(np.uint32), wrapped)


def test_floats(operations: Path) -> None:
    x = np.concatenate(
        [np.random.default_rng(2).standard_normal(190) * 3, [0.0, -0.0, 0.5, -7.25, 1e-3]]
    ).astype(np.float32)
    out = np.zeros((len(x), 12), np.float32)
    simulate(operations, "floats", (1,), (256,), [x, out, len(x)])
    v = x.astype(np.float64)
    expected = [
        np.sqrt(np.abs(v)), 1 / np.sqrt(np.abs(v) + 1), 1 / (v * v + 1), np.clip(v, -0.5, 0.75),
        np.floor(v) + 0.25 * np.ceil(v), np.where(v > 0, v, -2 * v), np.log(np.abs(v) + 1), np.tanh(v),
        np.trunc((x * np.float32(100)).astype(np.float64)), v * v - v, np.exp(v), np.rint(v * 8),
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.stack(expected, axis=1), rtol=3e-6, atol=2e-7)


def test_halves(operations: Path) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(200).astype(np.float16) for _ in range(2))
    out, bits = np.zeros(200, np.float16), np.zeros(100, np.uint16)
    simulate(operations, "halves", (1,), (128,), [x, y, out, bits, 200])
    packed = (x.astype(np.float64) * y + x).astype(np.float16)
    np.testing.assert_array_equal(out[0::2], packed[0::2])
    second = packed[1::2].astype(np.float64) * 0.5 + x[0::2]
    np.testing.assert_allclose(out[1::2], second, rtol=2e-3, atol=2e-3)
    tripled = (x[1::2].astype(np.float32) * np.float32(3)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(bits, tripled.view(np.uint16))


def test_bytes(operations: Path) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, 101).astype(np.int8), rng.integers(0, 65536, 101).astype(np.uint16)
    out, low = np.zeros(101, np.int16), np.zeros(101, np.uint8)
    simulate(operations, "bytes", (1,), (128,), [a, b, out, low, 101])
    np.testing.assert_array_equal(out, (a.astype(np.int64) + b).astype(np.int16))
    np.testing.assert_array_equal(low, (b >> 8).astype(np.uint8))


def test_atomics(operations: Path) -> None:
    x = np.arange(300, dtype=np.float32)
    total, count, maximum = np.zeros(3, np.float32), np.zeros(1, np.int32), np.zeros(1, np.uint32)
    simulate(operations, "atomics", (2,), (256,), [total, count, maximum, x, 300], order="random", seed=5)
    np.testing.assert_array_equal(total, [x[i::3].sum() for i in range(3)])
    assert count[0] == 300
    assert maximum[0] == max(i * 7 % 1000 for i in range(300))


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_dynamic_lds(operations: Path, order: str) -> None:
    x = np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)
    y = np.zeros_like(x)
    report = simulate(
        operations,
        "transpose",
        (2, 2),
        (1024,),
        [x, y, 64],
        dynamic_lds=32 * 33 * 4,
        order=order,  # type: ignore[arg-type]
    )
    np.testing.assert_array_equal(y, x.T)
    assert report.bank_conflicts == 0


@pytest.mark.parametrize(
    ("kernel", "extent", "depth", "dtype", "start"),
    [
        ("multiply_bf16", 16, 16, ml_dtypes.bfloat16, 0),
        ("multiply_bf16_wide", 32, 8, ml_dtypes.bfloat16, 0),
        ("multiply_fp16", 16, 16, np.float16, 1),
    ],
)
def test_matrix_instructions(
    operations: Path, kernel: str, extent: int, depth: int, dtype: type, start: int
) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((extent, depth)).astype(dtype) for _ in range(2))
    lanes = [np.zeros((64, 4), dtype) for _ in range(2)]
    for lane in range(64):
        for source, target in zip((a, b), lanes, strict=True):
            target[lane] = source[lane % extent, 4 * (lane // extent) : 4 * (lane // extent) + 4]
    c = np.zeros((64, extent * extent // 64), np.float32)
    simulate(operations, kernel, (1,), (64,), [lanes[0].view(np.uint16), lanes[1].view(np.uint16), c])
    expected = a.astype(np.float64) @ b.astype(np.float64).T + start
    for lane in range(64):
        for register in range(c.shape[1]):
            row = (
                4 * (lane // 16) + register
                if extent == 16
                else 8 * (register // 4) + 4 * (lane // 32) + register % 4
            )
            assert abs(c[lane, register] - expected[row, lane % extent]) < 1e-4


def test_direct_loads_land_at_the_wait(operations: Path) -> None:
    x = np.arange(256, dtype=np.float32)
    y = np.zeros_like(x)
    simulate(operations, "direct_load", (1,), (256,), [x, y, 200, 1])
    np.testing.assert_array_equal(y, np.where(x < 200, x, 0)[np.arange(256) ^ 1])
    simulate(operations, "direct_load", (1,), (256,), [x, y, 200, 0])
    assert np.isnan(y).all()


def test_races_are_reported(operations: Path) -> None:
    with pytest.raises(SimulationError, match="LDS race"):
        simulate(operations, "race", (1,), (128,), [np.zeros(128, np.float32)])


def test_bad_addresses_are_reported(operations: Path) -> None:
    with pytest.raises(SimulationError, match="outside every allocation"):
        simulate(operations, "out_of_bounds", (1,), (64,), [np.zeros(64, np.float32)])


def test_endless_loops_are_reported(operations: Path) -> None:
    with pytest.raises(SimulationError, match="no end after the permitted instructions"):
        simulate(operations, "endless", (1,), (64,), [np.zeros(64, np.float32)], limit=10_000)


@pytest.mark.parametrize(("stride", "cycles"), [(1, 0), (2, 2), (32, 62), (33, 0)])
def test_bank_conflicts_are_counted(operations: Path, stride: int, cycles: int) -> None:
    x, y = np.arange(64 * stride, dtype=np.float32), np.zeros(64, np.float32)
    report = simulate(operations, "conflicts", (1,), (64,), [x, y, stride], dynamic_lds=4 * 64 * stride)
    np.testing.assert_array_equal(y, x[::stride])
    assert report.banks["read_b32"].conflict_cycles == cycles
    assert report.banks["write_b32"].conflict_cycles == 0


def test_private_memory_is_refused(operations: Path) -> None:
    with pytest.raises(SimulationError, match="bytes a lane in private memory"):
        simulate(operations, "private_array", (1,), (64,), [np.zeros(64, np.int32), np.zeros(64, np.int32)])


def test_wrong_arguments_are_refused(operations: Path) -> None:
    with pytest.raises(SimulationError, match="race takes 1 arguments, 2 were given"):
        simulate(operations, "race", (1,), (128,), [np.zeros(128, np.float32), 3])
    with pytest.raises(SimulationError, match="holds no kernel called nothing"):
        simulate(operations, "nothing", (1,), (64,), [])
