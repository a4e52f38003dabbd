"""Words for registered operations."""

from __future__ import annotations

from typing import Any

import pytest
from frontend_faults import fault
from test_generation_time import body

import tilegen.language as T
from tilegen.errors import TilegenError
from tilegen.language.custom import CustomWord


def _scale(tile: Any, factor: Any, source: Any = None, *, mode: str = "fast") -> None:
    """tile = source * factor."""


scale = CustomWord("scale", _scale, {"tile": "write", "factor": "scalar", "source": "read"})
shift = CustomWord("shift", lambda tile: None, {"tile": "update"})


def test_a_call() -> None:
    def use(X):
        X: T.Tensor((64, 64), T.float32)
        with T.Kernel(1, threads=64) as bx:
            a = T.alloc_shared((2, 64, 64), T.float32)
            b = T.alloc_fragment((64, 64), T.float32)
            T.copy(X, a[0])
            scale(b, bx * 2, source=a[0, :, :], mode="slow")
            shift(b)
            T.copy(b, X)

    assert body(use)[1:3] == [
        "scale reads (a[0, 0:+64, 0:+64]) writes (b[0:+64, 0:+64]) with (bx * 2) mode=slow",
        "shift reads (b[0:+64, 0:+64]) writes (b[0:+64, 0:+64])",
    ]


def test_wrong_calls() -> None:
    def attribute(X):
        X: T.Tensor((64, 64), T.float32)
        with T.Kernel(1) as bx:
            b = T.alloc_fragment((64, 64), T.float32)
            scale(b, 1, b, mode=bx)

    wrong = fault(attribute)
    assert (wrong.underlined, wrong.message) == ("bx", "mode of scale is fixed at generation time")

    def keyword(X):
        X: T.Tensor((64, 64), T.float32)
        with T.Kernel(1):
            scale(X, 1, X, mod="slow")

    wrong = fault(keyword)
    assert (wrong.underlined, wrong.remedy) == ('mod="slow"', "did you mean mode?")


def test_wrong_words() -> None:
    with pytest.raises(TilegenError, match="the operation p has no parameter z"):
        CustomWord("p", _scale, {"z": "read"})
    with pytest.raises(TilegenError, match="the operation p writes no tile"):
        CustomWord("p", _scale, {"tile": "read"})
    with pytest.raises(T.OutsideKernelError, match=r"T\.scale was called by Python itself"):
        scale(1, 2)
    assert (repr(scale), scale.__doc__) == ("<tile operation scale>", "tile = source * factor.")
