"""The GEMM benchmark's options, its costs, ncu's output, and a whole case on the CPU in the emulator's hands."""

from __future__ import annotations

import functools
import time

import pytest

from benchmarks import bank_conflicts, gemm, gemm_case, gemm_costs, kernels
from benchmarks.cases import UNSEEN, GemmCase
from benchmarks.contest import DEFAULT, OWN, Options
from benchmarks.schedules import Problem, default_schedule
from tilegen.calls.arrays import framework_named

torch = pytest.importorskip("torch")


class HostTimer:
    def each(self, runs):
        times = []
        for run in runs:
            start = time.perf_counter()
            run()
            times.append(1000 * (time.perf_counter() - start))
        return times


def emulated_launch(case, schedule, arrays, backend):
    """Stands in for the GPU: the emitted text in the emulator."""
    parameters = case.fixed_parameters() | ({} if schedule is None else schedule.parameters())
    program = kernels.matmul if case.kind == "matmul" else kernels.matmul_relu
    emission = program.emit(*case.specs(), target=case.target, **parameters)
    torch_arrays = framework_named("torch")
    a, b = torch_arrays.to_numpy(arrays.a), torch_arrays.to_numpy(arrays.b)
    result = torch_arrays.from_numpy(emission.emulate(a, b))

    def run():
        arrays.output.tensor.copy_(result)

    return run


@pytest.mark.parametrize("kind", ["matmul", "quick_start"])
def test_a_case_from_inputs_to_ratios(require_tool, monkeypatch, kind):
    require_tool("host_compiler")
    monkeypatch.setattr(gemm_case, "CudaTimer", HostTimer)
    monkeypatch.setattr(gemm_case, "make_arrays", functools.partial(gemm_case.make_arrays, device="cpu"))
    monkeypatch.setattr(gemm_case, "own_launch", emulated_launch)
    case = GemmCase(Problem(64, 64, 64), kind=kind, compare_default=True, bar=0.5)
    heard = []
    entry = gemm_case.run_case(heard.append, case, Options(search=1, rounds=2, peers=()))
    assert entry["status"] == "measured"
    assert not entry["wrong"]
    assert entry["norms"][OWN] < 1e-3
    assert set(entry["ratios"]) == {"cuBLAS", OWN} | ({DEFAULT} if kind == "matmul" else set())
    assert heard[0] == "inputs"
    assert heard[-2:] == ["rounds", "alternation"]


def test_options_choose_cases_and_measuring():
    arguments = gemm.parser().parse_args(["--quick", "--layouts", "NT", "--cases", "square4096,96x64x32"])
    cases = gemm.chosen_cases(arguments)
    assert [case.name for case in cases] == ["4096x4096x4096 fp16 NT", "96x64x32 fp16 NT"]
    options = gemm.measuring(arguments)
    assert (options.search, options.rounds, options.backend) == (8, 3, "nvrtc")
    assert gemm.measuring(gemm.parser().parse_args(["--no-search"])).search == 0
    assert len(gemm.chosen_cases(gemm.parser().parse_args([]))) == 29 + len(UNSEEN)


def test_ncu_is_asked_for_one_launch_and_its_table_is_read():
    case = GemmCase(Problem(4096, 4096, 4096), "bfloat16", "TN")
    schedule = default_schedule(case.stored, case.target)
    words = bank_conflicts.command(case, schedule, "nvcc")
    assert words[0] == "ncu"
    assert "--clock-control" in words and words[words.index("--launch-count") + 1] == "1"
    assert words[-1] == str(schedule)
    output = (
        "==PROF== Connected\n4096x4096x4096: norm 1e-4\n"
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","matmul","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum","","1,024"\n'
        '"0","matmul","sm__inst_executed_pipe_tensor.sum","inst","7"\n'
    )
    values = bank_conflicts.parse(output)
    assert dict(values)[bank_conflicts.METRICS[0]] == 1024.0
    assert bank_conflicts.parse("==ERROR== no permission") == ()
    found = bank_conflicts.Conflicts("a case", "a schedule", values, "")
    assert found.conflicts == 1024.0
    assert "1024" in bank_conflicts.lines([found])[0]


def test_costs_stand_beside_their_bars():
    costs = {
        "generation": {"generation_seconds": {"x": 0.05}, "nvrtc_seconds": {"x": 1.1}, "failed": {"y": "no"}},
        "launch_microseconds": {"jit": 9.5},
    }
    text = "\n".join(gemm.cost_lines(costs))
    assert "(bar 0.2): x 0.050" in text
    assert "(bar 12.0 beside the driver's): jit 9.5" in text
    assert "generation failed: y: no" in text


def test_a_time_is_the_median_after_a_warm_up():
    ticks = iter([0.0, 1.0, 1.0, 4.0, 4.0, 6.0])
    assert gemm_costs.seconds(lambda: None, 3, lambda: next(ticks)) == 2.0
