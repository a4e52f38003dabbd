"""Register operands computed beside their gemm on Hopper: found where they may be, right in every order, and hazards of
seeded bugs are seen."""

# mypy: ignore-errors

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from emulation import kernel_text, relative_error

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emulate import EmulationError, run
from tilegen.frontend import parse

MODES = [
    {},
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random", "seed": 1},
    {"schedule": "random", "asynchronous": "lazy", "seed": 2},
]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def scaled_product(
    A, B, S, bm: int = 64, bn: int = 32, bk: int = 64, stages: int = 3, threads: int = 128, variant: str = ""
):
    """C = (A * S) @ B, with A scaled in registers."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    S: T.Tensor((M,), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((bm, bk), T.float16)
        B_shared = T.alloc_shared((bk, bn), T.float16)
        raw = T.alloc_fragment((bm, bk), T.float16)
        operand = T.alloc_fragment((bm, bk), T.float16)
        s = T.alloc_fragment((bm,), T.float16)
        c = T.alloc_fragment((bm, bn), T.float32)
        T.copy(S[by * bm : by * bm + bm], s)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
            T.copy(A[by * bm, k * bk], A_shared)
            T.copy(B[k * bk, bx * bn], B_shared)
            T.copy(A_shared, raw)
            if variant == "two statements":
                for i, j in T.Parallel(bm, bk):
                    operand[i, j] = raw[i, j] * s[i]
                for i, j in T.Parallel(bm, bk):
                    operand[i, j] = operand[i, j] * 2.0
            elif variant == "reads global memory":
                for i, j in T.Parallel(bm, bk):
                    operand[i, j] = raw[i, j] * S[by * bm + i]
            else:
                for i, j in T.Parallel(bm, bk):
                    operand[i, j] = raw[i, j] * s[i]
            T.gemm(operand, B_shared, c)
            if variant == "touches the sums":
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = c[i, j] * 1.0
        T.copy(c, C[by * bm, bx * bn])
    return C


def arrays(m: int, n: int, k: int):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    return [a, b, (random.integers(1, 5, m) / 2).astype(np.float16)]


def emitted(operands, **parameters):
    specs = {name: T.Tensor(x.shape, T.float16) for name, x in zip("ABS", operands, strict=True)}
    return generate(parse(scaled_product, specs, parameters), "sm_90a")


def expected(operands, factor: float = 1.0):
    a, b, s = (x.astype(np.float64) for x in operands)
    return (a * s[:, None] * factor) @ b


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bk": 128, "stages": 2},
        {"bm": 128, "threads": 256},
        {"bm": 256, "threads": 256, "bk": 32},
        {"variant": "two statements"},
    ],
    ids=str,
)
def test_interleaved_operands(parameters, mode) -> None:
    operands = arrays(300, 40, 320)
    files = emitted(operands, **parameters)
    text = kernel_text(files)
    slices = 2 if parameters.get("bk") == 32 else 4
    waits = re.findall(r"warpgroup_wait<(.*?)>\(\)", text)
    assert f"operand in {slices} slices along k" in files.source
    assert len(waits) == 2 and waits[1] == "0" and "// what read the next slice's registers is over" in text
    count = eval(waits[0].replace("kBlockK", "bk").replace("kBk", "bk"), {"bk": parameters.get("bk", 64)})
    assert count == slices - 1
    factor = 2.0 if parameters.get("variant") == "two statements" else 1.0
    found = run(files.source, files.manifest, operands, **mode)
    assert relative_error(found, expected(operands, factor)) < 1e-3


@pytest.mark.parametrize(
    "parameters",
    [{"stages": 1}, {"variant": "touches the sums"}, {"variant": "reads global memory"}],
    ids=str,
)
def test_operands_that_wait_for_their_gemm(parameters) -> None:
    """Where the dependences forbid it, gemm and work alternate; the result is the same."""
    operands = arrays(100, 40, 192)
    files = emitted(operands, **parameters)
    assert "the next slice's registers" not in files.source
    found = run(files.source, files.manifest, operands, schedule="random", asynchronous="lazy", seed=4)
    assert relative_error(found, expected(operands)) < 1e-3


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ((r"warpgroup_wait<([^0].*?)>\(\)", r"warpgroup_wait<\1 + 1>()"), "race"),
        ((r"warpgroup_wait<0>\(\);\n", ""), "race|poison"),
        (
            (
                r"if \(k > 0 && thread == 0\) mbarrier_arrive\((.*?)\[.*?\]\);",
                r"if (thread == 0) mbarrier_arrive(\1[B_ring.stage]);",
            ),
            "race",
        ),
    ],
    ids=["a group too many", "no last wait", "a stage too early"],
)
def test_seeded_bugs_are_seen(change, kind) -> None:
    operands = arrays(64, 32, 640)
    files = emitted(operands)
    broken, count = re.subn(*change, files.source)
    assert count >= 1
    with pytest.raises(EmulationError, match=kind):
        for seed in range(4):
            run(broken, files.manifest, operands, schedule="random", asynchronous="lazy", seed=seed)
