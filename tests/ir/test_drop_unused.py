"""Allocations that nothing uses."""

# mypy: ignore-errors

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.drop_unused import drop_unused


def copies(X, spare: bool = False):
    X: T.Tensor((64, 64), T.float32)
    Y = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((64, 64), T.float32)
        if spare:
            T.alloc_fragment((64, 64), T.float32)
            y = T.alloc_shared((64, 64), T.float32)
            T.annotate_layout({y: None})
        T.copy(X, x)
        T.copy(x, Y)
    return Y


def test_only_what_is_used_stays() -> None:
    plain = parse(copies, {}, {})
    assert drop_unused(plain) is plain
    kept = drop_unused(parse(copies, {}, {"spare": True})).kernel
    assert [buffer.name for buffer in kept.allocations] == ["x"]
    assert kept.annotations == ()
