"""Finds the host's C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from tilegen.emulate.errors import CompilerMissing

_NAMES = ("c++", "g++", "clang++", *(f"clang++-{version}" for version in range(25, 15, -1)))
_MINIMUM = {"gcc": 11, "clang": 16}
_POISONING_GCC = 12
_REMEDY = (
    "the emulator needs a C++20 compiler for the host: install g++ 11 or later (Debian, Ubuntu: apt install g++), "
    "clang 16 or later, or the one on PyPI (pip install 'ziglang<0.16')"
)


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A command that compiles C++; `identity` changes when the compiler does."""

    command: tuple[str, ...]
    family: str  # gcc or clang
    version: int
    identity: str

    @property
    def poison(self) -> tuple[str, ...]:
        """The flag that fills variables without a value: with NaN, or with numbers too large to be overlooked."""
        known = self.family == "clang" or self.version >= _POISONING_GCC
        return ("-ftrivial-auto-var-init=pattern",) if known else ()


@cache
def find_compiler() -> HostCompiler:
    """The host's C++ compiler: c++, g++ or a clang++ on PATH, else the clang of the package ziglang.

    Raises CompilerMissing.
    """
    for name in _NAMES:
        path = shutil.which(name)
        found = _probe((path,)) if path is not None else None
        if found is not None:
            return found
    if importlib.util.find_spec("ziglang") is not None:
        found = _probe((sys.executable, "-m", "ziglang", "c++"))
        if found is not None:
            return found
    raise CompilerMissing(f"no C++ compiler was found: {_REMEDY}")


def _probe(command: tuple[str, ...]) -> HostCompiler | None:
    """The compiler behind a command, or None if it is none or too old."""
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"clang version (\d+)", result.stdout)
    family = "clang" if version is not None else "gcc"
    if version is None:
        version = re.search(
            r"(?:GCC|g\+\+|\(.*\)).*?(\d+)\.\d+", result.stdout.splitlines()[0] if result.stdout else ""
        )
    if result.returncode != 0 or version is None or int(version.group(1)) < _MINIMUM[family]:
        return None
    real = os.path.realpath(command[0])
    return HostCompiler(command, family, int(version.group(1)), f"{real} {result.stdout.strip()}")
