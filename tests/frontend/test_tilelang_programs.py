"""Programs in the form that TileLang's users write them, with the import changed."""

# Names and branches as kernels' authors write them.

from __future__ import annotations

from typing import Any

from test_generation_time import body

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.nodes import AtomicTile, Gemm, ParallelFor, Persistent
from tilegen.ir.printer import buffer_text, to_text
from tilegen.ir.verify import verify
from tilegen.ir.walk import each_statement


def test_attention_with_macros_in_a_factory() -> None:
    def flashattn(
        batch: int, heads: int, seq_len: int, dim: int, is_causal: bool, block_M: int, block_N: int
    ) -> Any:
        scale = (1.0 / dim) ** 0.5 * 1.44269504
        shape = [batch, seq_len, heads, dim]
        dtype, accum_dtype = "float16", "float"

        @T.macro
        def MMA0(
            K: T.Tensor(shape, dtype),
            Q_shared: T.SharedBuffer([block_M, dim], dtype),
            K_shared: T.SharedBuffer([block_N, dim], dtype),
            acc_s: T.FragmentBuffer([block_M, block_N], accum_dtype),
            k: T.int32,
            bx: T.int32,
            by: T.int32,
            bz: T.int32,
        ):
            T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
            if is_causal:
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.if_then_else(
                        bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype)
                    )
            else:
                T.clear(acc_s)
            T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

        @T.prim_func
        def main(
            Q: T.Tensor(shape, dtype),
            K: T.Tensor(shape, dtype),
            V: T.Tensor(shape, dtype),
            Output: T.Tensor(shape, dtype),
        ):
            with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
                Q_shared = T.alloc_shared([block_M, dim], dtype)
                K_shared = T.alloc_shared([block_N, dim], dtype)
                V_shared = T.alloc_shared([block_N, dim], dtype)
                acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
                acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
                acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
                scores_max = T.alloc_fragment([block_M], accum_dtype)
                scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
                scores_scale = T.alloc_fragment([block_M], accum_dtype)
                scores_sum = T.alloc_fragment([block_M], accum_dtype)
                logsum = T.alloc_fragment([block_M], accum_dtype)

                T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
                T.fill(acc_o, 0)
                T.fill(logsum, 0)
                T.fill(scores_max, -T.infinity(accum_dtype))
                loop_range = (
                    T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                    if is_causal
                    else T.ceildiv(seq_len, block_N)
                )
                for k in T.Pipelined(loop_range, num_stages=1):
                    MMA0(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                    T.copy(scores_max, scores_max_prev)
                    T.fill(scores_max, -T.infinity(accum_dtype))
                    T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                        scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                    T.reduce_sum(acc_s, scores_sum, dim=1)
                    for i in T.Parallel(block_M):
                        logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                    T.copy(acc_s, acc_s_cast)
                    for i, j in T.Parallel(block_M, dim):
                        acc_o[i, j] *= scores_scale[i]
                    T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] /= logsum[i]
                T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

        return main

    for causal in (False, True):
        program = parse(flashattn(2, 16, 1000, 128, causal, 128, 64), out_idx=[3])
        verify(program)
        assert program.name == "flashattn" and program.outputs == ("Output",)
        gemms = [s for s in each_statement(program.kernel.body) if isinstance(s, Gemm)]
        assert [(s.extents, s.policy) for s in gemms] == [
            ((128, 64, 128), "full_row"),
            ((128, 128, 64), "full_row"),
        ]
        assert ("let loop_range" in to_text(program)) == causal


def test_split_k() -> None:
    def split(A, B, C, block_M: int = 128, block_N: int = 128, block_K: int = 32, split_k: int = 4):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], T.float16]
        B: T.Tensor[[K, N], T.float16]
        C: T.Tensor[[M, N], T.float32]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), A.dtype)
            B_shared = T.alloc_shared((block_K, block_N), B.dtype)
            C_local = T.alloc_fragment((block_M, block_N), C.dtype)
            T.clear(C_local)
            splitK = K // split_k
            for ko in T.Pipelined(T.ceildiv(splitK, block_K), num_stages=0):
                T.copy(A[by * block_M, bz * splitK + ko * block_K], A_shared)
                T.copy(B[bz * splitK + ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    program = parse(split)
    verify(program)
    assert buffer_text(program.tensors[2]) == "C: float32[M, N] global inout"
    assert isinstance(program.kernel.body[-1], AtomicTile)
    assert "let splitK: int32 = K // 4" in body(split)


def test_persistent_gemm() -> None:
    def persistent(A, B, sm_num: int = 132, block: int = 128):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.bfloat16)
        B: T.Tensor((N, K), T.bfloat16)
        C = T.empty((M, N), T.bfloat16)
        with T.Kernel(sm_num, threads=256) as (block_id):
            A_shared = T.alloc_shared((block, 64), T.bfloat16)
            B_shared = T.alloc_shared((block, 64), T.bfloat16)
            C_local = T.alloc_fragment((block, block), T.float32)
            for bx, by in T.Persistent([T.ceildiv(M, block), T.ceildiv(N, block)], sm_num, block_id):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                    T.copy(A[bx * block, k * 64], A_shared)
                    T.copy(B[by * block, k * 64], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C[bx * block, by * block])
        return C

    program = parse(persistent)
    verify(program)
    loop = program.kernel.body[0]
    assert isinstance(loop, Persistent) and [var.name for var in loop.vars] == ["bx", "by"]


def test_rms_norm_and_element_wise() -> None:
    @T.prim_func
    def rms_norm(A: T.Tensor((8192, 4096), "float"), B: T.Tensor((8192, 4096), "float")):
        with T.Kernel(T.ceildiv(8192, 4), threads=128) as bx:
            A_shared = T.alloc_shared((4, 4096), "float")
            A_pow_local = T.alloc_fragment((4, 4096), "float")
            A_local = T.alloc_fragment((4, 4096), "float")
            A_powsum = T.alloc_fragment((4,), "float")
            T.copy(A[bx * 4 : (bx + 1) * 4, :], A_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(4, 4096):
                A_pow_local[i, j] = A_local[i, j] * A_local[i, j]
            T.reduce_sum(A_pow_local, A_powsum, dim=1)
            for i in T.Parallel(4):
                A_powsum[i] = T.rsqrt(A_powsum[i] / 4096 + 1e-12)
            for i, j in T.Parallel(4, 4096):
                A_local[i, j] *= A_powsum[i]
            T.copy(A_local, B[bx * 4 : (bx + 1) * 4, :])

    program = parse(rms_norm, out_idx=[-1])
    verify(program)
    assert sum(isinstance(s, ParallelFor) for s in program.kernel.body) == 3

    def add(A, B, block_M: int = 32, block_N: int = 128):
        M, N = T.const("M, N")
        A: T.Tensor((M, N), T.float32)
        B: T.Tensor((M, N), T.float32)
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
            for local_y, local_x in T.Parallel(block_M, block_N):
                y = by * block_M + local_y
                x = bx * block_N + local_x
                C[y, x] = A[y, x] + B[y, x]
        return C

    assert body(add) == [
        "parallel local_y, local_x in (32, 128):",
        "  let y: int32 = by * 32 + local_y",
        "  let x: int32 = bx * 128 + local_x",
        "  C[y, x] = A[y, x] + B[y, x]",
    ]


def test_dequantised_weights() -> None:
    def dequant(A, W, scales, block_M: int = 64, block_N: int = 64, block_K: int = 64, group: int = 64):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        W: T.Tensor((N, K // 8), T.uint32)
        scales: T.Tensor((N, K // group), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            W_shared = T.alloc_shared((block_N, block_K // 8), T.uint32)
            W_local = T.alloc_fragment((block_N, block_K), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * (block_K // 8)], W_shared)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (W_shared[i, j // 8] >> (j % 8 * 4)) & 0xF
                    W_local[i, j] = (nibble.astype(T.float16) - 8) * scales[bx * block_N + i, k]
                T.gemm(A_shared, W_local, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])
        return C

    lines = body(dequant)
    assert "    let nibble: uint32 = W_shared[i, j // 8] >> j % 8 * 4 & 15" in lines
    assert "    W_local[i, j] = (float16(nibble) - 8.0) * scales[bx * 64 + i, k]" in lines
