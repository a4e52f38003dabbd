"""Whole inferences: what gemms demand, what follows from it, what is free, and what cannot be."""

from __future__ import annotations

import pytest
from inference_programs import clashing, epilogue, projected, twice

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.frontend import parse
from tilegen.inference.decisions import Decisions
from tilegen.inference.infer import infer
from tilegen.ir.nodes import Copy, Gemm, ParallelFor, Program
from tilegen.ir.walk import each_statement
from tilegen.target import load_target

TARGETS = ("sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950")
FAMILY = {"sm_80": "mma_sync", "sm_89": "mma_sync", "sm_90a": "wgmma"}
SPECS = {"A": T.Tensor((256, 128), T.float16), "B": T.Tensor((128, 256), T.float16)}


def _inferred(program: Program, target: str) -> Decisions:
    return infer(program, load_target(target))


@pytest.mark.parametrize("target", TARGETS)
def test_gemms_fix_fragments_and_shared_layouts(target: str) -> None:
    program = parse(epilogue, {**SPECS, "bias": T.Tensor((256,), T.float32)})
    decisions = _inferred(program, target)
    (gemm,) = [s for s in each_statement(program.kernel.body) if isinstance(s, Gemm)]
    decision = decisions.gemms[gemm]
    assert decision.family == FAMILY.get(target, "mfma")
    accumulator = decisions.fragments["C_local"]
    assert accumulator == decision.c
    for loop in (s for s in program.kernel.body if isinstance(s, ParallelFor)):
        assert decisions.loops[loop].same_distribution(accumulator)
    last = program.kernel.body[-1]
    assert isinstance(last, Copy)
    assert decisions.loops[last].same_distribution(accumulator)
    for name in ("A_shared", "B_shared"):
        assert decisions.conflicts[name] == 0


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_read_by_columns_alone_is_replicated_over_rows(target: str) -> None:
    program = parse(epilogue, {**SPECS, "bias": T.Tensor((256,), T.float32)})
    decisions = _inferred(program, target)
    bias = decisions.fragments["bias_local"]
    accumulator = decisions.fragments["C_local"]
    assert bias.same_distribution(accumulator.project((1,), (128,)))
    assert bias.replication > 1


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_project_their_source(target: str) -> None:
    program = parse(projected, {"X": T.Tensor((64, 1024), T.float32)})
    decisions = _inferred(program, target)
    x, y = decisions.fragments["x"], decisions.fragments["y"]
    assert y.same_distribution(x.project((0,), (4,)))
    assert x.exact
    warp = load_target(target).limits.warp_size
    assert all(mode.steps[0] or mode.extent == warp for mode in x.threads)  # whole warps on a row


def test_annotated_names_of_clashing_gemms() -> None:
    program = parse(clashing, SPECS)
    with pytest.raises(ProgramError) as caught:
        _inferred(program, "sm_90a")
    text = str(caught.value)
    assert "C_local" in text
    assert "T.copy(C_local, C_local_2)" in text
    assert len(caught.value.related) == 1


def test_every_reason_is_quoted_when_no_family_fits() -> None:
    program = parse(twice, {"A": T.Tensor((24, 24), T.float16), "B": T.Tensor((24, 24), T.float16)})
    with pytest.raises(ProgramError, match=r"wgmma: .*mma_sync: "):
        _inferred(program, "sm_90a")


def test_dynamic_rows_are_taken_to_be_whole_vectors_unless_told_otherwise() -> None:
    program = parse(projected, {"X": T.Tensor(("M", 1024), T.float32)})
    assert infer(program, load_target("sm_90a")).fragments["x"].contiguous_registers(1) == 4
    rows = parse(projected, {"X": T.Tensor((64, 1023), T.float32)}, {"cols": 1023})
    assert infer(rows, load_target("sm_90a")).fragments["x"].contiguous_registers(1) == 1
