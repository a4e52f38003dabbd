"""Words on tiles: what they refuse, and how they say it."""

# Tile programs, wrong on purpose.
# ruff: noqa: SIM105

from __future__ import annotations

import itertools
import linecache
from typing import Any

import pytest
from frontend_faults import fault

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.verify import verify

_numbers = itertools.count()


def _program(statement: str, header: str = "with T.Kernel(4, threads=128) as bx:", extra: str = "") -> Any:
    """A program with X: (256, 64) fp16, A, B: (64, 64) fp16 shared, C: (64, 64) fp32 fragment, v: (64,) fragment."""
    text = f"""\
def program(X, n: T.int32):
    X: T.Tensor((256, 64), T.float16)
    Y = T.empty((64, 64), T.float32)
    {extra or "pass"}
    {header}
        A = T.alloc_shared((64, 64), T.float16)
        B = T.alloc_shared((64, 32), T.float16)
        C = T.alloc_fragment((64, 32), T.float32)
        v = T.alloc_fragment((64,), T.float32)
        T.copy(X[0, 0], A)
        T.clear(B)
        {statement}
        Y[0, 0] = 0
    return Y
"""
    name = f"<program {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"T": T}
    exec(compile(text, name, "exec"), space)
    return space["program"]


WRONG = [
    # statement, underlined, message, remedy, quoted related lines
    ("T.gemm(A, B, C)", "T.gemm(A, B, C)", "T.gemm adds to C, which nothing has initialised",
     "write T.clear(C) before the loop, or pass clear_accum=True", ["C = T.alloc_fragment((64, 32), T.float32)"]),
    ("T.gemm(B, A, C, clear_accum=True)", "T.gemm(B, A, C, clear_accum=True)",
     "T.gemm needs one K, but B (64, 32) has 32 and A (64, 64) has 64",
     "A is (M, K), B is (K, N), C is (M, N); transpose_A and transpose_B swap the axes of A and B",
     ["B = T.alloc_shared((64, 32), T.float16)", "A = T.alloc_shared((64, 64), T.float16)"]),
    ("T.gemm(A, B, C, transpose_B=True, clear_accum=True)", "T.gemm(A, B, C, transpose_B=True, clear_accum=True)",
     "T.gemm needs one K, but A (64, 64) has 64 and B (64, 32) has 32",
     "these shapes fit with transpose_A=False, transpose_B=False", None),
    ("T.gemm(A, B, C[0:32, :], clear_accum=True)", "T.gemm(A, B, C[0:32, :], clear_accum=True)",
     "T.gemm needs one M, but A (64, 64) has 64 and C (32, 32) has 32", "", None),
    ("T.gemm(A, B, A, clear_accum=True)", "T.gemm(A, B, A, clear_accum=True)",
     "C of T.gemm is A, which lies in shared memory", "accumulate in a tile of T.alloc_fragment", None),
    ("T.gemm(X[0:64, :], B, C, clear_accum=True)", "T.gemm(X[0:64, :], B, C, clear_accum=True)",
     "A of T.gemm is X, which lies in global memory", "copy it to a tile of T.alloc_shared first", None),
    ("T.gemm(A[0, 0], B, C)", "A[0, 0]", "T.gemm needs a tile, but A is indexed down to a single element",
     "start : start + size", None),
    ("T.gemm(A, B[:, 0], C)", "B[:, 0]", "B of T.gemm is a matrix, but B gives a tile of shape (64,)", "", None),
    ("T.gemm(A, B, C, policy='square')", "'square'", "policy of T.gemm is a T.GemmWarpPolicy", "Square", None),
    ("T.gemm(A, B, C, k_pack=3)", "3", "k_pack of T.gemm is 1 or 2, not 3", "", None),
    ("T.gemm(A, B, C, transpose_a=True)", "transpose_a=True", "T.gemm has no argument transpose_a",
     "did you mean transpose_A?", None),
    ("T.gemm(A, B)", "T.gemm(A, B)", "T.gemm: missing a required argument: 'C'", "its arguments are A, B, C", None),
    ("T.gem(A, B, C)", "T.gem", "the tile language has no word T.gem", "did you mean T.gemm?", None),
    ("T.copy(A, B)", "T.copy(A, B)",
     "T.copy has tiles of different shapes: A gives (64, 64), B takes (64, 32)", "slice the larger side",
     ["A = T.alloc_shared((64, 64), T.float16)", "B = T.alloc_shared((64, 32), T.float16)"]),
    ("T.copy(X[0:64, :], X[32, 0])", "T.copy(X[0:64, :], X[32, 0])",
     "T.copy moves a tile of X within X, where the two may overlap", "copy to a shared tile first",
     ["X: T.Tensor((256, 64), T.float16)"]),
    ("T.copy(A[0, 0], 3)", "3", "T.copy works on buffers, slices of them and elements of them", "", None),
    ("T.copy(v, X[0:64])", "T.copy(v, X[0:64])",
     "T.copy has tiles of different shapes: v gives (64,), X takes (64, 64)", "", None),
    ("T.copy(X[0], A[0, 0, 0])", "A[0, 0, 0]", "A has 2 axes but is indexed with 3", "its shape is (64, 64)", None),
    ("T.copy(A, v)", "T.copy(A, v)", "T.copy has tiles of different shapes: A gives (64, 64), v takes (64,)", "", None),
    ("T.copy(A, v[0])", "v[0]", "v has 1 axes, but the tile of the other side has 2: (64, 64)", "slice the tile", None),
    ("T.reduce_sum(A, v, dim=2)", "2", "dim 2 does not exist: A gives a tile of shape (64, 64)",
     "dim lies between -2 and 1", None),
    ("T.reduce_sum(B, v, dim=0)", "T.reduce_sum(B, v, dim=0)",
     "reducing axis 0 of B (64, 32) gives (32,), but v is (64,)", "", None),
    ("T.reduce_sum(A, v, 1, False)", "T.reduce_sum(A, v, 1, False)",
     "the reduction joins with the old value of v, which nothing has initialised", "or pass clear=True", None),
    ("T.reduce_bitor(A, v)", "T.reduce_bitor(A, v)", "bitor needs integers, but A is float16", "T.reinterpret", None),
    ("T.reduce_sum(X[0:64, :], v)", "T.reduce_sum(X[0:64, :], v)",
     "the reduction works on X in global memory", "", None),
    ("T.reduce(A, v, 'mean')", "'mean'", "'mean' is not a reduction", "they are sum, max, min", None),
    ("T.atomic_add(v, v)", "T.atomic_add(v, v)",
     "an atomic updates v, which lies in fragment memory that no other thread sees", "plain assignment", None),
    ("T.atomic_add(Y[0, 0], 1)", "T.atomic_add(Y[0, 0], 1)",
     "an atomic updates Y, but a new output tensor holds no values yet", "pass a zeroed tensor", None),
    ("T.atomic_add(X[0, 0], 1, memory_order='acquire')", "'acquire'", "atomics of the tile language are relaxed", "",
     None),
    ("for i in T.Parallel(4): T.atomic_add(A, 1)", "A", "in T.Parallel a single value updates a single element",
     "move the operation out of the loop", None),
    ("T.atomic_add(C, 1)", "T.atomic_add(C, 1)",
     "an atomic updates C, which lies in fragment memory that no other thread sees", "plain assignment", None),
    ("T.atomic_add(3, 1)", "3", "T.atomic_add updates a buffer", "", None),
    ("T.clear(v); T.sum_blocks(v, 0)", "0", "axis of T.sum_blocks is one of the kernel's block variables",
     "pass one of bx",
     None),
    ("T.sum_blocks(A, bx)", "A", "T.sum_blocks adds up whole fragments; A lies in shared memory",
     "pass what T.alloc_fragment made", None),
    ("F = T.alloc_fragment((64,), T.float8_e4m3fn); T.clear(F); T.sum_blocks(F, bx)", "F",
     "T.sum_blocks adds up floats of 16 bits or more; F holds float8_e4m3fn", "add up that", None),
    ("T.sum_blocks([], bx)", "[]", "T.sum_blocks adds up different fragments, at least one of them", "", None),
    ("T.sum_blocks([v, v], bx)", "[v, v]", "T.sum_blocks adds up different fragments, at least one of them", "", None),
    ("T.sum_blocks(v, bx)", "T.sum_blocks(v, bx)", "v is read, but nothing has written it before", "T.clear(v)", None),
    ("for i in T.serial(2): T.sum_blocks(v, bx)", "T.sum_blocks(v, bx)",
     "T.sum_blocks ends all blocks but one, and stands in a loop or a branch",
     "at the level of the kernel's body", None),
    ("T.clear(v); T.sum_blocks(v, bx); T.sum_blocks(v, bx)", "T.sum_blocks(v, bx)",
     "only one block of several is left here, and T.sum_blocks would add up again",
     "T.sum_blocks([C_local, D_local], axis)", None),
    ("T.copy(v, Y[0, 0])", "T.copy(v, Y[0, 0])", "v is read, but nothing has written it before",
     "copy to it or fill it first, such as T.clear(v)", ["v = T.alloc_fragment((64,), T.float32)"]),
    ("T.copy(Y, C)", "T.copy(Y, C)",
     "T.copy has tiles of different shapes: Y gives (64, 64), C takes (64, 32)", "", None),
    ("T.copy(Y[0, 0], v)", "T.copy(Y[0, 0], v)",
     "Y is a new output tensor, and is read before anything is written to it", "make it a parameter", None),
    ("v[0] = 1", "v[0] = 1",
     "an element of the fragment v is used outside a T.Parallel loop, where no thread is known to hold it",
     "for i in T.Parallel(…)", ["v = T.alloc_fragment((64,), T.float32)"]),
    ("x = C[0, 0]", "x = C[0, 0]",
     "an element of the fragment C is used outside a T.Parallel loop, where no thread is known to hold it",
     "for i, j in T.Parallel(…)", None),
    ("for i in T.Parallel(65): v[i] = 0", "v[i] = 0",
     "index i reaches 64 on axis 0 of v, which has 64 elements", "valid indices are 0 … 63", None),
    ("for i, j in T.Parallel(64): v[i] = 0", "i, j", "T.Parallel has 1 extent, but the loop has 2 variables",
     "write one variable an extent: for i in T.Parallel(…)", None),
    ("for i in T.Parallel(8, 8): v[i] = 0", "i", "T.Parallel has 2 extents, but the loop has 1 variable",
     "for i, j in T.Parallel(…)", None),
    ("for i in T.Parallel(8): T.clear(v)", "", "a tile operation stands inside a T.Parallel loop",
     "move the operation out", None),
    ("for i in T.Parallel(8): T.sync_threads()", "",
     "T.sync_threads stands inside a T.Parallel loop, which not every thread runs alike",
     "put it after the loop", None),
    ("for i, j in T.Parallel(8, 8): v[i] = j", "",
     "iterations of T.Parallel that differ in j all write the same element of v", "reduce along j", None),
    ("for i in T.Parallel(0): v[i] = 0", "0", "an extent of T.Parallel is positive, not 0", "", None),
    ("for i in T.serial(10**12): v[i] = 0", "10**12",
     "a loop's bound of 1,000,000,000,000 is beyond a kernel's 32-bit indices (2,147,483,647)", "", None),
    ("for i in T.serial(0, 8, n): A[i, 0] = 0", "n", "the step of a loop of the kernel is a positive Python integer",
     "", None),
    ("for i in T.serial(8): break", "", "break cannot leave a loop of the kernel", "put the statements", None),
    ("for i in A: pass", "A", "a tile value cannot be iterated over", "loop over its indices", None),
    ("for i in T.Pipelined(8, num_stages=n): A[0, 0] = i", "n",
     "num_stages of T.Pipelined is a Python integer, 0 or more, not a value that only the kernel knows", "", None),
    ("for i in T.Pipelined(8, num_stages=-1): A[0, 0] = i", "-1", "num_stages of T.Pipelined is 0 or more, not -1", "",
     None),
    ("for i in T.Pipelined(8, order=[0, 1]): A[0, 0] = i", "for i in T.Pipelined(8, order=[0, 1])",
     "order has 2 entries, but the loop's body has 1 statements", "one integer a statement", None),
    ("for i in T.Pipelined(8, order=[3]): A[0, 0] = i", "for i in T.Pipelined(8, order=[3])",
     "order [3] is not an order of 1 statements", "use each of 0 … 0 once", None),
    ("for i in T.Pipelined(8, order=[0], stage=[0, 1]): A[0, 0] = i", "[0, 1]", "order has 1 entries, stage has 2", "",
     None),
    ("for i in T.serial(2.5): A[0, 0] = i", "2.5", "a loop's bound is an integer, not float32", "", None),
    ("T.Parallel(8)", "T.Parallel(8)", "T.Parallel only makes sense in a for statement",
     "for i in T.Parallel(…):", None),
    ("loop = T.Parallel(8)", "T.Parallel(8)", "loops and kernels cannot be given names", "", None),
    ("A[0, 0]", "A[0, 0]", "this value is computed and thrown away", "assign it to a name", None),
    ("while n > 0: pass", "n > 0", "a while loop's condition depends on values that only the kernel knows",
     "T.serial(bound)", None),
    ("del A", "del A", "del has no meaning in a tile program", "remove the line", None),
    ("global Z", "global Z", "global names cannot be changed by a tile program", "pass the value as a parameter", None),
    ("class Z: pass", "", "a class cannot be defined in a tile program", "define it outside", None),
    ("with open('x') as f: pass", "open('x')", "", "", None),
    ("with T.Kernel(4) as by: pass", "T.Kernel(4)", "a kernel is opened inside a kernel",
     "add the extents to the outer T.Kernel", ["with T.Kernel(4, threads=128) as bx:"]),
    ("return Y", "return Y", "return stands inside the kernel", "dedent the return", None),
    ("f = lambda i: i + bx", "bx", "a lambda captures bx, which only the kernel knows", "T.macro", None),
    ("x = (yield)", "yield", "yield cannot be used in a tile program", "", None),
    ("assert n > 0", "assert n > 0", "this assertion depends on values that only the kernel knows", "", None),
    ("x = f'{bx}'", "bx", "a string cannot hold a value that only the kernel knows", "", None),
    ("x = A.numpy", "A.numpy", "A has no attribute numpy", "a buffer has .shape", None),
    ("x = bx.real", "bx.real", "a value computed by the kernel has no attribute real", ".astype(dtype)", None),
    ("x = A @ B", "A", "A is a whole buffer where a single value is needed", "", None),
    ("x = n @ n", "n @ n", "the @ operator has no meaning for scalars", "T.gemm", None),
    ("x = A[0, 0] << 1", "A[0, 0] << 1", "<< needs integers, not float16 and int32", "T.reinterpret", None),
    ("x = A[0, 0] % 2", "A[0, 0] % 2", "% needs integers", "T.floor", None),
    ("x = n // 0", "n // 0", "an integer is divided by 0", "", None),
    ("x = 1 // 0", "1 // 0", "Python raises ZeroDivisionError here: integer division or modulo by zero", "", None),
    ("x = ~A[0, 0]", "~A[0, 0]", "~ needs an integer, not float16", "", None),
    ("x = n in (1, 2)", "n in (1, 2)", "in works on Python values only", "== and or", None),
    ("x = n(3)", "n", "a tile value cannot be called", "", None),
    ("x, y = n", "x, y", "a single value of the kernel cannot be unpacked", "", None),
    ("x, y = 1, 2, 3", "x, y", "2 names are bound to 3 values", "", None),
    ("A.name = 3", "A.name", "attributes cannot be assigned in a tile program", "", None),
    ("T.fill(A, 'x')", "'x'", "a scalar is needed here, not a Python str", "", None),
    ("Z = T.alloc_shared((n, 4), T.float16)", "(n, 4)",
     "the shape of a tile is fixed at generation time, but this extent is only known to the kernel", "Python integer",
     None),
    ("Z = T.alloc_shared((0, 4), T.float16)", "(0, 4)", "the shape of a tile holds positive integers, not 0", "", None),
    ("Z = T.alloc_shared((4,), 'float8')", "'float8'", "unknown element type 'float8'; did you mean float8_e4m3fn or "
     "float8_e5m2 or float8_e4m3fnuz?", "dtypes are", None),
    ("Z = T.alloc_shared((4,), 3)", "3", "a dtype is needed here, not 3", "dtypes are", None),
    ("Z = T.alloc_shared((4,), T.float16, scope='global')", "'global'",
     "the scope of T.alloc_shared is 'shared', not 'global'", "", None),
    ("T.use_swizzle(0)", "0", "panel_size of T.use_swizzle is a positive integer, not 0", "", None),
    ("T.use_swizzle(2, order='diagonal')", "'diagonal'", "order of T.use_swizzle is 'row' or 'column', not 'diagonal'",
     "", None),
    ("T.annotate_layout({X: 1})", "{X: 1}",
     "T.annotate_layout fixes layouts of shared tiles only, but X lies in global memory", "T.StridedTensor", None),
    ("for t in T.Persistent([4], 8, bx): A[t, 0] = 0", "8",
     "wave_size of T.Persistent differs from the number of blocks",
     "pass the grid's extent", ["with T.Kernel(4, threads=128) as bx:"]),
    ("for t in T.Persistent([4], 4, n): A[t, 0] = 0", "n", "index of T.Persistent is the block's index",
     "pass bx, the variable of T.Kernel", None),
    ("for k in T.serial(2):\n            for t in T.Persistent([4], 4, bx): A[t, 0] = 0", "",
     "T.Persistent stands inside another loop", "make it the outermost loop", None),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=[case[0] for case in WRONG])
def test_wrong_statements(case: tuple[str, str, str, str, list[str] | None]) -> None:
    statement, underlined, message, remedy, related = case
    wrong = fault(_program(statement))
    assert wrong.line in statement.replace("            ", "") or wrong.line in statement
    assert message in wrong.message
    if underlined:
        assert wrong.underlined == underlined
    assert remedy in wrong.remedy
    if related is not None:
        assert wrong.related == related


HEADERS = [
    (
        "with T.Kernel(65536, 65536, threads=32) as (bx, by):",
        "the grid has 4,294,967,296 blocks, more than a launch can (2,147,483,647)",
        "let each block compute more",
    ),
    ("with T.Kernel(4, threads=100) as bx:", "threads=100 is not a positive multiple of 32", "threads=128"),
    ("with T.Kernel(4, threads=0) as bx:", "threads=0 is not a positive multiple of 32", "threads=32"),
    ("with T.Kernel(4, threads=2048) as bx:", "threads=2048 is more than a block holds", "at most 1024"),
    ("with T.Kernel(4, thread=128) as bx:", "T.Kernel has no argument thread", "did you mean threads?"),
    (
        "with T.Kernel(4, threads=n) as bx:",
        "threads of T.Kernel is a Python integer, not a value that only the",
        "",
    ),
    ("with T.Kernel(4, threads=[32, 4]) as bx:", "a block is one-dimensional, not (32, 4)", "product"),
    (
        "with T.Kernel(4, cluster_dims=(1, 2)) as bx:",
        "cluster_dims has 2 extents, but the grid has 1 axes",
        "",
    ),
    (
        "with T.Kernel(4, cluster_dims=0) as bx:",
        "cluster_dims holds positive integers, one a grid axis, not 0",
        "",
    ),
    ("with T.Kernel(4, min_blocks=0) as bx:", "min_blocks is a Python integer from 1 on, or None, not 0", ""),
    ("with T.Kernel(4, min_blocks=2.5) as bx:", "from 1 on, or None, not 2.5", ""),
    ("with T.Kernel(4, min_blocks=True) as bx:", "from 1 on, or None, not True", ""),
    ("with T.Kernel(4, persistent=3) as bx:", "persistent is True, False or None", ""),
    ("with T.Kernel(1, 2, 3, 4) as bx:", "a grid has one to three axes, not 4", ""),
    ("with T.Kernel(0) as bx:", "grid axis 0 has 0 blocks", ""),
    ("with T.Kernel(2.5) as bx:", "a grid extent is an integer, not float32", "T.ceildiv"),
    ("with T.Kernel(4) as (bx, by):", "the grid has 1 axis, but 2 block variables are bound", "write: as bx"),
    (
        "with T.Kernel(4, 2) as (bx,):",
        "the grid has 2 axes, but 1 block variables are bound",
        "write: as (bx, by)",
    ),
]


@pytest.mark.parametrize("header, message, remedy", HEADERS, ids=[header for header, _, _ in HEADERS])
def test_wrong_kernels(header: str, message: str, remedy: str) -> None:
    wrong = fault(_program("pass", header=header))
    assert wrong.line == header
    assert message in wrong.message
    assert remedy in wrong.remedy


OUTSIDE = [
    ("T.copy(X, Y)", "T.copy stands outside the kernel"),
    ("Z = T.alloc_shared((4,), T.float16)", "T.alloc_shared stands outside the kernel"),
    ("X[0, 0] = 1", "an assignment to X stands outside the kernel"),
    ("for i in T.serial(4): X[0, i] = 0", "a T.serial loop stands outside the kernel"),
    ("T.clear(X)", "T.clear stands outside the kernel"),
    ("T.use_swizzle(4)", "T.use_swizzle stands outside the kernel"),
    ("T.sync_threads()", "T.sync_threads stands outside the kernel"),
    ("tx = T.get_thread_binding()", "T.get_thread_binding stands outside the kernel"),
    ("T.atomic_add(X[0, 0], 1)", "T.atomic_add stands outside the kernel"),
    ("T.sum_blocks(X, 0)", "T.sum_blocks stands outside the kernel"),
]


@pytest.mark.parametrize("statement, message", OUTSIDE, ids=[statement for statement, _ in OUTSIDE])
def test_statements_outside_the_kernel(statement: str, message: str) -> None:
    wrong = fault(_program("pass", extra=statement))
    assert wrong.line == statement
    assert wrong.message == message
    assert wrong.remedy == "move it into the with T.Kernel(…) block"


def test_a_second_kernel() -> None:
    def two(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            X[bx] = 0
        with T.Kernel(8) as by:
            X[by] = 1

    wrong = fault(two)
    assert (wrong.line, wrong.underlined) == ("with T.Kernel(8) as by:", "T.Kernel(8)")
    assert wrong.message == "the program opens a second kernel"
    assert wrong.related == ["with T.Kernel(8) as bx:"]


def test_persistent_twice() -> None:
    def twice(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(4, persistent=True) as block:
            for bx in T.Persistent([8], 4, block):
                X[bx] = 0

    wrong = fault(twice)
    assert wrong.line == "for bx in T.Persistent([8], 4, block):"
    assert wrong.underlined == "for bx in T.Persistent([8], 4, block)"
    assert wrong.remedy.startswith("remove persistent=True")
    assert wrong.related == ["with T.Kernel(4, persistent=True) as block:"]


def test_a_kernel_without_effect() -> None:
    def idle(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(4):
            x = T.alloc_fragment((64,), T.float32)
            T.copy(X, x)

    wrong = fault(idle)
    assert wrong.line == "with T.Kernel(4):"
    assert wrong.message == "the kernel writes no tensor, so that it has no effect"


def test_dtype_clashes_of_gemm() -> None:
    def mixed(X, a: Any = T.float16, b: Any = T.float16, c: Any = T.float32):
        X: T.Tensor((64, 64), a)
        with T.Kernel(1):
            A = T.alloc_shared((64, 64), a)
            B = T.alloc_shared((64, 64), b)
            C = T.alloc_fragment((64, 64), c)
            T.copy(X, A)
            T.copy(X, B)
            T.gemm(A, B, C, clear_accum=True)
            T.copy(C, X)

    wrong = fault(mixed, parameters={"b": T.bfloat16})
    assert wrong.line == wrong.underlined == "T.gemm(A, B, C, clear_accum=True)"
    assert wrong.message == "T.gemm multiplies A of float16 with B of bfloat16"
    assert (
        wrong.remedy == "copy one of them to a tile of the other's dtype; T.copy converts, say B to float16"
    )
    assert wrong.related == ["A = T.alloc_shared((64, 64), a)", "B = T.alloc_shared((64, 64), b)"]
    wrong = fault(mixed, parameters={"c": T.float16})
    assert wrong.message == "T.gemm accumulates products of float16 in float32, but C is float16"
    assert wrong.remedy == "allocate C as T.float32; a T.copy to the output converts"
    wrong = fault(mixed, parameters={"a": T.int32, "b": T.int32, "c": T.int32})
    assert wrong.message == "T.gemm has no product of int32 operands"
    wrong = fault(mixed, parameters={"a": T.float8_e4m3fn, "b": T.float8_e4m3fnuz})
    assert wrong.message == "T.gemm multiplies A of float8_e4m3fn with B of float8_e4m3fnuz"
    for kinds in (
        {"a": T.float8_e4m3fn, "b": T.float8_e5m2},
        {"a": T.int8, "b": T.int8, "c": T.int32},
        {"a": T.float64, "b": T.float64, "c": T.float64},
        {"a": T.bfloat16, "b": T.bfloat16},
    ):
        verify(parse(mixed, parameters=kinds))


def test_a_nested_parallel_loop_beside_statements() -> None:
    def nested(X):
        X: T.Tensor((8, 8), T.float32)
        with T.Kernel(1):
            for i in T.Parallel(8):
                X[i, 0] = 1
                for j in T.Parallel(8):
                    X[i, j] = 0

    wrong = fault(nested)
    assert wrong.line == "for i in T.Parallel(8):"
    assert wrong.related == ["for j in T.Parallel(8):"]


def test_breaking_a_generation_time_loop_under_a_tile_condition() -> None:
    def leave(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            for i in range(4):
                if bx > i:
                    break
                X[i] = 0

    wrong = fault(leave)
    assert wrong.line == wrong.underlined == "break"
    assert "under a condition that only the kernel knows" in wrong.message


def test_unsupported_compound_statements() -> None:
    def tries(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            try:
                X[bx] = 0
            except ValueError:
                pass

    wrong = fault(tries)
    assert wrong.line == "try:"
    assert wrong.message == "try cannot be used in a tile program: a kernel raises nothing"

    def matches(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:
            match bx:
                case 0:
                    X[bx] = 0

    wrong = fault(matches)
    assert wrong.line == "match bx:"

    def yields(X):
        X: T.Tensor((8,), T.float32)
        with T.Kernel(8) as bx:

            def numbers():
                yield 1

            X[bx] = 0

    wrong = fault(yields)
    assert (wrong.line, wrong.underlined) == ("yield 1", "yield 1")

    def condition(X, n: T.int32):
        X: T.Tensor((8,), T.float32)
        if n > 3:
            pass
        with T.Kernel(8) as bx:
            X[bx] = 0

    wrong = fault(condition)
    assert (wrong.line, wrong.underlined) == ("if n > 3:", "n > 3")
    assert wrong.remedy == "move the if into the with T.Kernel block"
