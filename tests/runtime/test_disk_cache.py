"""The disk cache: off switch, atomic entries, and a broken disk that costs only time."""

import subprocess
import sys
import textwrap

import pytest

from tilegen.runtime.disk_cache import cache_folder, cached, digest, write_atomically


def test_environment_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TILEGEN_CACHE", raising=False)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "kernels"
    monkeypatch.setenv("TILEGEN_CACHE", "0")
    assert cache_folder() is None
    monkeypatch.delenv("TILEGEN_CACHE")
    monkeypatch.delenv("TILEGEN_CACHE_DIR")
    assert "tilegen" in str(cache_folder())


def test_digest_separates_its_parts():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab", "c"]) == digest(["ab", "c"])


def test_an_entry_is_made_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return b"image"

    assert cached("k.cubin", make, tmp_path) == b"image"
    assert cached("k.cubin", make, tmp_path) == b"image"
    assert len(made) == 1
    assert cached("k.cubin", make, None) == b"image" and len(made) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_failing_compiler_leaves_nothing_behind(tmp_path):
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached("k.cubin", fail, tmp_path)
    assert not (tmp_path / "k.cubin").exists()


def test_an_unwritable_folder_costs_only_time(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert cached("k.cubin", lambda: b"x", blocker / "below") == b"x"


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "entry"
    script = textwrap.dedent(f"""
        from pathlib import Path
        from tilegen.runtime.disk_cache import write_atomically
        for turn in range(200):
            write_atomically(Path({str(path)!r}), bytes([turn % 256]) * 100_000)
    """)
    write_atomically(path, b"\0" * 100_000)
    writer = subprocess.Popen([sys.executable, "-c", script])
    seen = set()
    while writer.poll() is None:
        data = path.read_bytes()
        assert len(data) == 100_000 and len(set(data)) == 1
        seen.add(data[0])
    assert writer.returncode == 0 and seen
