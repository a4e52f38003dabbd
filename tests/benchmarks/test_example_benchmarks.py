"""The benchmarks of examples: references against torch, and how an example's kernel is called."""

from __future__ import annotations

import pytest

from benchmarks import attention, own, row_kernels
from benchmarks.correctness import TOLERANCES, Output, compare, judge, product
from benchmarks.suite import BENCHMARKS

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [48, 2600])
def test_the_attention_reference_is_torchs(causal, length, monkeypatch):
    monkeypatch.setattr(attention, "_HEADS", 2)
    generator = torch.Generator().manual_seed(0)
    q = torch.randn((1, length, 4, 16), generator=generator, dtype=torch.float64)
    k, v = (torch.randn((1, length, 2, 16), generator=generator, dtype=torch.float64) for _ in "kv")
    whole = torch.nn.functional.scaled_dot_product_attention(
        *(tensor.transpose(1, 2) for tensor in (q, k, v)), is_causal=causal, enable_gqa=True
    ).transpose(1, 2)
    blocks = attention.reference(q, k, v, causal)
    assert blocks
    for block in blocks:
        torch.testing.assert_close(block.values, whole[block.index])
    output = Output(whole.shape, torch.float16, "cpu")
    output.tensor.copy_(whole)
    assert compare(output, blocks, TOLERANCES["float16"]).mismatches == 0


@pytest.mark.parametrize("operation", ["softmax", "rms_norm", "layer_norm"])
def test_row_references_cover_the_ends_and_pass_torchs_own_result(operation):
    inputs = [torch.randn(5000, 96).half()]
    inputs += [torch.randn(96).half()] * {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[operation]
    blocks = row_kernels.reference(operation, tuple(inputs))
    assert blocks[0].index[0].start == 0
    assert blocks[-1].index[0].stop == 5000
    function = row_kernels.torch_function(operation, 96)
    output = Output((5000, 96), torch.float16, "cpu")
    assert judge(lambda: function(*inputs), output, blocks, row_kernels._TOLERANCES["float16"]).passed


def test_an_example_runs_into_a_poisoned_output(require_tool):
    require_tool("host_compiler")
    a, b = torch.randn(72, 40).half(), torch.randn(40, 136).half()
    output = Output((72, 136), torch.float16, "cpu")
    made = own.candidates("matmul", (a, b), output, {"block_N": 64}, "nvrtc", [{"no_such_word": 1}])
    assert list(made) == ["default"]
    run = made["default"]()
    assert judge(run, output, product(a, b, relu=True), TOLERANCES["float16"]).passed


def test_a_missing_example_has_no_candidates():
    output = Output((8, 8), torch.float16, "cpu")
    assert own.candidates("no_such_example", (), output, {}, "nvrtc") == {}
    with pytest.raises(own.ExampleMissing, match=r"no_such_example\.py"):
        own.example("no_such_example")


def test_every_benchmark_names_its_cases_once():
    for benchmark in BENCHMARKS:
        names = [case.name for case in benchmark.cases]
        assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("columns", [4096, 16384])
def test_tiles_of_rows_fit_the_threads_that_hold_them(columns):
    tried = row_kernels.schedules(columns)
    assert tried
    assert all(schedule["rows"] * columns // schedule["threads"] <= 64 for schedule in tried)
