"""Named scalars, variables that change, scopes."""

# Tile programs, some of them wrong on purpose.
# ruff: noqa: B007, F841, F821, UP037

from __future__ import annotations

from typing import Any

from frontend_faults import fault
from test_generation_time import body

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.nodes import Let
from tilegen.ir.walk import each_statement


def test_scalars_get_the_users_names() -> None:
    def named(X, block: int = 32):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            row = bx * block
            alias = bx
            value = X[row]
            X[row + alias] = value + block

    assert body(named) == [
        "let row: int32 = bx * 32",
        "let value: float32 = X[row]",
        "X[row + bx] = value + 32.0",
    ]


def test_python_numbers_become_variables_where_a_tile_loop_changes_them() -> None:
    def total(X, Y):
        X: T.Tensor((64,), T.float32)
        Y: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            total = 0
            count = 0
            for i in T.serial(32):
                total = total + X[bx * 32 + i]
                count += 1
            Y[bx] = total / count

    assert body(total) == [
        "var total: float32 = 0.0",
        "var count: int32 = 0",
        "for i in 0 .. 32 serial:",
        "  total = total + X[bx * 32 + i]",
        "  count = count + 1",
        "Y[bx] = total / float32(count)",
    ]


def test_variables_changed_under_a_condition() -> None:
    def clip(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        with T.Kernel(4) as bx:
            limit = 8
            value = X[bx]
            if bx > 2:
                limit = N
                value = value * 2
            elif bx == 1:
                limit = 3
            X[limit - 1] = value

    assert body(clip) == [
        "var value: float32 = X[bx]",
        "var limit: int32 = 8",
        "if bx > 2:",
        "  limit = N",
        "  value = value * 2.0",
        "else:",
        "  if bx == 1:",
        "    limit = 3",
        "X[limit - 1] = value",
    ]


def test_names_bound_twice_but_never_changed_by_the_kernel_stay_constants() -> None:
    def loops(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            for i in T.serial(2):
                row = bx + i
                X[row] = 0.0
            for i in T.serial(2):
                row = bx * i
                X[row] = 1.0

    assert body(loops) == [
        "for i in 0 .. 2 serial:",
        "  let row: int32 = bx + i",
        "  X[row] = 0.0",
        "for i_1 in 0 .. 2 serial:",
        "  let row_1: int32 = bx * i_1",
        "  X[row_1] = 1.0",
    ]


def test_straight_line_reassignment() -> None:
    def again(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            value = X[bx]
            value = value + 1
            value *= 2
            X[bx] = value
            index = bx + 1
            index = X[index]
            X[bx] = index

    assert body(again) == [
        "var value: float32 = X[bx]",
        "value = value + 1.0",
        "value = value * 2.0",
        "X[bx] = value",
        "let index: int32 = bx + 1",
        "let index_1: float32 = X[index]",
        "X[bx] = index_1",
    ]


def test_alloc_var() -> None:
    def variable(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            a = T.alloc_var(T.float32)
            b = T.alloc_var("int32", init=bx)
            for i in T.serial(4):
                a = a + i
                b[0] = b + 1
            T.clear(b)
            X[b] = a[0]

    assert body(variable) == [
        "var a: float32 = 0.0",
        "var b: int32 = bx",
        "for i in 0 .. 4 serial:",
        "  a = a + float32(i)",
        "  b = b + 1",
        "b = 0",
        "X[b] = a",
    ]


def test_annotated_scalars() -> None:
    def typed(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            narrow: T.float16 = X[bx]
            count: int = 3
            index: T.int64 = count
            X[index] = narrow

    assert body(typed) == [
        "let narrow: float16 = float16(X[bx])",
        "let index: int64 = 3",
        "X[index] = float32(narrow)",
    ]


def test_parallel_assignment_reads_before_it_writes() -> None:
    def swap(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            X[bx], X[0] = X[0], X[bx]
            a, b = X[bx], 1.0
            for i in T.serial(3):
                a, b = b, a
            X[bx] = a + b

    assert body(swap) == [
        "let value: float32 = X[0]",
        "let value_1: float32 = X[bx]",
        "X[bx] = value",
        "X[0] = value_1",
        "var a: float32 = X[bx]",
        "var b: float32 = 1.0",
        "for i in 0 .. 3 serial:",
        "  let a_new: float32 = b",
        "  let b_new: float32 = a",
        "  a = a_new",
        "  b = b_new",
        "X[bx] = a + b",
    ]


def test_tuples_keep_the_values_of_their_time() -> None:
    def pack(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            step = bx + 1
            pair = (step, X[bx], step * 2)
            step = step + 1
            X[bx] = pair[1]
            X[pair[0]] = pair[2]

    assert body(pack) == [
        "var step: int32 = bx + 1",
        "let pair: int32 = step",
        "let pair_1: float32 = X[bx]",
        "let pair_2: int32 = step * 2",
        "step = step + 1",
        "X[bx] = pair_1",
        "X[pair] = float32(pair_2)",
    ]


def test_names_outside_the_kernel_are_expressions() -> None:
    def before(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        blocks = T.ceildiv(N, 64)
        last = N - 1
        with T.Kernel(blocks) as bx:
            X[last] = 0.0

    assert body(before) == ["X[N - 1] = 0.0"]


def test_names_are_unique_and_safe() -> None:
    def names(X, float_: Any = None):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as threadIdx:
            α = X[threadIdx]
            kBlock = α + 1
            int = kBlock + 1
            X__y = int + 1
            X[0] = X__y

    program = parse(names)
    lets = [s.var.name for s in each_statement(program.kernel.body) if isinstance(s, Let)]
    assert lets == ["alpha", "kBlock_", "int_", "X_y"]
    assert program.kernel.block_vars[0].name == "threadIdx_"


def test_use_before_assignment_and_unknown_names() -> None:
    def early(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            X[bx] = later
            later = 3.0

    wrong = fault(early)
    assert (wrong.line, wrong.underlined) == ("X[bx] = later", "later")
    assert wrong.message == "later is used before it is assigned"
    assert wrong.remedy.startswith("its first assignment is on line ")

    def typo(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            A_shared = T.alloc_shared((64,), T.float32)
            T.clear(A_shred)
            X[bx] = A_shared[0]

    wrong = fault(typo)
    assert (wrong.line, wrong.underlined) == ("T.clear(A_shred)", "A_shred")
    assert (wrong.message, wrong.remedy) == ("A_shred is not defined", "did you mean A_shared?")


def test_names_end_with_their_block() -> None:
    def ended(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            for i in T.serial(4):
                last = X[i]
            X[bx] = last

    wrong = fault(ended)
    assert (wrong.line, wrong.underlined) == ("X[bx] = last", "last")
    assert wrong.message == "last has a value only inside the block that assigns it"
    assert wrong.related == ["for i in T.serial(4):"]


def test_integers_do_not_become_floats_in_silence() -> None:
    def narrow(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            index = T.alloc_var(T.int32)
            for i in T.serial(4):
                index = index + X[i]
            X[index] = 0.0

    wrong = fault(narrow)
    assert wrong.line == "index = index + X[i]"
    assert wrong.message == "index is int32 and is assigned a float32 value"
    assert wrong.remedy == "declare it as index = T.alloc_var(T.float32), or convert with T.cast"
    assert wrong.related == ["index = T.alloc_var(T.int32)"]


def test_python_values_cannot_change_inside_the_kernel() -> None:
    def rebind(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2, threads=64) as bx:
            front = T.alloc_shared((64,), T.float32)
            back = T.alloc_shared((64,), T.float32)
            T.clear(front)
            T.clear(back)
            for i in T.serial(4):
                front, back = back, front
            T.copy(front, X[0])

    wrong = fault(rebind)
    assert (wrong.line, wrong.underlined) == ("front, back = back, front", "front")
    assert wrong.message.startswith("front is a buffer outside this block of the kernel")

    def grow(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            values = [0, 0]
            for i in T.serial(4):
                values[0] = 1
            X[bx] = values[0]

    wrong = fault(grow)
    assert (wrong.line, wrong.underlined) == ("values[0] = 1", "values[0]")
    assert wrong.remedy == "use T.alloc_local for an array of each thread's own"


def test_a_name_bound_anew_inside_a_block_has_no_value_after_it() -> None:
    def shadow(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            k = "outer"
            for k in T.serial(4):
                X[k] = 0
            X[bx] = len(k)

    wrong = fault(shadow)
    assert (wrong.line, wrong.underlined) == ("X[bx] = len(k)", "k")
    assert wrong.message == "k has a value only inside the block that assigns it"

    def again(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(2) as bx:
            for k in T.serial(4):
                X[k] = 0
            k = 3
            X[bx] = k

    assert body(again)[-1] == "X[bx] = 3.0"


def test_annotations_written_as_strings() -> None:
    def text(X):
        X: "T.Tensor((64,), T.float32)"
        with T.Kernel(2) as bx:
            y: "T.float16" = X[bx]
            X[bx] = y

    assert body(text)[0] == "let y: float16 = float16(X[bx])"

    def broken(X):
        X: "T.Tensor((64,), missing)"
        with T.Kernel(2) as bx:
            X[bx] = 0

    wrong = fault(broken)
    assert wrong.message == "missing is not defined"
    assert wrong.underlined == '"T.Tensor((64,), missing)"'
