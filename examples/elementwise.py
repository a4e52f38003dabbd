"""An element-wise kernel with a broadcast and a cast: Y = X * W + B rounded to another type, W and B one row each.

X has three axes. Run it with `tilegen run examples/elementwise.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app


@tilegen.jit
def scale_and_shift(
    X,
    W,
    B,
    dtype: T.dtype = T.float16,
    out_dtype: T.dtype = T.float16,
    block: int = 4096,
    threads: int = 256,
):
    L, M, N = T.const("L, M, N")
    X: T.Tensor((L, M, N), dtype)
    W: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    Y = T.empty((L, M, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block), M, L, threads=threads) as (bx, by, bz):
        for i in T.Parallel(block):
            j = bx * block + i
            Y[bz, by, j] = X[bz, by, j] * W[j] + B[j]
    return Y


kernel = scale_and_shift
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4


def inputs(rng, layers=16, rows=2048, columns=8192):
    """X, W and B."""
    x = rng.standard_normal((layers, rows, columns), dtype=np.float32).astype(np.float16)
    return x, *(rng.standard_normal(columns, dtype=np.float32) for _ in "WB")


def emulation_inputs(rng):
    """A smaller tensor, of a width that no tile divides."""
    return inputs(rng, 2, 3, 1000)


def reference(x, w, b):
    """The same in NumPy, in float64."""
    return x.astype(np.float64) * w + b


if __name__ == "__main__":
    app(["run", __file__])
