"""Which GPU is there, and which target is made for it. Asks the driver alone, no framework."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tilegen.errors import DeviceError
from tilegen.runtime.device_api import cuda_api
from tilegen.target import Target, TargetError, load_target, target_for_device

EMULATED = "sm_90a"
_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


@cache
def present_device() -> str | None:
    """The first GPU's compute capability ("9.0") or architecture ("gfx942"), None where there is no GPU."""
    try:
        driver = cuda_api()
        if driver.device_count() > 0:
            major, minor = driver.compute_capability(0)
            return f"{major}.{minor}"
    except DeviceError:
        pass
    return next(iter(amd_devices(_KFD_NODES)), None)


def amd_devices(nodes: Path) -> list[str]:
    """The architectures that the kernel's amdkfd driver lists, in the order of its nodes."""
    found = []
    for path in sorted(
        nodes.glob("*/properties"), key=lambda path: (len(path.parent.name), path.parent.name)
    ):
        try:
            match = re.search(r"^gfx_target_version (\d+)", path.read_text(), re.MULTILINE)
        except OSError:
            continue
        if match and int(match[1]):
            found.append(gfx_name(int(match[1])))
    return found


def gfx_name(version: int) -> str:
    """amdkfd's number as LLVM's name: 90402 is gfx942, 90010 is gfx90a."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def resolve_target(name: str) -> Target:
    """The target called `name`; "auto" is the GPU's that is present, else sm_90a, which is then emulated.

    Raises:
        TargetError: an unknown name, or a GPU that no target is made for.
    """
    if name != "auto":
        return load_target(name)
    device = present_device()
    return load_target(EMULATED) if device is None else target_of_device(device)


def target_of_device(identifier: str) -> Target:
    """The target for a compute capability or gfx name. A CUDA device that no target names runs the files of an older
    one, compiled for it: sm_89 from 8.9 on, sm_80 before.

    Raises:
        TargetError: a GPU that no target's files run on.
    """
    try:
        return target_for_device(identifier)
    except TargetError:
        major, dot, minor = identifier.partition(".")
        if not dot or int(major) < 8:
            raise
        return load_target("sm_89" if (int(major), int(minor)) >= (8, 9) else "sm_80")
