"""RMSNorm of the rows of a matrix: Y = X / sqrt(mean(X²) + epsilon) * W, fp16, bf16 or fp32.

One pass through memory: a row stays in registers from its first use to its store. Run it with
`tilegen run examples/rms_norm.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

EPSILON = 1e-6


def threads_for(elements):
    """Threads that hold 64 elements each; from 128 to 1024, a power of two."""
    return min(1024, max(128, 1 << (elements // 64 - 1).bit_length()))


@tilegen.jit
def rms_norm(X, W, dtype: T.dtype = T.float16, rows: int = 1, stages: int = 0, threads: int = 0):
    """A tile of `rows` at a time; with `stages`, tiles are loaded that many ahead into shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    Y = T.empty((M, N), dtype)
    turns = 2 if stages else 1
    with T.Kernel(T.ceildiv(M, turns * rows), threads=threads or threads_for(rows * N)) as bx:
        x = T.alloc_fragment((rows, N), dtype)
        squares = T.alloc_fragment((rows, N), T.float32)
        scale = T.alloc_fragment((rows,), T.float32)
        for turn in T.Pipelined(turns, num_stages=stages) if stages else (0,):
            first = (bx * turns + turn) * rows
            if stages:
                ahead = T.alloc_shared((rows, N), dtype)
                T.copy(X[first, 0], ahead)
                T.copy(ahead, x)
            else:  # L2 gives up what is written first: memory turns less often from reading to writing
                T.copy(X[first, 0], x, eviction_policy="evict_last")
            for i, j in T.Parallel(rows, N):
                squares[i, j] = T.cast(x[i, j], T.float32) * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + EPSILON)
            for i, j in T.Parallel(rows, N):
                Y[first + i, j] = x[i, j] * scale[i] * W[j]
    return Y


kernel = rms_norm
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4
schedules = (  # for benchmarks
    *({"threads": threads} for threads in (128, 256, 512, 1024)),
    *({"stages": stages, "threads": threads} for stages in (3, 6) for threads in (128, 256, 512)),
    *(
        {"rows": rows, "stages": stages, "threads": threads}
        for rows, stages in ((2, 6), (4, 4), (8, 3))
        for threads in (256, 512)
    ),
)


def inputs(rng, rows=32768, columns=4096):
    """X and W."""
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    return x.astype(np.float16), rng.standard_normal(columns, dtype=np.float32).astype(np.float16)


def emulation_inputs(rng):
    """A few rows of a width that threads do not divide."""
    return inputs(rng, 5, 1000)


def reference(x, w):
    """The same in NumPy, in float64."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    return x / np.sqrt(np.square(x).mean(1, keepdims=True) + EPSILON) * w


if __name__ == "__main__":
    app(["run", __file__])
