"""LayerNorm of the rows of a matrix: Y = (X - mean(X)) / sqrt(var(X) + epsilon) * W + B, fp16, bf16 or fp32.

One pass through memory: a row stays in registers from its first use to its store, so that the variance is taken around
the mean. Run it with `tilegen run examples/layer_norm.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

EPSILON = 1e-6


def threads_for(elements, dtype):
    """Threads that hold 128 elements each, of bf16 and fp32 64: compilers keep bf16 as fp32. From 128 to 1024, a power
    of two."""
    each = 128 if dtype == T.float16 else 64
    return min(1024, max(128, 1 << (elements // each - 1).bit_length()))


@tilegen.jit
def layer_norm(
    X, W, B, dtype: T.dtype = T.float16, rows: int = 1, stages: int = 0, threads: int = 0, min_blocks=None
):
    """A tile of `rows` at a time; with `stages`, tiles are loaded that many ahead into shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    Y = T.empty((M, N), dtype)
    turns = 2 if stages else 1
    threads = threads or threads_for(rows * N, dtype)
    with T.Kernel(T.ceildiv(M, turns * rows), threads=threads, min_blocks=min_blocks) as bx:
        x = T.alloc_fragment((rows, N), dtype)
        squares = T.alloc_fragment((rows, N), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)
        scale = T.alloc_fragment((rows,), T.float32)
        for turn in T.Pipelined(turns, num_stages=stages) if stages else (0,):
            first = (bx * turns + turn) * rows
            if stages:
                ahead = T.alloc_shared((rows, N), dtype)
                T.copy(X[first, 0], ahead)
                T.copy(ahead, x)
            else:  # L2 gives up what is written first: memory turns less often from reading to writing
                T.copy(X[first, 0], x, eviction_policy="evict_last")
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(rows):
                mean[i] /= N
            for i, j in T.Parallel(rows, N):
                squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + EPSILON)
            for i, j in T.Parallel(rows, N):
                Y[first + i, j] = (x[i, j] - mean[i]) * scale[i] * W[j] + B[j]
    return Y


kernel = layer_norm
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4
schedules = (  # for benchmarks
    *({"threads": threads} for threads in (128, 256, 512, 1024)),
    {"threads": 128, "min_blocks": 3},
    *({"stages": stages, "threads": threads} for stages in (3, 6) for threads in (128, 256, 512)),
    *(
        {"rows": rows, "stages": stages, "threads": threads}
        for rows, stages in ((2, 6), (4, 4), (8, 3))
        for threads in (256, 512)
    ),
)


def inputs(rng, rows=32768, columns=4096):
    """X, W and B."""
    shapes = ((rows, columns), (columns,), (columns,))
    return tuple(rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes)


def emulation_inputs(rng):
    """A few rows of a width that threads do not divide."""
    return inputs(rng, 5, 1000)


def reference(x, w, b):
    """The same in NumPy, in float64."""
    x, w, b = (array.astype(np.float64) for array in (x, w, b))
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPSILON) * w + b


if __name__ == "__main__":
    app(["run", __file__])
