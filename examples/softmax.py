"""Softmax of the rows of a matrix: Y = exp(X - max(X)) / sum(exp(X - max(X))), fp16, bf16 or fp32.

One pass through memory: a row stays in registers from its first use to its store. Run it with
`tilegen run examples/softmax.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

LOG2E = 1.4426950408889634


def threads_for(elements):
    """Threads that hold 64 elements each; from 128 to 1024, a power of two."""
    return min(1024, max(128, 1 << (elements // 64 - 1).bit_length()))


@tilegen.jit
def softmax(X, dtype: T.dtype = T.float16, rows: int = 1, stages: int = 0, threads: int = 0):
    """A tile of `rows` at a time; with `stages`, tiles are loaded that many ahead into shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    turns = 2 if stages else 1
    with T.Kernel(T.ceildiv(M, turns * rows), threads=threads or threads_for(rows * N)) as bx:
        x = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for turn in T.Pipelined(turns, num_stages=stages) if stages else (0,):
            first = (bx * turns + turn) * rows
            if stages:
                ahead = T.alloc_shared((rows, N), dtype)
                T.copy(X[first, 0], ahead)
                T.copy(ahead, x)
            else:  # L2 gives up what is written first: memory turns less often from reading to writing
                T.copy(X[first, 0], x, eviction_policy="evict_last")
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = 1 / total[i]
            for i, j in T.Parallel(rows, N):
                Y[first + i, j] = x[i, j] * total[i]
    return Y


kernel = softmax
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
    """X."""
    return (rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float16),)


def emulation_inputs(rng):
    """A few rows of a width that threads do not divide."""
    return inputs(rng, 5, 1000)


def reference(x):
    """The same in NumPy, in float64."""
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


if __name__ == "__main__":
    app(["run", __file__])
