"""Loops of consumers stay loops where a thread's registers are too few for what all iterations load."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import emulated, generated

import tilegen.language as T
from tilegen.target import load_target
from tilegen.toolchain.cuda import compile_cuda

SAID = "not unrolled, registers are too few for all its loads"


def folded(X, steps=3, parts=1, rows=64, threads=256, kind="add"):
    """Rows of `steps` tiles folded into 64 columns, of each tile in `parts`."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M // parts, 64), T.float32)
    with T.Kernel(T.ceildiv(M, rows * parts), threads=threads) as bx:
        x = T.alloc_shared((rows * parts, 64), T.float32)
        held = T.alloc_fragment((rows, 64), T.float32)
        y = T.alloc_fragment((rows, 64), T.float32)
        T.clear(y)
        for k in T.Pipelined(steps, num_stages=2):
            T.copy(X[bx * rows * parts, k * 64], x)
            if kind == "copy":
                T.copy(x, held)
                for i, j in T.Parallel(rows, 64):
                    y[i, j] += held[i, j]
            elif parts == 1:
                for i, j in T.Parallel(rows, 64):
                    y[i, j] += x[i, j]
            else:
                for part in T.serial(parts):
                    for i, j in T.Parallel(rows, 64):
                        y[i, j] += x[part * rows + i, j]
        T.copy(y, Y[bx * rows, 0])
    return Y


def operand(steps, parts, rows):
    return np.random.default_rng(7).integers(-9, 10, (2 * rows * parts, 64 * steps)).astype(np.float32)


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({"rows": 96, "steps": 5}, "k"),
        ({"rows": 128, "steps": 3}, "k"),
        ({"rows": 128, "steps": 4}, "k"),
        ({"rows": 192, "steps": 3}, "k"),
        ({"rows": 144, "steps": 3, "threads": 384}, "k"),
        ({"rows": 192, "steps": 5, "threads": 384}, "k"),
        ({"rows": 256, "steps": 5, "threads": 512}, "k"),
        ({"rows": 128, "steps": 5, "kind": "copy"}, "k"),
        ({"rows": 96, "steps": 3, "parts": 2}, "k"),  # six parts in all
        ({"rows": 64, "steps": 20, "parts": 3, "threads": 512}, "part"),  # in a loop that nobody unrolls
        ({"rows": 32, "steps": 3}, ""),  # all loads fit
        ({"rows": 128, "steps": 20}, ""),  # nobody unrolls so much
    ],
    ids=str,
)
def test_no_loads_beyond_registers(parameters, where, require_tool):
    require_tool("nvcc")
    x = operand(parameters["steps"], parameters.get("parts", 1), parameters["rows"])
    source = generated(folded, "sm_90a", [x], **parameters).source
    assert "tma_load" in source
    kernel = source[source.index("- consumers\n") :]
    assert kernel.count("#pragma unroll 1\n") == kernel.count(SAID) == (where != "")
    if where:
        assert kernel.split("#pragma unroll 1\n")[1].lstrip().startswith(f"for (int {where} ")
    assert compile_cuda(source, load_target("sm_90a")).spills == 0


@pytest.mark.parametrize(
    "parameters", [{"steps": 5, "rows": 128}, {"steps": 3, "rows": 96, "parts": 2}], ids=str
)
def test_what_is_computed(parameters, require_tool):
    require_tool("host_compiler")
    parts, rows = parameters.get("parts", 1), parameters["rows"]
    x = operand(parameters["steps"], parts, rows)
    (found,) = emulated(folded, "sm_90a", [x], {"schedule": "random", "asynchronous": "lazy"}, **parameters)
    tiles = x.reshape(2, parts, rows, parameters["steps"], 64)
    np.testing.assert_array_equal(found, tiles.sum(axis=(1, 3)).reshape(-1, 64))
