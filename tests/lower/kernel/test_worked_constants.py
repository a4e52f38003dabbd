"""Integers that the program computes from named ones: the text says how, under their names."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text
from hypothesis import given
from hypothesis import strategies as st

import tilegen.language as T
from tilegen.frontend.values import NamedInt, named_number, number_to_const
from tilegen.location import NOWHERE


def pairs(X, block: int = 64, group: int = 16, threads: int = 64):
    """Y[i, j] = X[i, 2 j] + X[i, 2 j + 1], of words of `group` a block."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N // 2), T.float32)
    with T.Kernel(M // (block // group), threads=threads) as bx:
        tile = T.alloc_shared((block // group, block * 2), T.float32)
        for k in T.serial(N // (block * 2)):
            T.copy(X[bx * (block // group), k * (block * 2)], tile)
            for i, j in T.Parallel(block // group, block):
                Y[bx * (block // group) + i, k * block + j] = tile[i, 2 * j] + tile[i, 2 * j + 1]
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_products_and_quotients_keep_their_names(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    text = kernel_text(generated(pairs, target, [x]))
    assert "bx * (kBlock / kGroup)" in text and "k * (kBlock * 2)" in text
    assert "bx * 4" not in text and "k * 128" not in text
    assert "k < kN / (kBlock * 2)" in text
    (found,) = emulated(pairs, target, [x], {"schedule": "random", "seed": 1})
    np.testing.assert_array_equal(found, x[:, ::2] + x[:, 1::2])


NUMBERS = st.one_of(
    st.integers(-40, 40), st.builds(NamedInt.of, st.integers(-40, 40), st.sampled_from(("block", "group")))
)


@given(NUMBERS, NUMBERS, st.sampled_from(("+", "-", "*", "//", "%", "<<")))
def test_arithmetic_is_that_of_integers(left: int, right: int, sign: str) -> None:
    plain = int(left), int(right)
    if (sign in ("//", "%") and plain[1] == 0) or (sign == "<<" and plain[1] < 0):
        return
    expected = eval(f"a {sign} b", {"a": plain[0], "b": plain[1]})
    found = eval(f"a {sign} b", {"a": left, "b": right})
    assert isinstance(found, int) and found == expected
    const = number_to_const(found, NOWHERE)
    assert const.value == expected
    if const.parts is not None:
        op, a, b = const.parts
        assert eval(f"{a.value} {op} ({b.value})") == expected and not const.name


def test_what_changes_nothing_keeps_the_name() -> None:
    assert (named_number(NamedInt.of(64, "block") // 2, "half")).parts == ("//", 64, 2)
    assert (NamedInt.of(64, "block") * 1).name == "block" == (0 + NamedInt.of(64, "block")).name
    assert type(NamedInt.of(64, "block") % 3) is int and NamedInt.of(64, "block") * 0.5 == 32.0


def replaced(X, block: int = 32, threads: int = 64):
    """A parameter that the program works out anew, and a name inside the kernel."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    block = block * 2
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        half = block // 2
        tile = T.alloc_shared((block,), T.float32)
        T.copy(X[bx * block], tile)
        for i in T.Parallel(block):
            Y[bx * block + i] = tile[(i + half) % block]
    return Y


def test_a_parameter_that_is_worked_out_keeps_its_name(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    files = generated(replaced, "sm_80", [x])
    assert "kBlock = 64" in files.source and "kBlock / 2" in kernel_text(files)
    (found,) = emulated(replaced, "sm_80", [x])
    np.testing.assert_array_equal(found, np.roll(x.reshape(2, 64), -32, 1).reshape(-1))


def far(X, rows: int = 65536, columns: int = 65536, threads: int = 64):
    """A product that no int holds, divided by what makes it small."""
    X: T.Tensor((64,), T.float32)
    Y = T.empty((64,), T.float32)
    with T.Kernel(1, threads=threads):
        for i in T.Parallel(64):
            Y[i] = X[(i + rows * columns // 268435456) % 64]
    return Y


def test_no_int_of_the_text_overflows(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    files = generated(far, "sm_80", [x])
    assert "kRows * kColumns" not in files.source
    (found,) = emulated(far, "sm_80", [x])
    np.testing.assert_array_equal(found, np.roll(x, -16))


def converted(X, bk: int = 101, threads: int = 64):
    """Computed numbers of other types than int: their text would be an int's."""
    X: T.Tensor((64,), T.float32)
    Y = T.empty((64,), T.float32)
    Z = T.empty((64,), T.int32)
    with T.Kernel(1, threads=threads):
        for i in T.Parallel(64):
            x = X[i]
            Y[i] = T.if_then_else(x > 0, T.cast(bk * 3, T.float32), T.cast(bk * 5, T.float32)) / T.cast(
                bk * 2, T.float32
            )
            Z[i] = T.cast(T.cast(bk * 3, T.int8), T.int32) + T.if_then_else(x > 0, 1, 0)
    return Y, Z


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_what_is_converted_is_no_int(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    y, z = emulated(converted, target, [x])
    np.testing.assert_array_equal(y, np.where(x > 0, np.float32(1.5), np.float32(2.5)))
    np.testing.assert_array_equal(z, 47 + (x > 0))


def test_a_quotient_times_its_divisor_is_the_number() -> None:
    k, block = NamedInt.of(8192, "K"), NamedInt.of(1024, "block")
    assert k // block * block is k
    assert ((k - 1) // block * block).parts is not None
    assert number_to_const(NamedInt.of(3, "a") - NamedInt.of(5, "b"), NOWHERE).value == -2
