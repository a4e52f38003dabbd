"""A pipelined loop inside another, however deep, is refused; beside another, or inside a serial loop, it is not."""

# mypy: ignore-errors

import pytest

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.frontend import parse
from tilegen.ir.verify import verify


def nested(A, outer="pipelined", between="serial"):
    A: T.Tensor((64, 64), T.float32)
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_shared((16, 64), T.float32)
        for _k in T.Pipelined(2, num_stages=2) if outer == "pipelined" else T.serial(2):
            for j in T.serial(2) if between == "serial" else T.unroll(2):
                if bx > j:
                    for i in T.Pipelined(4, num_stages=2):
                        T.copy(A[16 * i, 0], tile)
                        T.copy(tile, A[16 * i, 0])
        for m in T.Pipelined(4):
            T.copy(A[16 * m, 0], tile)


@pytest.mark.parametrize("between", ["serial", "unroll"])
def test_a_pipeline_inside_a_pipeline(between: str) -> None:
    with pytest.raises(ProgramError, match=r"T\.Pipelined stands inside another T\.Pipelined") as caught:
        verify(parse(nested, {}, {"between": between}))
    text = str(caught.value)
    assert "for i in T.Pipelined(4, num_stages=2):" in text
    assert "for _k in T.Pipelined(2, num_stages=2)" in text
    assert "make the outer loop T.serial" in text


def test_a_pipeline_inside_a_serial_loop() -> None:
    verify(parse(nested, {}, {"outer": "serial"}))
