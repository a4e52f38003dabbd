"""The gate: what it lets through, and what it must not."""

from __future__ import annotations

import math

import pytest

from benchmarks import correctness
from benchmarks.correctness import TOLERANCES, Block, Output, compare, judge, product

torch = pytest.importorskip("torch")


def matrices(dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(shape, generator=generator) for shape in ((96, 200), (200, 136)))
    return a.to(dtype), b.to(dtype)


def right_output(dtype=torch.float16):
    a, b = matrices(dtype)
    output = Output((96, 136), dtype, "cpu")
    output.tensor.copy_((a.double() @ b.double()).to(dtype))
    return output, product(a, b)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_right_result_passes(name):
    output, reference = right_output(getattr(torch, name))
    verdict = compare(output, reference, TOLERANCES[name])
    assert verdict.passed, verdict


def test_one_wrong_element_fails():
    output, reference = right_output()
    output.tensor[17, 23] += 1.0
    verdict = compare(output, reference, TOLERANCES["float16"])
    assert verdict.mismatches == 1
    assert not verdict.passed


def test_an_unwritten_element_fails():
    output, reference = right_output()
    output.tensor[95, 135] = math.nan
    verdict = compare(output, reference, TOLERANCES["float16"])
    assert verdict.unwritten == 1
    assert not verdict.passed


def test_a_write_outside_fails():
    output, reference = right_output()
    output._whole[4095] = 0.0
    assert not compare(output, reference, TOLERANCES["float16"]).passed


def test_zeros_fail():
    output, reference = right_output()
    output.tensor.zero_()
    assert not compare(output, reference, TOLERANCES["float16"]).passed


def test_outputs_are_poisoned_before_each_run():
    output, reference = right_output()
    assert not judge(lambda: None, output, reference, TOLERANCES["float16"]).passed


def test_an_output_that_the_competitor_makes_is_compared():
    a, b = matrices()
    output, reference = right_output()
    verdict = judge(lambda: (a.double() @ b.double()).half(), output, reference, TOLERANCES["float16"])
    assert verdict.passed


def test_the_reference_takes_transposed_views_and_a_relu():
    a, b = matrices()
    (block,) = product(a.T.contiguous().T, b, relu=True)
    assert torch.equal(block.values, (a.double() @ b.double()).clamp(min=0))


def test_a_large_reference_covers_blocks_of_rows(monkeypatch):
    monkeypatch.setattr(correctness, "_WHOLE", 1000)
    a = torch.randn(2048, 8).half()
    b = torch.randn(8, 16).half()
    blocks = product(a, b)
    assert len(blocks) > 1
    for block in blocks:
        assert isinstance(block, Block)
        assert torch.equal(block.values, a[block.index].double() @ b.double())
