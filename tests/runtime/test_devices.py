"""Which target a device gets."""

import pytest

from tilegen.errors import DeviceError
from tilegen.runtime import devices
from tilegen.runtime.devices import amd_devices, gfx_name, resolve_target, target_of_device
from tilegen.target import TargetError


@pytest.mark.parametrize(
    "version, name",
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (90006, "gfx906")],
)
def test_gfx_names(version, name):
    assert gfx_name(version) == name


def test_the_kernel_driver_lists_gpus_and_skips_processors(tmp_path):
    for node, version in ((0, 0), (1, 90402), (2, 90010), (10, 90500)):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "properties").write_text(f"cpu_cores_count 8\ngfx_target_version {version}\n")
    assert amd_devices(tmp_path) == ["gfx942", "gfx90a", "gfx950"]
    assert amd_devices(tmp_path / "absent") == []


@pytest.mark.parametrize(
    "device, target",
    [
        ("9.0", "sm_90a"),
        ("8.0", "sm_80"),
        ("8.6", "sm_80"),
        ("8.9", "sm_89"),
        ("10.0", "sm_89"),
        ("12.0", "sm_89"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
    ],
)
def test_targets_of_devices(device, target):
    assert target_of_device(device).name == target


@pytest.mark.parametrize("device", ["7.5", "gfx1030"])
def test_devices_without_a_target(device):
    with pytest.raises(TargetError, match="no target is made for the device"):
        target_of_device(device)


def test_auto(monkeypatch):
    monkeypatch.setattr(devices, "present_device", lambda: None)
    assert resolve_target("auto").name == "sm_90a"
    monkeypatch.setattr(devices, "present_device", lambda: "gfx90a")
    assert resolve_target("auto").name == "gfx90a"
    assert resolve_target("sm_80").name == "sm_80"


def test_no_driver_is_no_gpu(monkeypatch, tmp_path):
    def absent():
        raise DeviceError("no driver")

    monkeypatch.setattr(devices, "cuda_api", absent)
    monkeypatch.setattr(devices, "_KFD_NODES", tmp_path)
    devices.present_device.cache_clear()
    try:
        assert devices.present_device() is None
    finally:
        devices.present_device.cache_clear()
