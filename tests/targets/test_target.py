"""What the targets state, and how a broken description is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilegen._resources import targets_root
from tilegen.target import TargetError, load_target, read_target, target_for_device, target_names

NAMES = ("gfx90a", "gfx942", "gfx950", "sm_80", "sm_89", "sm_90a")
SHARED_KIB = {"sm_80": 163, "sm_89": 99, "sm_90a": 227, "gfx90a": 64, "gfx942": 64, "gfx950": 160}


def test_the_targets_are_these() -> None:
    assert target_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_target_is_consistent(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.limits.shared_bytes_per_block == SHARED_KIB[name] * 1024
    assert target.limits.warp_size == (32 if target.language == "cuda" else 64)
    assert target.limits.shared_bytes_per_multiprocessor >= target.limits.shared_bytes_per_block
    names = [atom.name for atom in target.mma_atoms]
    assert len(set(names)) == len(names)
    for dtype in ("float16", "bfloat16"):
        assert target.mma_atoms_for(dtype, dtype, "float32")
        assert target.device.matrix_flops_per_second(dtype) > target.device.vector_flops_per_second("float32")
    assert target.limits.cluster_reach <= target.limits.cluster_blocks
    assert target.limits.registers_per_multiprocessor % target.limits.schedulers_per_multiprocessor == 0
    assert (target.wgmma is not None) == target.has("wgmma")
    assert (target.tma is not None) == target.has("tma")
    compilers = target.compile.nvrtc if target.language == "cuda" else target.compile.hiprtc
    assert any(target.architecture in option for option in compilers)


@pytest.mark.parametrize("name", NAMES)
def test_a_phase_moves_no_more_than_the_banks_hold(name: str) -> None:
    target = load_target(name)
    row = target.limits.banks * target.limits.bank_bytes
    for phase in target.phases:
        assert sorted(lane for group in phase.groups for lane in group) == list(
            range(target.limits.warp_size)
        )
        for group in phase.groups:
            assert len(group) * phase.width <= row


def test_phases_of_16_byte_reads() -> None:
    assert load_target("sm_80").shared_phases("load", 16)[1] == (8, 9, 10, 11, 12, 13, 14, 15)
    assert load_target("gfx942").shared_phases("load", 16)[0] == (0, 1, 2, 3, 20, 21, 22, 23)
    assert load_target("gfx942").shared_phases("store", 16)[0] == (0, 1, 2, 3, 4, 5, 6, 7)
    assert len(load_target("gfx950").shared_phases("load", 16)) == 4
    assert load_target("sm_80").shared_phases("load", 2) == load_target("sm_80").shared_phases("load", 4)
    with pytest.raises(TargetError, match="sm_89 has no shared-memory stmatrix of 16 bytes"):
        load_target("sm_89").shared_phases("stmatrix", 16)


def test_capabilities() -> None:
    hopper, cdna3 = load_target("sm_90a"), load_target("gfx942")
    assert hopper.has("wgmma") and hopper.has("tma") and hopper.has("mma_sync")
    assert not cdna3.has("cp_async") and cdna3.has("mfma")
    assert not load_target("sm_89").has("stmatrix")
    with pytest.raises(TargetError, match="no capability is called 'tmaa'"):
        hopper.has("tmaa")


def test_direct_to_lds_widths() -> None:
    widths = {
        name: load_target(name).copies("buffer_load_lds")[0].widths for name in ("gfx90a", "gfx942", "gfx950")
    }
    assert widths == {"gfx90a": (4,), "gfx942": (4,), "gfx950": (4, 12, 16)}


def test_tensor_map_limits() -> None:
    tma = load_target("sm_90a").tma
    assert tma is not None and load_target("sm_80").tma is None
    assert (tma.box_extent, tma.rank) == (256, 5)
    assert tma.swizzle(128).alignment == 1024
    assert tma.swizzle(128).pattern == (3, 4, 3)
    with pytest.raises(TargetError, match="its spans are 0, 32, 64, 128"):
        tma.swizzle(256)


def test_device_names_lead_to_targets() -> None:
    assert target_for_device("9.0").name == "sm_90a"
    assert target_for_device("gfx942:sramecc+:xnack-").name == "gfx942"
    with pytest.raises(TargetError, match=r"no target is made for the device '3\.5'"):
        target_for_device("3.5")


def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"no target is called 'sm_70'; there are gfx90a, .*sm_90a"):
        load_target("sm_70")


BREAKAGES = [
    ("warp_size = 32", 'warp_size = "32"', r"\[limits\] warp_size: expected an integer of at least 1, found '32'"),
    ("warp_size = 32\n", "", r"sm_90a.toml: \[limits\] warp_size: missing; expected an integer of at least 1"),
    ("banks = 32", "banks = 32\nbank = 32", r"\[limits\] bank: unknown key; the keys here are .*bank_bytes"),
    ('language = "cuda"', 'language = "opencl"', r"sm_90a.toml: language: expected one of cuda, hip, found 'opencl'"),
    ('"wgmma",', '"wgmna",', r"sm_90a.toml: capabilities: expected names from capabilities.toml, found 'wgmna'"),
    ('"tma_reduce", ', "", r"'tma_reduce', which atom SM90_TMA_REDUCE_ADD needs"),
    ("grid = [2147483647, 65535, 65535]", "grid = [1, 2]", r"\[limits\] grid: expected a list of 3 integers"),
    ("panel_rows = 8", "panel_rows = -1", r"\[device\] panel_rows: expected an integer of at least 0, found -1"),
    ("cluster_reach = 2\n", "", r"\[limits\] cluster_reach: missing; expected an integer of at least 1"),
    ("[setmaxnreg]\nminimum = 24\nmaximum = 240\nstep = 8\n", "", r"a table \[setmaxnreg\] for 'setmaxnreg'"),
    ('name = "sm_90a"', 'name = "sm_90a', r"sm_90a.toml: not valid TOML"),
    ('"atoms/tma.toml"', '"atoms/tmb.toml"', r"tmb.toml: cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BREAKAGES)
def test_a_broken_description_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    root = tmp_path / "targets"
    shutil.copytree(targets_root(), root)
    path = root / "sm_90a.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(TargetError, match=message):
        read_target(path, root)


ATOM_BREAKAGES = [
    ("wgmma.toml", 'stride = [[128, 1, 16], [64, 8, 512]]', "stride = [[128, 1, 16], [64, 8]]", "nested like"),
    ("wgmma.toml", "[2, 2, \"n/8\"]", "[2, 2, \"n\"]", "expected 512 elements"),
    ("mma_sync.toml", "threads = 32", "threads = 64", r"\(thread, value\) with 64 threads"),
    ("cuda_memory.toml", "consecutive_lanes = 16", "consecutive_lanes = 24", "hold each of the 32 lanes once"),
    ("tma.toml", "l2_promotion_bytes = 128", "l2_promotion_bytes = 96", r"expected one of 0, 64, 128, 256, found 96"),
    ("wgmma.toml", "registers_beside = 26", "", r"\[wgmma\] registers_beside: missing"),
    ("ldmatrix.toml", "alignment = 16", "align = 16", r"\[copy\[SM75_U32x1_LDSM_N\]\] align: unknown key"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "message"), ATOM_BREAKAGES)
def test_a_broken_atom_is_refused(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    root = tmp_path / "targets"
    shutil.copytree(targets_root(), root)
    path = root / "atoms" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(TargetError, match=message):
        read_target(root / "sm_90a.toml", root)
