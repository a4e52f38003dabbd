"""Options and fixtures of all tests: tools that may be missing, golden files, a cache folder of the session's own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilegen.toolchain import ToolMissing, find_tools

with contextlib.suppress(ImportError):  # a GPU machine may lack it: only the tests that draw cases need it
    import hypothesis

    hypothesis.settings.register_profile("tilegen", deadline=None, derandomize="CI" in os.environ)
    hypothesis.settings.load_profile("tilegen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-tools",
        action="store_true",
        help="fail, instead of skip, where a compiler or another tool is missing",
    )
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files with what is emitted now"
    )


def _need_host_compiler() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        raise ToolMissing("a host C++ compiler", "install g++ or clang++")


def _need_clang_format() -> None:
    beside = Path(sys.executable).with_name("clang-format")
    if not beside.exists() and not shutil.which("clang-format"):
        raise ToolMissing("clang-format", "pip install clang-format==19.*")


def _need_cmake() -> None:
    if not shutil.which("cmake"):
        raise ToolMissing("CMake", "install cmake")


def _need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing("torch", "pip install torch")


def _need_hip(clang: int) -> None:
    tools = find_tools()
    tools.need_amd_clang(clang)
    tools.need_hip_root()
    tools.need_device_libraries()
    tools.need_llvm_readelf()


# What a test may ask for. "hip" compiles for gfx90a and gfx942, "hip_gfx950" for gfx950 too.
_TOOLS: dict[str, Callable[[], object]] = {
    "nvcc": lambda: find_tools().need_nvcc(),
    "nvrtc": lambda: (find_tools().need_nvrtc(), find_tools().need_cuda_headers()),
    "hip": lambda: _need_hip(19),
    "hip_gfx950": lambda: _need_hip(20),
    "llvm_objdump": lambda: find_tools().need_llvm_objdump(),
    "host_compiler": _need_host_compiler,
    "clang_format": _need_clang_format,
    "cmake": _need_cmake,
    "torch": _need_torch,
}


@pytest.fixture(scope="session")
def require_tool(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`require_tool("nvcc")` skips the test where the tool is missing; with --require-tools it fails instead."""

    def require(name: str) -> None:
        try:
            _TOOLS[name]()
        except ToolMissing as missing:
            if request.config.getoption("--require-tools"):
                pytest.fail(str(missing), pytrace=False)
            pytest.skip(str(missing))

    return require


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave the user's cache alone; the workers of one run share theirs."""
    if "TILEGEN_CACHE_DIR" in os.environ:
        yield
        return
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["TILEGEN_CACHE_DIR"] = str(shared / "cache")
    yield
    del os.environ["TILEGEN_CACHE_DIR"]
