"""Gemms whose warps share k: how many parts, and which warp has which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.inference import gemm_mfma, gemm_mma_sync, gemm_wgmma
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Mode
from tilegen.ir import build
from tilegen.ir.nodes import Buffer, Gemm, Region, Scope
from tilegen.ir.types import DType, float16, float32
from tilegen.target import load_target

FAMILIES = {"sm_90a": gemm_wgmma, "sm_80": gemm_mma_sync, "gfx942": gemm_mfma}


def region(name: str, shape: tuple[int, int], scope: Scope, dtype: DType) -> Region:
    buffer = Buffer(name, tuple(map(build.const, shape)), dtype, scope)
    return Region(buffer, (build.const(0), build.const(0)), shape)


def gemm(m: int, n: int, k: int, a_scope: Scope = "shared") -> Gemm:
    a, b = region("A", (m, k), a_scope, float16), region("B", (k, n), "shared", float16)
    return Gemm(a, b, region("C", (m, n), "fragment", float32), False, False, "sliced_k", False)


def decided(target: str, node: Gemm, threads: int) -> GemmDecision:
    family, machine = FAMILIES[target], load_target(target)
    assert family.why_not(node, threads, machine) is None
    return family.decide(node, threads, machine)


@pytest.mark.parametrize(
    ("target", "shape", "threads", "parts", "warps"),
    [
        ("sm_90a", (64, 16, 64), 256, 2, (1, 1)),
        ("sm_90a", (64, 16, 64), 512, 4, (1, 1)),
        ("sm_90a", (64, 128, 32), 512, 2, (1, 2)),  # k is two instructions deep
        ("sm_90a", (128, 64, 128), 512, 2, (2, 1)),  # sums of four parts would take half of shared memory
        ("sm_80", (16, 16, 128), 256, 8, (1, 1)),
        ("gfx942", (16, 16, 64), 256, 4, (1, 1)),
    ],
)
def test_parts(
    target: str, shape: tuple[int, int, int], threads: int, parts: int, warps: tuple[int, int]
) -> None:
    decision = decided(target, gemm(*shape), threads)
    assert (decision.k_parts, decision.warps) == (parts, warps)
    assert decision.k_extent * parts == shape[2]
    assert decision.c.replication == parts and decision.c.thread_count == threads


@pytest.mark.parametrize("target", FAMILIES)
def test_the_slowest_digit_of_a_warp_says_which_part_it_has(target: str) -> None:
    decision = decided(target, gemm(64, 32, 128, "fragment"), 256)
    assert decision.a is not None and decision.k_parts > 1
    assert decision.a.threads[-1] == Mode(decision.k_parts, (0, decision.k_extent))
    assert decision.c.threads[-1] == Mode(decision.k_parts, (0, 0))
    assert decision.a.tile == (64, 128)


def test_one_warp_has_nobody_to_share_with() -> None:
    assert decided("sm_90a", gemm(64, 16, 64), 128).k_parts == 1


@pytest.mark.parametrize("target", FAMILIES)
def test_k_that_no_parts_divide(target: str) -> None:
    node = gemm(64, 32, 16 if target != "gfx942" else 8)
    reason = FAMILIES[target].why_not(node, 256, load_target(target))
    assert reason is not None and "cannot share the k of" in reason
    assert FAMILIES["sm_80"].why_not(replace(node, policy="square"), 256, load_target("sm_80")) != reason
