"""Words on tiles: what they become."""

from __future__ import annotations

from typing import Any

import pytest
from test_generation_time import body

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.verify import verify


def test_gemm_arguments() -> None:
    def gemms(X):
        X: T.Tensor((64, 64), T.float16)
        with T.Kernel(1) as bx:
            a = T.alloc_shared((32, 64), T.float16)
            at = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((2, 16, 64), T.float16)
            c = T.alloc_fragment((32, 16), T.float32)
            T.copy(X[0, 0], a)
            T.copy(X[0, 0], at)
            T.copy(X[0, 0], b[0])
            T.gemm(
                a,
                b[0, :, :],
                c,
                False,
                True,
                T.GemmWarpPolicy.FullCol,
                clear_accum=True,
                k_pack=2,
                wg_wait=-1,
            )
            T.gemm(at, b[bx], c, transpose_A=True, transpose_B=1)
            T.copy(c, X[0, 0])

    assert body(gemms)[3:5] == [
        "gemm c[0:+32, 0:+16] = a[0:+32, 0:+64] · b[0, 0:+16, 0:+64]ᵀ policy=full_col",
        "gemm c[0:+32, 0:+16] += at[0:+64, 0:+32]ᵀ · b[bx, 0:+16, 0:+64]ᵀ",
    ]


REDUCTIONS = ("sum", "max", "min", "prod", "abssum", "absmax", "any", "all", "bitand", "bitor", "bitxor")


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op: str) -> None:
    def reduce(X, dtype: Any = T.int32):
        X: T.Tensor((64, 32), dtype)
        with T.Kernel(1) as bx:
            x = T.alloc_fragment((64, 32), dtype)
            rows = T.alloc_fragment((64,), dtype)
            kept = T.alloc_fragment((1, 32), dtype)
            T.copy(X, x)
            getattr(T, f"reduce_{op}")(x, rows)
            T.reduce(x, kept, op, dim=0, clear=True)
            T.reduce(x, rows, op, dim=-1, clear=False)
            T.copy(rows, X[0, 0:64:1]) if False else None
            X[bx, 0] = 0

    assert body(reduce)[1:4] == [
        f"reduce rows[0:+64] = {op} over axis 1 of x[0:+64, 0:+32]",
        f"reduce kept[0, 0:+32] = {op} over axis 0 of x[0:+64, 0:+32]",
        f"reduce rows[0:+64] join= {op} over axis 1 of x[0:+64, 0:+32]",
    ]


def test_reduction_of_a_vector() -> None:
    def reduce(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1):
            x = T.alloc_fragment((64,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X, x)
            T.reduce_absmax(x, total, dim=0)
            T.copy(total, X[0:1])

    assert body(reduce)[1] == "reduce total[0] = absmax over axis 0 of x[0:+64]"


def test_atomics() -> None:
    def atomics(X, C):
        X: T.Tensor((64, 64), T.float32)
        C: T.Tensor((256, 256), T.float32)
        with T.Kernel(4) as bx:
            x = T.alloc_fragment((64, 64), T.float32)
            T.copy(X, x)
            T.atomic_add(C[bx * 64, 0], x)
            T.atomic_max(C[bx * 64 : bx * 64 + 64, 64:128], x)
            for i, j in T.Parallel(64, 64):
                T.atomic_min(C[bx * 64 + i, j], x[i, j], memory_order="relaxed")
            T.atomic_add(C[0, 0], 1)

    assert body(atomics)[1:] == [
        "atomic add C[bx * 64:+64, 0:+64], x[0:+64, 0:+64]",
        "atomic max C[bx * 64:+64, 64:+64], x[0:+64, 0:+64]",
        "parallel i, j in (64, 64):",
        "  atomic min C[bx * 64 + i, j], x[i, j]",
        "atomic add C[0, 0], 1.0",
    ]


def test_loops() -> None:
    def loops(X):
        N = T.const("N")
        X: T.Tensor((64, N), T.float32)
        with T.Kernel(64, threads=64) as bx:
            for k in T.serial(2, 10, 3):
                X[bx, k] = 0
            for k in T.Serial(N):
                X[bx, k] = 0
            for k in T.unroll(4):
                X[bx, k] = 0
            for k in T.range(1, 3):
                X[bx, k] = 0
            for i, j in T.grid(2, N):
                X[i, j] = 0
            for k in T.Pipelined(1, N, num_stages=2, order=[0], stage=[0]):
                X[bx, k] = 0
            for i in T.Parallel(32):
                for j in T.Parallel(4):
                    X[i, j] = 0
            for v in T.vectorized(4):
                X[bx, v] = 0

    assert [line for line in body(loops) if not line.endswith("= 0.0")] == [
        "for k in 2 .. 10 step 3 serial:",
        "for k_1 in 0 .. N serial:",
        "for k_2 in 0 .. 4 unroll:",
        "for k_3 in 1 .. 3 serial:",
        "for i in 0 .. 2 serial:",
        "  for j in 0 .. N serial:",
        "for k_4 in 1 .. N pipelined num_stages=2 order=(0,) stage=(0,):",
        "parallel i_1, j_1 in (32, 4):",
        "for v in 0 .. 4 unroll:",
    ]


def test_persistent_loop() -> None:
    def walk(X, blocks: int = 132):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        with T.Kernel(blocks) as block:
            for bx, by in T.Persistent([T.ceildiv(M, 64), N], blocks, block, group_size=4):
                X[bx * 64, by] = 0

    assert body(walk)[0] == "persistent bx, by in ((M + 63) // 64, N):"
    raster = parse(walk).kernel.rasterisation
    assert raster is not None and raster.panel == 4


def test_kernel_attributes() -> None:
    def kernel(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(8, 4, 2, threads=[64, 1], persistent=True, cluster_dims=(2, 1), min_blocks=3) as block:
            T.use_swizzle(4, order="column")
            T.use_swizzle(8, enable=False)
            shared = T.alloc_shared(64, "float", scope="shared.dyn")
            own = T.alloc_local([4], T.int8)
            T.annotate_layout({shared: "my layout"})
            tx = T.get_thread_binding()
            own[0] = 1
            shared[tx] = own[0] + T.get_thread_binding(1)
            T.sync_threads()
            X[block[0]] = shared[T.get_thread_binding(0)] + T.get_block_binding(2)

    program = parse(kernel)
    verify(program)
    kernel_node = program.kernel
    assert [var.name for var in kernel_node.block_vars] == ["bx", "by", "bz"]
    assert (kernel_node.threads, kernel_node.persistent, kernel_node.cluster) == (64, True, (2, 1, 1))
    assert kernel_node.min_blocks == 3
    assert kernel_node.rasterisation is not None
    assert (kernel_node.rasterisation.panel, kernel_node.rasterisation.order) == (4, "column")
    assert kernel_node.annotations[0].layout == "my layout"
    assert [(b.scope, str(b.dtype), b.extents) for b in kernel_node.allocations] == [
        ("shared", "float32", (64,)),
        ("local", "int8", (4,)),
    ]
    assert body(kernel) == [
        "own[0] = 1",
        "shared[tx] = float32(own[0])",
        "sync_threads",
        "X[bx] = shared[tx] + float32(bz)",
    ]
