"""The arguments of a launcher, as the comment at the head of a file tells them."""

from __future__ import annotations

import pytest

from tilegen.emit.header_comment import tensor_text
from tilegen.ir.types import float16
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.kernel import TensorArgument

ROWS = Operation("+", Name("M"), Literal(128))


@pytest.mark.parametrize(
    ("extent", "told"),
    [
        (Operation("/", Operation("-", ROWS, Literal(1)), Literal(128)), "ceil(M / 128)"),
        (Operation("/", Operation("+", Name("M"), Literal(127)), Literal(128)), "ceil(M / 128)"),
        (Operation("/", Operation("+", Name("M"), Literal(126)), Literal(128)), "(M + 126) / 128"),
        (Operation("/", Operation("-", ROWS, Literal(1)), Literal(64)), "(M + 128 - 1) / 64"),
        (c.mul(2, Name("M")), "2 * M"),
    ],
)
def test_an_extent_that_is_rounded_up_is_told_as_that(extent: CExpr, told: str) -> None:
    tensor = TensorArgument("Y", float16, (extent, Name("N")), None, "output")
    assert tensor_text(tensor) == f"fp16 [{told}, N] row-major, 16-byte aligned"
