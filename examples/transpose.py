"""The transpose of a matrix, through shared memory: rows are read and written 16 bytes a thread.

Shared memory is swizzled so that neither its rows nor its columns meet bank conflicts. Run it with
`tilegen run examples/transpose.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app


@tilegen.jit
def transpose(X, dtype: T.dtype = T.float16, block: int = 64, threads: int = 256, panel: int = 8):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((N, M), dtype)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        tile = T.alloc_shared((block, block), dtype)
        T.use_swizzle(panel)
        # L2 gives up what is written first: memory turns less often from reading to writing
        T.copy(X[by * block, bx * block], tile, eviction_policy="evict_last")
        for i, j in T.Parallel(block, block):
            Y[bx * block + i, by * block + j] = tile[j, i]
    return Y


kernel = transpose
tolerance = 0.0
schedules = tuple(  # for benchmarks
    {"block": block, "threads": threads, "panel": panel}
    for block, threads in ((32, 128), (64, 256), (64, 512), (128, 512))
    for panel in (4, 16)
)


def inputs(rng, rows=16384, columns=16384):
    """X."""
    return (rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float16),)


def emulation_inputs(rng):
    """A smaller matrix, of a size that no tile divides."""
    return inputs(rng, 200, 136)


def reference(x):
    """The same in NumPy."""
    return x.T


if __name__ == "__main__":
    app(["run", __file__])
