"""Python at generation time: what holds no tile value is run by Python itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from frontend_faults import fault

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.printer import statement_lines
from tilegen.ir.verify import verify

GLOBAL_SCALE = 3


def body(function: Callable[..., Any], **parameters: Any) -> list[str]:
    """The kernel's statements as text."""
    program = parse(function, parameters=parameters)
    verify(program)
    return [line for statement in program.kernel.body for line in statement_lines(statement)]


def test_python_conditions_choose_at_generation_time() -> None:
    def choose(X, causal: bool = True, mode: str = "fast"):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            if causal and mode in ("fast", "slow"):
                X[bx] = 1.0
            elif mode == "none":
                pass
            else:
                X[bx] = 2.0 if mode == "slow" else 3.0

    assert body(choose) == ["X[bx] = 1.0"]
    assert body(choose, causal=False, mode="slow") == ["X[bx] = 2.0"]
    assert body(choose, causal=False) == ["X[bx] = 3.0"]


def test_python_loops_are_unrolled() -> None:
    def unrolled(X):
        X: T.Tensor((8, 16), T.float32)
        with T.Kernel(8) as bx:
            for i in range(2):
                for name, scale in zip(["a", "b"], (2, 4), strict=True):
                    X[bx, i * 2 + scale] = float(scale + len(name))
            for position in reversed([5, 6]):
                if position == 6:
                    continue
                X[bx, position] = 0.5
                break
            else:
                X[bx, 0] = 9.0

    assert body(unrolled) == [
        "X[bx, 2] = 3.0",
        "X[bx, 4] = 5.0",
        "X[bx, 4] = 3.0",
        "X[bx, 6] = 5.0",
        "X[bx, 5] = 0.5",
    ]


def test_while_over_python_values() -> None:
    def halves(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(1) as bx:
            step = 4
            while step > 0:
                X[bx + step] = float(step)
                step //= 2
            else:
                X[bx] = 0.0

    assert body(halves) == ["X[bx + 4] = 4.0", "X[bx + 2] = 2.0", "X[bx + 1] = 1.0", "X[bx] = 0.0"]


def test_closures_globals_builtins_and_imports() -> None:
    width = 4

    def helper(n: int) -> int:
        return n * GLOBAL_SCALE

    def use(X):
        import math as maths
        from math import tau

        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[bx + helper(width)] = maths.sqrt(16.0)
            X[bx + sum([1, 2])] = round(tau, 2)
            X[bx + max(width, 2)] = math.floor(2.5)

    assert body(use) == ["X[bx + 12] = 4.0", "X[bx + 3] = 6.28", "X[bx + 4] = 2.0"]


def test_comprehensions_lambdas_and_containers() -> None:
    def contain(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            table = {name: index for index, name in enumerate("abc") if name != "b"}
            pairs = [(i, j) for i in range(2) for j in range(i + 1)]
            square = lambda n: n * n  # noqa: E731
            offsets = [bx + i for i in range(3)]
            first, *rest = pairs
            X[offsets[1]] = float(table["c"])
            X[offsets[2]] = square(len(rest))
            X[offsets[-1] + first[0]] = len({*pairs, (0, 0)})
            label = f"{table['c']:02d}"
            assert label == "02", label

    assert body(contain) == ["X[bx + 1] = 2.0", "X[bx + 2] = 4.0", "X[bx + 2] = 3.0"]


def test_lists_of_buffers() -> None:
    def ring(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1, threads=64) as bx:
            stages = [T.alloc_shared((64,), T.float32) for _ in range(2)]
            for stage in stages:
                T.copy(X[bx], stage)
            T.copy(stages[1], X[0])

    program = parse(ring)
    assert [buffer.name for buffer in program.kernel.allocations] == ["stages", "stages_1"]
    assert body(ring) == [
        "copy X[bx:+64] -> stages[0:+64]",
        "copy X[bx:+64] -> stages_1[0:+64]",
        "copy stages_1[0:+64] -> X[0:+64]",
    ]


def test_short_circuit_mixes_python_and_tile_values() -> None:
    def mix(X, guard: bool = True):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        with T.Kernel(4) as bx:
            if guard and bx < N and True:
                X[bx] = 1.0
            if not guard or bx > 2 or bx == 0:
                X[bx] = 2.0
            if 0 <= bx < N:
                X[bx] = 3.0

    assert body(mix) == [
        "if bx < N:",
        "  X[bx] = 1.0",
        "if bx > 2 or bx == 0:",
        "  X[bx] = 2.0",
        "if 0 <= bx and bx < N:",
        "  X[bx] = 3.0",
    ]
    assert body(mix, guard=False)[0] == "X[bx] = 2.0"


def test_dtypes_can_be_compared_and_chosen() -> None:
    def choose(X, dtype: Any = T.float16):
        X: T.Tensor((8,), dtype)
        with T.Kernel(8) as bx:
            accumulator = T.float32 if X.dtype == T.float16 else X.dtype
            X[bx] = T.cast(1, accumulator)

    assert body(choose) == ["X[bx] = 1.0"]
    assert body(choose, dtype=T.int32) == ["X[bx] = 1"]


def test_python_errors_appear_at_their_line() -> None:
    def broken(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            sizes = {"a": 1}
            X[bx] = sizes["b"]

    wrong = fault(broken)
    assert wrong.line == 'X[bx] = sizes["b"]'
    assert wrong.underlined == 'sizes["b"]'
    assert wrong.message == "Python raises KeyError here: 'b'"


def test_failing_assertions_and_raised_errors() -> None:
    def checked(X, block: int = 48):
        X: T.Tensor((8,), T.float32)
        assert block % 32 == 0, f"block is {block}"
        with T.Kernel(8) as bx:
            X[bx] = 0.0

    wrong = fault(checked)
    assert wrong.line == 'assert block % 32 == 0, f"block is {block}"'
    assert wrong.message == "the assertion does not hold: block is 48"

    def raises(X, block: int = 48):
        X: T.Tensor((8,), T.float32)
        if block != 32:
            raise ValueError("only 32")

    wrong = fault(raises)
    assert wrong.line == 'raise ValueError("only 32")'
    assert wrong.message == "the program raises ValueError: only 32"


def test_tile_values_given_to_python_functions() -> None:
    def twice(x: Any) -> Any:
        return x * 2

    def plain(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            X[bx] = twice(X[bx])

    wrong = fault(plain)
    assert wrong.underlined == "twice(X[bx])"
    assert wrong.message == "the Python function twice is given a value that only the kernel knows"
    assert wrong.remedy == "decorate twice with @T.macro, so that it is inlined into the kernel"

    def sized(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        with T.Kernel(8, threads=twice(N)) as bx:
            X[bx] = 0

    assert fault(sized).remedy == (
        "fix N: --dim N=… or emit(dims={'N': …}); not dynamic in a call; or decorate twice with @T.macro, so that it "
        "is inlined into the kernel"
    )

    def maths(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            X[bx] = math.exp(X[bx])

    wrong = fault(maths)
    assert wrong.underlined == "math.exp(X[bx])"
    assert wrong.remedy == "use the tile language's own function, such as T.exp"

    def printed(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            print(X[bx])

    assert fault(printed).remedy == (
        "remove it: a kernel prints nothing; store the value in an output to look at it"
    )


def test_numbers_of_numpy_count_as_pythons() -> None:
    def counted(X, block: int = 64, top: int = 3):
        X: T.Tensor((1000,), T.float32)
        with T.Kernel(T.ceildiv(1000, block), threads=64) as bx:
            for i in T.Parallel(block):
                X[bx * block + i] = T.max(top, T.ceildiv(block, 32)) + T.min(top, 5)

    given = {"block": np.int64(64), "top": np.int32(3)}
    assert body(counted, **given) == body(counted)
    assert parse(counted, parameters=given).parameters == parse(counted).parameters


def test_builtins_on_tile_values() -> None:
    def builtin(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            X[bx] = max(X[bx], 0.0, X[0])
            X[bx] = abs(min(X[bx], 1))
            X[bx] = float(bx) + sum([X[0], X[1], 2.0])
            X[int(X[0])] = len(X)
            for i in range(bx):
                X[i] = 0.0

    assert body(builtin) == [
        "X[bx] = max(max(X[bx], 0.0), X[0])",
        "X[bx] = abs(min(X[bx], 1.0))",
        "X[bx] = float32(bx) + (X[0] + X[1] + 2.0)",
        "X[int32(X[0])] = 8.0",
        "for i in 0 .. bx serial:",
        "  X[i] = 0.0",
    ]


def test_a_lambda_on_tile_values_cannot_be_decorated() -> None:
    def doubled(X):
        X: T.Tensor((8,), T.float32)
        double = lambda value: value * 2  # noqa: E731
        with T.Kernel(8) as bx:
            X[bx] = double(X[bx])

    wrong = fault(doubled)
    assert wrong.line == "X[bx] = double(X[bx])"
    assert wrong.remedy == "write it as a def under @T.macro, which is inlined into the kernel"


def test_all_open_extents_of_a_tile_are_named_at_once() -> None:
    def rows(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        with T.Kernel(1):
            T.alloc_fragment((M, N // 2), T.float32)

    assert fault(rows, dims={}).remedy.startswith("fix M and N: --dim M=… --dim N=…")
