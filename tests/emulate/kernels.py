"""Kernels that the emulator's tests run: files in data/, with the device primitives filled in, and their manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilegen.emit.primitives import Primitive, render_primitives

_DATA = Path(__file__).parent / "data"
Facts = dict[str, Any]


def source_of(facts: Facts) -> str:
    """The emitted file of a manifest: the data file, its device primitives rendered from the templates."""
    text = (_DATA / f"{facts['kernel']}.{facts['target']}.cu").read_text(encoding="utf-8")
    wanted = [Primitive(name, tuple(parameters.items())) for name, parameters in facts["primitives"]]
    return text.replace("@PRIMITIVES@\n", render_primitives(wanted, "cuda"))


def primitives(*names: str, **parametrised: list[dict[str, Any]]) -> list[list[Any]]:
    plain: list[list[Any]] = [[name, {}] for name in names]
    return plain + [[name, values] for name, choices in parametrised.items() for values in choices]


def _tensor(name: str, shape: list[str], role: str, dtype: str = "float16") -> Facts:
    return {"name": name, "dtype": dtype, "shape": shape, "strides": None, "role": role, "zeroed": False}


def _matrix_map(name: str, rows: str, columns: str, box: list[int]) -> Facts:
    return {
        "name": name,
        "kind": "tensor_map",
        "tensor": name,
        "dtype": "float16",
        "rank": 2,
        "extents": [columns, rows],
        "strides_bytes": [f"2 * {columns}"],
        "box": box,
        "swizzle": 128,
        "oob": "zero",
    }


def _scalar(name: str, value: str, dtype: str = "int32") -> Facts:
    return {"name": name, "kind": "scalar", "dtype": dtype, "value": value}


_HOPPER = (
    "shared_storage",
    "mbarrier_init",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_wait",
    "fence_barrier_init",
    "tma_store_commit",
    "tma_store_wait_read",
    "fence_proxy_async",
    "warpgroup_arrive",
    "warpgroup_commit",
    "warpgroup_wait",
    "register_release",
    "register_acquire",
    "named_barrier_sync",
)


def matmul_relu() -> Facts:
    """C = max(A @ B, 0) by TMA and wgmma, persistent, warp-specialised: 128 x 256 x 64, 3 stages."""
    tiles = "ceildiv(M, 128) * ceildiv(N, 256)"
    return {
        "version": 1,
        "kernel": "matmul_relu",
        "target": "sm_90a",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _matrix_map("A", "M", "K", [64, 128]),
            _matrix_map("B", "K", "N", [64, 64]),
            _matrix_map("C", "M", "N", [64, 64]),
            _scalar("M", "M"),
            _scalar("N", "N"),
            _scalar("K", "K"),
        ],
        "tensors": [
            _tensor("A", ["M", "K"], "input"),
            _tensor("B", ["K", "N"], "input"),
            _tensor("C", ["M", "N"], "output"),
        ],
        "symbols": ["M", "N", "K"],
        "grid": [f"min({tiles}, multiprocessors)", "1", "1"],
        "block": [384, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 214016,
        "registers": {"entry": 168},
        "primitives": primitives(
            *_HOPPER,
            tma_load=[{"rank": 2, "multicast": False, "hint": ""}],
            tma_store=[{"rank": 2, "hint": ""}],
            descriptor=[{"swizzle": 128}],
            wgmma=[{"n": 256, "a": "f16", "d": "f32", "source": "SS"}],
            stmatrix=[{"count": 4, "transpose": False}],
        ),
    }


def _sequence_map(name: str, rows: str, heads: str, box_rows: int) -> Facts:
    """A [B, rows, heads, 128] tensor as (column, row, head, batch)."""
    return {
        "name": name,
        "kind": "tensor_map",
        "tensor": name,
        "dtype": "float16",
        "rank": 4,
        "extents": ["128", rows, heads, "B"],
        "strides_bytes": [f"{heads} * 256", "256", f"{rows} * {heads} * 256"],
        "box": [64, box_rows, 1, 1],
        "swizzle": 128,
        "oob": "zero",
    }


def attention() -> Facts:
    """Causal attention forward by TMA and wgmma, P in registers, skewed main loop."""
    queries, keys = ["B", "S_q", "H", "128"], ["B", "S_k", "H_kv", "128"]
    return {
        "version": 1,
        "kernel": "attention",
        "target": "sm_90a",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _sequence_map("Q", "S_q", "H", 128),
            _sequence_map("K", "S_k", "H_kv", 128),
            _sequence_map("V", "S_k", "H_kv", 128),
            _sequence_map("O", "S_q", "H", 64),
            {"name": "LSE", "kind": "pointer", "tensor": "LSE", "dtype": "float32", "access": "write"},
            *(_scalar(name, name) for name in ("B", "S_q", "S_k", "H", "H_kv")),
            _scalar("scale", "scale", "float32"),
            _scalar("section_heads", "B * H"),
        ],
        "tensors": [
            _tensor("Q", queries, "input"),
            _tensor("K", keys, "input"),
            _tensor("V", keys, "input"),
            _tensor("O", queries, "output"),
            _tensor("LSE", ["B", "H", "S_q"], "output", "float32"),
        ],
        "symbols": ["B", "S_q", "S_k", "H", "H_kv"],
        "grid": ["ceildiv(S_q, 128) * H * B", "1", "1"],
        "block": [384, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 197632,
        "registers": {"entry": 168},
        "primitives": primitives(
            *_HOPPER,
            "exp2_approx",
            tma_load=[{"rank": 4, "multicast": False, "hint": ""}],
            tma_store=[{"rank": 4, "hint": ""}],
            descriptor=[{"swizzle": 128}],
            wgmma=[
                {"n": 128, "a": "f16", "d": "f32", "source": "SS"},
                {"n": 128, "a": "f16", "d": "f32", "source": "RS"},
            ],
            stmatrix=[{"count": 4, "transpose": False}],
        ),
    }


def _pointer(name: str, access: str, dtype: str) -> Facts:
    return {"name": name, "kind": "pointer", "tensor": name, "dtype": dtype, "access": access}


def matmul() -> Facts:
    """C = A @ B^T by cp.async, ldmatrix and mma.sync: 64 x 64 x 32, 3 stages."""
    return {
        "version": 1,
        "kernel": "matmul",
        "target": "sm_80",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _pointer("A", "read", "float16"),
            _pointer("B", "read", "float16"),
            _pointer("C", "write", "float32"),
            *(_scalar(name, name) for name in ("M", "N", "K")),
        ],
        "tensors": [
            _tensor("A", ["M", "K"], "input"),
            _tensor("B", ["N", "K"], "input"),
            _tensor("C", ["M", "N"], "output", "float32"),
        ],
        "symbols": ["M", "N", "K"],
        "grid": ["ceildiv(N, 64)", "ceildiv(M, 64)", "1"],
        "block": [128, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 24576,
        "primitives": primitives(
            "shared_storage",
            "cp_async_commit",
            "cp_async_wait",
            cp_async=[{"variant": "cacheglobal_zfill", "hint": ""}],
            ldmatrix=[{"count": 4, "transpose": False}],
            mma_sync=[{"a": "f16"}],
        ),
    }


def faults() -> Facts:
    """One mistake for each value of the scalar `fault`."""
    total = {**_tensor("S", ["1"], "output", "float32"), "zeroed": True}
    return {
        "version": 1,
        "kernel": "faults",
        "target": "sm_80",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _pointer("X", "read", "float32"),
            _pointer("Y", "write", "float32"),
            _pointer("S", "readwrite", "float32"),
            _scalar("fault", "fault"),
            _scalar("zero", "0"),
        ],
        "tensors": [
            _tensor("X", ["128"], "input", "float32"),
            _tensor("Y", ["128"], "output", "float32"),
            total,
        ],
        "symbols": [],
        "grid": ["2", "1", "1"],
        "block": [64, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 528,
        "primitives": primitives(
            "shared_storage",
            "named_barrier_sync",
            "mbarrier_init",
            "mbarrier_arrive",
            "cp_async_commit",
            "cp_async_wait",
            cp_async=[{"variant": "cacheglobal", "hint": ""}, {"variant": "cachealways_zfill", "hint": ""}],
            ldmatrix=[{"count": 1, "transpose": False}],
        ),
    }


def _float_map(name: str, extents: list[str], strides: list[str], box: list[int]) -> Facts:
    return {
        "name": name,
        "kind": "tensor_map",
        "tensor": name,
        "dtype": "float32",
        "rank": len(box),
        "extents": extents,
        "strides_bytes": strides,
        "box": box,
        "swizzle": 0,
        "oob": "zero",
    }


def exchange() -> Facts:
    """Y = the sum over three rounds and both halves of X, counted once by each block of the cluster."""
    output = {**_tensor("Y", ["32", "32"], "output", "float32"), "zeroed": True}
    return {
        "version": 1,
        "kernel": "exchange",
        "target": "sm_90a",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _float_map("X", ["64", "32", "3"], ["256", "8192"], [32, 32, 1]),
            _float_map("Y", ["32", "32"], ["128"], [32, 32]),
        ],
        "tensors": [_tensor("X", ["3", "32", "64"], "input", "float32"), output],
        "symbols": [],
        "grid": ["2", "1", "1"],
        "block": [128, 1, 1],
        "cluster": [2, 1, 1],
        "shared_bytes": 13312,
        "primitives": primitives(
            "shared_storage",
            "cluster_rank",
            "cluster_sync",
            "mbarrier_init",
            "mbarrier_arrive_cluster",
            "mbarrier_arrive_expect_tx",
            "mbarrier_wait",
            "fence_barrier_init",
            "fence_proxy_async",
            "tma_store_commit",
            "tma_store_wait_read",
            "tma_store_wait",
            tma_load=[{"rank": 3, "multicast": True, "hint": ""}],
            tma_reduce_add=[{"rank": 2}],
        ),
    }


def wgmma_layouts(
    a_mn: bool, b_mn: bool, a_swizzle: int, b_swizzle: int, bfloat: bool, registers: bool
) -> Facts:
    """D = A @ B, 64 x 64 x 64. A lies in memory as [M, K] if K-major, [K, M] if MN-major; B as [N, K] or [K, N]."""
    dtype = "bfloat16" if bfloat else "float16"

    def square(name: str, swizzle: int) -> Facts:
        found = _matrix_map(name, "64", "64", [swizzle // 2, 64])
        return {**found, "dtype": dtype, "swizzle": swizzle}

    flags = {
        "a_mn": int(a_mn),
        "b_mn": int(b_mn),
        "a_swizzle": a_swizzle,
        "b_swizzle": b_swizzle,
        "bfloat": int(bfloat),
        "registers": int(registers),
    }
    return {
        "version": 1,
        "kernel": "wgmma_layouts",
        "target": "sm_90a",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            square("A", a_swizzle),
            square("B", b_swizzle),
            _pointer("A", "read", dtype),
            _pointer("D", "write", "float32"),
            *(_scalar(name, str(value)) for name, value in flags.items()),
        ],
        "tensors": [
            _tensor("A", ["64", "64"], "input", dtype),
            _tensor("B", ["64", "64"], "input", dtype),
            _tensor("D", ["64", "64"], "output", "float32"),
        ],
        "symbols": [],
        "grid": ["1", "1", "1"],
        "block": [128, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 17408,
        "primitives": primitives(
            "shared_storage",
            "mbarrier_init",
            "mbarrier_arrive_expect_tx",
            "mbarrier_wait",
            "fence_barrier_init",
            "warpgroup_arrive",
            "warpgroup_commit",
            "warpgroup_wait",
            tma_load=[{"rank": 2, "multicast": False, "hint": ""}],
            descriptor=[{"swizzle": swizzle} for swizzle in (128, 64, 32)],
            wgmma=[
                {"n": 64, "a": operand, "d": "f32", "source": source}
                for operand in ("f16", "bf16")
                for source in ("SS", "RS")
            ],
        ),
    }


FUNCTION_ROWS = 41  # floats
FUNCTION_BIT_ROWS = 33


def functions() -> Facts:
    """Device functions, one row of the output each."""
    return {
        "version": 1,
        "kernel": "functions",
        "target": "sm_90a",
        "language": "cuda",
        "wave_size": 32,
        "parameters": [
            _pointer("X", "read", "float32"),
            _pointer("Y", "read", "float32"),
            _pointer("I", "read", "uint32"),
            _pointer("J", "read", "uint32"),
            _pointer("F", "write", "float32"),
            _pointer("U", "write", "uint32"),
            _pointer("T", "readwrite", "float32"),
            _scalar("n", "n"),
        ],
        "tensors": [
            _tensor("X", ["n"], "input", "float32"),
            _tensor("Y", ["n"], "input", "float32"),
            _tensor("I", ["n"], "input", "uint32"),
            _tensor("J", ["n"], "input", "uint32"),
            _tensor("F", [str(FUNCTION_ROWS), "n"], "output", "float32"),
            _tensor("U", [str(FUNCTION_BIT_ROWS), "n"], "output", "uint32"),
            {**_tensor("T", ["8"], "output", "float32"), "zeroed": True},
        ],
        "symbols": ["n"],
        "grid": ["n // 64", "1", "1"],
        "block": [64, 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": 1024,
        "primitives": primitives(
            "shared_storage",
            "exp2_approx",
            "lop3",
            "byte_permute",
            ldmatrix=[
                {"count": 4, "transpose": False},
                {"count": 4, "transpose": True},
                {"count": 2, "transpose": False},
                {"count": 1, "transpose": True},
            ],
            stmatrix=[{"count": 4, "transpose": False}, {"count": 4, "transpose": True}],
            mma_sync=[{"a": "f16"}, {"a": "bf16"}],
            atomic_add=[{"type": "f32"}, {"type": "f32x2"}, {"type": "f32x4"}],
        ),
    }


def matmul_inputs(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    generator = np.random.default_rng(seed)
    return (
        generator.standard_normal((m, k)).astype(np.float16),
        generator.standard_normal((k, n)).astype(np.float16),
    )


def relative_error(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """||result - expected|| / ||expected||; NaN anywhere makes it infinite."""
    difference = np.linalg.norm(result.astype(np.float64) - expected)
    return float("inf") if np.isnan(difference) else float(difference / np.linalg.norm(expected))
