"""The emulator: where its programs are kept on disk, and manifests that are damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.emulate import EmulationError
from tilegen.emulate.programs import program_folder


@tilegen.jit
def doubled(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i] * 2
    return B


def run() -> None:
    np.testing.assert_array_equal(
        doubled.emit(target="sm_80").emulate(np.ones(5, np.float32)), np.full(5, 2.0)
    )


def test_the_environment_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TILEGEN_CACHE", raising=False)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert program_folder() == tmp_path / "cache" / "emulator"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TILEGEN_CACHE_DIR", "~/other")
    assert program_folder() == tmp_path / "other" / "emulator"


def test_nothing_is_kept_where_the_cache_is_off(require_tool, monkeypatch, tmp_path):
    require_tool("host_compiler")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEGEN_CACHE", "0")
    run()
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_costs_only_time(require_tool, monkeypatch, tmp_path):
    require_tool("host_compiler")
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(blocker))
    run()


def test_a_damaged_manifest_is_told_as_such(require_tool):
    require_tool("host_compiler")
    emission = doubled.emit(target="sm_80")
    whole = json.loads(emission.manifest.to_json())
    damaged = [
        {name: value for name, value in whole.items() if name != missing}
        for missing in ("tensors", "parameters", "grid", "block", "kernel")
    ]
    damaged += [{**whole, "tensors": [{**whole["tensors"][0], "dtype": "float33"}]}, {**whole, "grid": None}]
    for manifest in damaged:
        with pytest.raises(EmulationError, match="manifest: a field is missing or garbled"):
            tilegen.emulate.run(emission.source, manifest, [np.ones(5, np.float32)])
    with pytest.raises(EmulationError, match=r"manifest: a manifest is what json\.loads gives"):
        tilegen.emulate.run(emission.source, emission.manifest.to_json(), [np.ones(5, np.float32)])


def test_a_damaged_program_says_what_to_remove(require_tool, monkeypatch, tmp_path):
    require_tool("host_compiler")
    monkeypatch.delenv("TILEGEN_CACHE", raising=False)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    run()
    (program,) = (path for path in Path(tmp_path, "emulator").glob("kernel-*") if path.suffix != ".lock")
    program.write_bytes(b"\0")
    with pytest.raises(EmulationError, match=f"cannot be started .*remove {program}"):
        run()
