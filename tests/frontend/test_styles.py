"""Whole programs in both styles."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from frontend_programs import attention, lazy_matmul, matmul_relu

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, For, Gemm, ParallelFor, Program, Reduce
from tilegen.ir.printer import to_text
from tilegen.ir.verify import verify
from tilegen.ir.walk import each_statement


def _checked(program: Program) -> Program:
    verify(program)
    return program


def test_gemm_of_the_quick_start() -> None:
    spec = T.Tensor((4096, 4096), T.float16)
    program = _checked(parse(matmul_relu, {"A": spec, "B": spec}, {"block_N": 256}))
    head, _, body = to_text(program).partition("\n")
    assert head.startswith("program matmul_relu (")
    assert (
        body
        == """\
  block_M = 128
  block_N = 256
  block_K = 32
  num_stages = 3
  threads = 128
  tensor A: float16[4096, 4096] global input
  tensor B: float16[4096, 4096] global input
  tensor C: float16[4096, 4096] global output
  returns C
kernel grid (16, 32) as (bx, by) threads 128:
  alloc A_shared: float16[128, 32] shared
  alloc B_shared: float16[32, 256] shared
  alloc C_local: float32[128, 256] fragment
  fill C_local[0:+128, 0:+256] = 0.0
  for k in 0 .. 128 pipelined num_stages=3:
    copy A[by * 128:+128, k * 32:+32] -> A_shared[0:+128, 0:+32]
    copy B[k * 32:+32, bx * 256:+256] -> B_shared[0:+32, 0:+256]
    gemm C_local[0:+128, 0:+256] += A_shared[0:+128, 0:+32] · B_shared[0:+32, 0:+256]
  parallel i, j in (128, 256):
    C_local[i, j] = max(C_local[i, j], 0.0)
  copy C_local[0:+128, 0:+256] -> C[by * 128:+128, bx * 256:+256]
"""
    )


def test_every_node_knows_its_source_statement() -> None:
    program = _checked(parse(matmul_relu))
    texts = {type(s).__name__: s.location.text for s in each_statement(program.kernel.body)}
    assert texts == {
        "Fill": "T.clear(C_local)",
        "For": "for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages)",
        "Gemm": "T.gemm(A_shared, B_shared, C_local)",
        "ParallelFor": "for i, j in T.Parallel(block_M, block_N)",
        "Store": "C_local[i, j] = T.max(C_local[i, j], 0)",
        "Copy": "T.copy(C_local, C[by * block_M, bx * block_N])",
    }
    assert program.location.file == "tests/frontend/frontend_programs.py"
    gemm = next(s for s in each_statement(program.kernel.body) if isinstance(s, Gemm))
    lines = Path(matmul_relu.__code__.co_filename).read_text().split("\n")
    assert lines[gemm.location.line - 1].strip() == "T.gemm(A_shared, B_shared, C_local)"


def test_extents_of_tiles_remember_the_parameters() -> None:
    program = parse(matmul_relu)
    names = [extent.name for extent in program.kernel.allocations[1].shape if isinstance(extent, Const)]
    assert names == ["block_K", "block_N"]


def test_open_extents_are_launch_arguments_in_the_order_of_const() -> None:
    program = _checked(parse(matmul_relu))
    assert [var.name for var in program.extents] == ["M", "N", "K"]
    assert all(var.role == "extent" for var in program.extents)


def test_lazy_gemm_of_tilelang() -> None:
    function = lazy_matmul(1024, 512, 256, 128, 128, 32)
    program = _checked(parse(function, parameters={"M": 1024}, style="lazy", out_idx=[-1]))
    assert program.name == "lazy_matmul"  # main is named after its factory
    assert [(b.name, b.role) for b in program.tensors] == [("A", "input"), ("B", "input"), ("C", "output")]
    assert program.outputs == ("C",)
    assert program.parameters == (("M", "1024"),)
    assert program.kernel.rasterisation is not None and program.kernel.rasterisation.panel == 10
    assert "B_shared[k, j] = B[ko * 32 + k, bx * 128 + j]" in to_text(program)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    program = _checked(parse(attention, dims={"dim": 128}, parameters={"causal": causal}))
    assert program.outputs == ("O", "LSE")
    statements = list(each_statement(program.kernel.body))
    loop = next(s for s in statements if isinstance(s, For))
    assert loop.kind == "pipelined" and loop.num_stages == 2
    assert [s.op for s in statements if isinstance(s, Reduce)] == ["max", "sum"]
    assert [s.transpose_b for s in statements if isinstance(s, Gemm)] == [True, False]
    load_k = next(s for s in statements if isinstance(s, Copy) and s.source.buffer.name == "K")
    assert load_k.source.tile == (128, 128) and load_k.source.kept == (1, 3)
    assert sum(isinstance(s, ParallelFor) for s in statements) == 7
    text = to_text(program)
    assert ("let last" in text) == causal
    assert ("key <= bx * 128 + i + seq_k - seq_q" in text) == causal


def test_generation_is_fast() -> None:
    parse(matmul_relu), parse(attention, dims={"dim": 128})
    times: dict[str, float] = {}
    for name, function, dims in (("gemm", matmul_relu, {}), ("attention", attention, {"dim": 128})):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            parse(function, dims=dims)
            best = min(best, time.perf_counter() - start)
        times[name] = best
    assert times["gemm"] <= 0.020
    assert times["attention"] <= 0.060
