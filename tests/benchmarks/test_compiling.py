"""Compiling ahead: names that another machine finds again, retargeted files, and failures that do not stop the rest."""

from __future__ import annotations

import os

import pytest

from benchmarks.cases import GemmCase
from benchmarks.compiling import (
    Variant,
    backend_of,
    compile_all,
    compile_variant,
    gemm_variants,
    summary,
    write_note,
)
from benchmarks.gemm_case import searched
from benchmarks.isolation import Deadline
from benchmarks.schedules import Problem
from tilegen.runtime import compilation


def test_variants_are_what_the_cases_ask_for():
    case = GemmCase(Problem(4096, 4096, 4096))
    variants = gemm_variants([case, case], search=5)
    assert len(variants) == 5
    assert {v.program for v in variants} == {"benchmarks.kernels:matmul"}
    quick = gemm_variants([GemmCase(Problem(64, 64, 64), kind="quick_start")], search=5)
    assert [v.program for v in quick] == ["benchmarks.kernels:matmul_relu"]
    assert len(searched(GemmCase(Problem(64, 64, 64), compare_default=True), 6)) == 9


def test_a_refused_variant_is_reported():
    case = GemmCase(Problem(256, 256, 256))
    variant = Variant("benchmarks.kernels:matmul", case.specs(), "sm_90a", (("num_stages", 99),))
    result = compile_variant(variant, "nvcc")
    assert result.error
    assert "1 refused" in summary([result], 0)


def test_a_prepared_kernel_is_found_without_its_compiler(require_tool, tmp_path, monkeypatch):
    require_tool("nvcc")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    case = GemmCase(Problem(256, 256, 256))
    variant = Variant("benchmarks.kernels:matmul", case.specs(), "sm_90a", (("threads", 128),))
    first = compile_variant(variant, "nvcc")
    assert not first.error
    assert first.spills == 0

    def refuse(*arguments):
        raise AssertionError("the kernel was compiled again")

    monkeypatch.setattr(compilation, "_compile", refuse)
    assert compile_variant(variant, "nvcc") == first


def test_the_cache_name_does_not_depend_on_the_machine_with_nvcc(require_tool, tmp_path, monkeypatch):
    """What the name is made of: text, kernel, target, backend, options, tilegen's version."""
    names = []
    monkeypatch.setattr(compilation, "digest", lambda parts: names.append(tuple(parts)) or "name")
    monkeypatch.setattr(
        compilation,
        "cached",
        lambda name, make, folder, whole: (
            b'{"compiler": "", "registers": 1, "spills": 0, "static_shared_bytes": 0, "log": "", "sha256": ""}'
        ),
    )
    monkeypatch.setattr(compilation, "_compile", lambda *a: type("R", (), {"binary": b""}))
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    variant = Variant("benchmarks.kernels:matmul", GemmCase(Problem(256, 256, 256)).specs(), "sm_80", ())
    assert not compile_variant(variant, "nvcc").error
    (own, retargeted) = names
    assert own[2:4] == ("sm_80", "nvcc")
    assert any("sm_90" in part for part in retargeted[4:])
    for part in own[4:]:
        assert os.sep not in part


def test_the_note_decides_the_backend(tmp_path):
    assert backend_of(None, None) == "nvrtc"
    assert backend_of(tmp_path, None) == "nvrtc"
    write_note(tmp_path, "nvcc")
    assert backend_of(tmp_path, None) == "nvcc"
    assert backend_of(tmp_path, "nvrtc") == "nvrtc"


def test_a_budget_that_is_spent_leaves_variants_out():
    variants = gemm_variants([GemmCase(Problem(256, 256, 256))], search=3)
    results, left = compile_all(variants, "nvcc", 1, Deadline(0.0))
    assert results == []
    assert left == len(variants)


def test_an_unknown_program_fails_loudly():
    with pytest.raises(AttributeError):
        compile_variant(Variant("benchmarks.kernels:no_such_program", (), "sm_90a", ()), "nvcc")
