"""Binding of tensors, extents, scalars, parameters and outputs."""

from __future__ import annotations

from typing import Any

import pytest
from frontend_faults import fault

import tilegen.language as T
from tilegen.errors import TilegenError
from tilegen.frontend import parse
from tilegen.ir.printer import buffer_text, expression_text, to_text
from tilegen.ir.verify import verify

ROWS = 64


def scale_rows(X, block: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, 2 * N), T.float16)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        tile = T.alloc_fragment((block, 64), T.float16)
        T.copy(X[bx * block, 0], tile)
        T.copy(tile, Y[bx * block, N])
    return Y


def _texts(function: Any, *arguments: Any, **keywords: Any) -> list[str]:
    program = parse(function, *arguments, **keywords)
    verify(program)
    return [buffer_text(buffer) for buffer in program.tensors]


def test_given_integers_are_baked_in() -> None:
    given = {"X": T.Tensor((1000, 96), T.float16)}
    assert _texts(scale_rows, given) == [
        "X: float16[1000, 96] global input",
        "Y: float16[1000, 192] global output",
    ]
    assert parse(scale_rows, given).extents == ()


def test_given_names_and_missing_specs_stay_dynamic() -> None:
    given = {"X": T.Tensor(("rows", 96), T.float16)}
    program = parse(scale_rows, given)
    assert _texts(scale_rows, given)[1] == "Y: float16[M, 192] global output"
    assert [var.name for var in program.extents] == ["M"]
    assert _texts(scale_rows)[1] == "Y: float16[M, 2 * N] global output"


def test_dims_fix_const_names_without_specs() -> None:
    assert _texts(scale_rows, dims={"N": 32}) == [
        "X: float16[M, 32] global input",
        "Y: float16[M, 64] global output",
    ]


def test_equal_names_in_specs_are_one_extent() -> None:
    def add(A, B):
        M, N = T.const("M, N")
        A: T.Tensor((M,), T.float32)
        B: T.Tensor((N,), T.float32)
        C = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
        return C

    spec = T.Tensor(("n",), T.float32)
    program = parse(add, {"A": spec, "B": spec})
    assert [var.name for var in program.extents] == ["M"]
    assert program.tensors[0].shape == program.tensors[1].shape


def test_dynamic_extents_of_the_program() -> None:
    rows = T.dynamic("rows")

    def factory(columns: int) -> T.PrimFunc:
        @T.prim_func
        def twice(X: T.Tensor((rows, columns), "bfloat16"), Y: T.Buffer((rows, columns), T.bfloat16)):
            with T.Kernel(T.ceildiv(rows, ROWS)) as bx:
                tile = T.alloc_fragment((ROWS, columns), T.float32)
                T.copy(X[bx * ROWS, 0], tile)
                for i, j in T.Parallel(ROWS, columns):
                    tile[i, j] = tile[i, j] * 2
                T.copy(tile, Y[bx * ROWS, 0])

        return twice

    program = parse(factory(128), style="lazy", out_idx=1)
    verify(program)
    assert [buffer_text(buffer) for buffer in program.tensors] == [
        "X: bfloat16[rows, 128] global input",
        "Y: bfloat16[rows, 128] global output",
    ]
    assert expression_text(program.kernel.grid[0]) == "(rows + 64 - 1) // 64"
    assert program.name == "twice"


def test_strings_and_expressions_in_shapes() -> None:
    def shift(X, Y):
        X: T.Tensor(("n", 64), T.float32)
        n = T.dynamic("n")
        Y: T.Tensor((n + 1, 64), T.float32)
        with T.Kernel(n) as bx:
            for j in T.Parallel(64):
                Y[bx + 1, j] = X[bx, j]

    assert _texts(shift) == ["X: float32[n, 64] global input", "Y: float32[n + 1, 64] global inout"]


def test_strides() -> None:
    def transpose(X, Y):
        M, N, S = T.const("M, N, S")
        X: T.StridedTensor((M, N), (S, 1), T.float32)
        Y: T.Tensor((N, M), T.float32, strides=(M, 1))
        with T.Kernel(M) as bx:
            for j in T.Parallel(64):
                Y[j, bx] = X[bx, j]

    assert _texts(transpose)[0] == "X: float32[M, N] strides (S, 1) global input"
    given = {"X": T.StridedTensor((8, 64), (100, 1), T.float32), "Y": T.Tensor((64, 8), T.float32)}
    assert _texts(transpose, given) == [
        "X: float32[8, 64] strides (100, 1) global input",
        "Y: float32[64, 8] strides (8, 1) global inout",
    ]
    wrong = fault(transpose, given | {"X": T.StridedTensor((8, 64), (100, 2), T.float32)})
    assert wrong.line == "X: T.StridedTensor((M, N), (S, 1), T.float32)"
    assert wrong.message == "axis 1 of X is declared with stride 1, but is given with stride 2"


def test_strides_of_a_spec_reach_a_plain_declaration() -> None:
    given = {"X": T.Tensor((1000, 96), T.float16, strides=(128, 1))}
    assert _texts(scale_rows, given)[0] == "X: float16[1000, 96] strides (128, 1) global input"
    row_major = {"X": T.Tensor((1000, 96), T.float16, strides=(96, 1))}
    assert _texts(scale_rows, row_major)[0] == "X: float16[1000, 96] global input"


def saxpy(X, Y, a: T.float32, n_threads: int = 128):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, n_threads), threads=n_threads) as bx:
        for i in T.Parallel(n_threads):
            Y[bx * n_threads + i] += a * X[bx * n_threads + i]


def test_scalar_arguments() -> None:
    program = parse(saxpy)
    verify(program)
    assert [(var.name, str(var.dtype), var.role) for var in program.scalars] == [("a", "float32", "scalar")]
    assert program.outputs == ()
    assert [buffer.role for buffer in program.tensors] == ["input", "inout"]
    assert "Y[bx * 128 + i] = Y[bx * 128 + i] + a * X[bx * 128 + i]" in to_text(program)


def test_a_scalar_given_as_a_parameter_is_fixed() -> None:
    program = parse(saxpy, parameters={"a": 2})
    assert program.scalars == ()
    assert program.parameters == (("a", "2"), ("n_threads", "128"))
    assert "Y[bx * 128 + i] + 2.0 * X[bx * 128 + i]" in to_text(program)


def test_scalar_declared_in_the_body() -> None:
    def fill(Y, value):
        N = T.const("N")
        Y: T.Tensor((N,), T.float16)
        value: T.float32
        with T.Kernel(T.ceildiv(N, 128)) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = value

    assert "Y[bx * 128 + i] = float16(value)" in to_text(parse(fill))


def test_optional_tensor_by_a_python_condition() -> None:
    def add_bias(X, Bias=None):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        if Bias is not None:
            Bias: T.Tensor((N,), T.float32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(M) as bx:
            for j in T.Parallel(64):
                Y[bx, j] = X[bx, j] + (Bias[j] if Bias is not None else 0)
        return Y

    spec = T.Tensor((8, 64), T.float32)
    assert "Y[bx, j] = X[bx, j] + 0.0" in to_text(parse(add_bias, {"X": spec}))
    with_bias = to_text(parse(add_bias, {"X": spec, "Bias": T.Tensor((64,), T.float32)}))
    assert "Y[bx, j] = X[bx, j] + Bias[j]" in with_bias


def test_tensor_without_an_annotation_takes_the_spec() -> None:
    def copy_all(X):
        Y = T.empty(X.shape, X.dtype)
        with T.Kernel(X.shape[0]) as bx:
            for j in T.Parallel(X.shape[1]):
                Y[bx, j] = X[bx, j]
        return Y

    assert _texts(copy_all, {"X": T.Tensor(("m", 32), T.int8)}) == [
        "X: int8[m, 32] global input",
        "Y: int8[m, 32] global output",
    ]


def test_several_outputs_keep_the_order_of_return() -> None:
    def two(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        first = T.empty((N,), T.float32)
        second = T.empty((N,), T.int32)
        with T.Kernel(N) as bx:
            first[bx] = X[bx]
            second[bx] = bx
        return second, first

    program = parse(two)
    assert program.outputs == ("second", "first")
    assert [buffer.name for buffer in program.tensors] == ["X", "first", "second"]


def test_lazy_outputs_keep_the_order_of_out_idx() -> None:
    @T.prim_func
    def two(X: T.Tensor((8,), T.float32), Y: T.Tensor((8,), T.float32), Z: T.Tensor((8,), T.float32)):
        with T.Kernel(8) as bx:
            Y[bx] = X[bx]
            Z[bx] = X[bx]

    assert parse(two, style="lazy", out_idx=[2, 1]).outputs == ("Z", "Y")
    with pytest.raises(TilegenError, match="out_idx 3 does not exist: two has 3 parameters"):
        parse(two, style="lazy", out_idx=[3])


def test_parameters_are_quoted_without_addresses() -> None:
    def run(X, dtype: Any = T.float16, f: Any = None, o: Any = None):
        X: T.Tensor((8,), dtype)
        with T.Kernel(8) as bx:
            X[bx] = f(1)

    program = parse(run, parameters={"f": lambda x: x, "o": object()})
    assert program.parameters == (("dtype", "float16"), ("f", "<lambda>"), ("o", "object"))


def test_wrong_arguments() -> None:
    with pytest.raises(TilegenError, match="scale_rows has no parameter Z; it has X, block"):
        parse(scale_rows, {"Z": T.Tensor((8,), T.float16)})
    with pytest.raises(TilegenError, match="scale_rows has no parameter blok"):
        parse(scale_rows, parameters={"blok": 3})
    for value in (32.0, "32", True, None):
        with pytest.raises(TilegenError, match="dims: N is an integer, not"):
            parse(scale_rows, dims={"N": value})
    both = fault(scale_rows, {"X": T.Tensor((1000, 96), T.float16)}, dims={"N": 32})
    assert both.message == "axis 1 of X is 96, but dims fixes N to 32"

    for out_idx in ("X", 1.5, ["Y"]):
        with pytest.raises(TilegenError, match="out_idx is a position of a parameter or a list of some, not"):
            parse(scale_rows, out_idx=out_idx)

    missing = fault(lambda_free_missing)
    assert missing.line == "def lambda_free_missing(X, size):"
    assert missing.underlined == "size"
    assert missing.message == "size is given no value"

    def undeclared(X):
        with T.Kernel(8) as bx:
            X[bx] = 0.0

    assert fault(undeclared).message == "X is given no value"


def lambda_free_missing(X, size):
    X: T.Tensor((8,), T.float16)
    with T.Kernel(8) as bx:
        X[bx] = size


def test_specs_that_disagree_with_the_annotations() -> None:
    rank = fault(scale_rows, {"X": T.Tensor((8,), T.float16)})
    assert rank.line == rank.underlined == "X: T.Tensor((M, N), T.float16)"
    assert rank.message == "X is declared with 2 axes, but is given a tensor of 1: (8,)"
    dtype = fault(scale_rows, {"X": T.Tensor((8, 8), T.bfloat16)})
    assert dtype.message == "X is declared as float16, but is given as bfloat16"
    assert dtype.remedy == "give a float16 tensor, or make the dtype a parameter of the program"


def test_const_bound_to_two_sizes() -> None:
    def product(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(M) as bx:
            for j in T.Parallel(64):
                C[bx, j] = A[bx, j] * B[j, j]
        return C

    wrong = fault(product, {"A": T.Tensor((64, 512), T.float16), "B": T.Tensor((256, 64), T.float16)})
    assert wrong.underlined == "B: T.Tensor((K, N), T.float16)"
    assert wrong.message == "K is 512 as axis 1 of A, but 256 as axis 0 of B"
    assert wrong.remedy == "give tensors whose shapes agree in K"
    assert wrong.related == ["A: T.Tensor((M, K), T.float16)"]
    fixed = fault(product, {"A": T.Tensor((64, 512), T.float16), "B": T.Tensor(("k", 64), T.float16)})
    assert fixed.message == "axis 0 of B is declared as 512, but is given as the dynamic extent k"


def test_const_names_with_spaces() -> None:
    def scaled(X):
        M, N, K = T.const(" M N,K ")
        X: T.Tensor((M, N, K), T.float16)
        with T.Kernel(M, N, K) as (bx, by, bz):
            X[bx, by, bz] = 1

    assert [extent.name for extent in parse(scaled).extents] == ["M", "N", "K"]

    def wrong(X):
        M, N = T.const("M,, N")
        X: T.Tensor((M, N), T.float16)
        with T.Kernel(M) as bx:
            X[bx, 0] = 1

    assert fault(wrong).message == "'' is not an identifier"


def test_const_without_a_value() -> None:
    def unused(X):
        M, N = T.const("M, N")
        Y = T.empty((N,), T.float16)
        X: T.Tensor((M,), T.float16)
        with T.Kernel(M) as bx:
            Y[bx] = X[bx]
        return Y

    wrong = fault(unused)
    assert wrong.line == "Y = T.empty((N,), T.float16)"
    assert wrong.message == "N has no value yet"
    assert "declare one that has N alone as an extent" in wrong.remedy
    assert wrong.related == ['M, N = T.const("M, N")']


def test_const_that_arguments_only_compute_with():
    """Two elements a byte: N // 2 does not say what N is."""

    def packed(X):
        N = T.const("N")
        X: T.Tensor((N // 2,), T.uint8)
        Y = T.empty((N,), T.uint8)
        with T.Kernel(N) as bx:
            Y[bx] = X[bx // 2]
        return Y

    wrong = fault(packed)
    assert wrong.message == "N has no value yet"
    assert "name the extent that an argument has and compute N from it" in wrong.remedy


def test_const_above_the_annotation_that_binds_it() -> None:
    """TileLang's order: computed first, declared then."""

    def halves(X, W, split: int = 2):
        M, K = T.const("M, K")
        part = K // split
        blocks = T.ceildiv(M, 32)
        Y = T.empty((M, part), T.float16)
        X: T.Tensor((M, K), T.float16)
        W: T.Tensor[(K,), T.float16]
        with T.Kernel(blocks, part) as (bx, by):
            for i in T.Parallel(32):
                Y[bx * 32 + i, by] = X[bx * 32 + i, by] * W[by]
        return Y

    specs = {"X": T.Tensor((64, 512), T.float16), "W": T.Tensor((512,), T.float16)}
    fixed = parse(halves, specs)
    assert [extent.value for extent in fixed.kernel.grid] == [2, 256]
    assert fixed.tensors[-1].shape[0].name == "M"
    opened = parse(halves)
    assert [extent.name for extent in opened.extents] == ["M", "K"]
    wrong = fault(halves, {**specs, "W": T.Tensor((256,), T.float16)})
    assert wrong.message == "K is 512 as axis 1 of X, but 256 as axis 0 of W"
    assert wrong.related == ["X: T.Tensor((M, K), T.float16)"]
    part = fault(halves, {"W": T.Tensor((512,), T.float16), "X": T.Tensor((512,), T.float16)})
    assert part.message.startswith("X is declared with 2 axes, but is given a tensor of 1")
    assert parse(halves, dims={"K": 64}).kernel.grid[1].value == 32


def test_computed_extent_above_the_annotation_that_binds_its_name() -> None:
    """Heads that share keys: H query heads a key head, where Q is declared first."""

    def grouped(Q, K, V, group: int = 4):
        H, D = T.const("H, D")
        Q: T.Tensor((H * group, D), T.float16)
        K: "T.Tensor((D // 2, H), T.float16)"  # noqa: UP037 (text is evaluated elsewhere)
        V: T.StridedTensor((H, D), (2 * D, 1), T.float16)
        with T.Kernel(H) as h:
            V[h, 0] = Q[h * group, 0] * K[0, h]

    specs = {
        "Q": T.Tensor((12, 8), T.float16),
        "K": T.Tensor((4, 3), T.float16),
        "V": T.Tensor((3, 8), T.float16, (16, 1)),
    }
    fixed = parse(grouped, specs)
    assert [extent.value for extent in fixed.kernel.grid] == [3]
    assert [extent.name for extent in parse(grouped).extents] == ["H", "D"]
    wrong = fault(grouped, {**specs, "Q": T.Tensor((16, 8), T.float16)})
    assert wrong.message == "axis 0 of Q is declared as 12, but is given as 16"


def test_outputs_that_are_not_returned() -> None:
    def forgotten(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float16)
        Y = T.empty((N,), T.float16)
        with T.Kernel(N) as bx:
            Y[bx] = X[bx]

    wrong = fault(forgotten)
    assert wrong.line == "Y = T.empty((N,), T.float16)"
    assert wrong.underlined == "T.empty((N,), T.float16)"
    assert wrong.remedy == "end the program with return Y"


def test_returning_something_else() -> None:
    def number(X):
        X: T.Tensor((8,), T.float16)
        with T.Kernel(8) as bx:
            X[bx] = 1
        return 3

    wrong = fault(number)
    assert wrong.line == "return 3"
    assert wrong.message == "a program returns tensors"


def test_a_program_without_a_kernel() -> None:
    def nothing(X):
        X: T.Tensor((8,), T.float16)

    wrong = fault(nothing)
    assert wrong.line == "def nothing(X):"
    assert wrong.message == "nothing opens no kernel"
    assert wrong.remedy == "write: with T.Kernel(blocks, threads=128) as bx:"


def test_an_output_made_inside_the_kernel() -> None:
    def inside(X):
        X: T.Tensor((8,), T.float16)
        with T.Kernel(8) as bx:
            Y = T.empty((8,), T.float16)
            Y[bx] = X[bx]
        return Y

    wrong = fault(inside)
    assert wrong.underlined == "T.empty((8,), T.float16)"
    assert wrong.remedy.startswith("move it before the with T.Kernel(…) block")


def test_dims_fix_dynamic_names_too() -> None:
    rows = T.dynamic("rows")

    def zero(X):
        X: T.Tensor((rows, "columns"), T.float32)
        with T.Kernel(T.ceildiv(rows, 64)) as bx:
            X[bx, 0] = 0

    program = parse(zero, dims={"rows": 128})
    verify(program)
    assert buffer_text(program.tensors[0]) == "X: float32[128, columns] global inout"
    assert expression_text(program.kernel.grid[0]) == "2"
    with pytest.raises(TilegenError, match="zero has no extent row; it has rows, columns"):
        parse(zero, dims={"rows": 1, "row": 128})


def test_dynamic_names_that_clash_with_other_names() -> None:
    X = T.dynamic("X", "int64")

    def zero(Y):
        Y: T.Tensor((X, 4), T.float32)
        with T.Kernel(X) as float:
            x = Y[float, 0] + X
            Y[X - 1, 0] = x

    def shadow(X):
        X: T.Tensor(("X", 4), T.float32)
        with T.Kernel(4) as bx:
            X[bx, 0] = 0

    program = parse(zero)
    verify(program)
    assert [(var.name, str(var.dtype)) for var in program.extents] == [("X", "int64")]
    program = parse(shadow)
    verify(program)
    assert buffer_text(program.tensors[0]) == "X: float32[X_1, 4] global inout"


def test_style_follows_from_the_function() -> None:
    @T.prim_func
    def zero(X: T.Tensor((8,), T.float32)):
        with T.Kernel(8) as bx:
            X[bx] = 0

    assert parse(zero, parameters={"policy": T.GemmWarpPolicy.FullRow}).parameters == (
        ("policy", "GemmWarpPolicy.FullRow"),
    )
