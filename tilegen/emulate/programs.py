"""Compiles an emitted file against the emulator, once for each text: programs are cached on disk by content."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import filelock

from tilegen._resources import cache_root, templates_root
from tilegen.emulate.compiler import HostCompiler, find_compiler
from tilegen.emulate.errors import UnusableText
from tilegen.emulate.facts import facts_of
from tilegen.emulate.sections import emulated_text
from tilegen.manifest import Manifest

_COMMON_FLAGS = ("-std=c++20", "-w", "-Wno-psabi", "-ffp-contract=off", "-fno-strict-aliasing")
_CORE_FLAGS = (*_COMMON_FLAGS, "-O1", "-ftree-vectorize")
_KERNEL_FLAGS = (*_COMMON_FLAGS, "-O1", "-g1", "-gdwarf-4", "-fsanitize=thread", "-fsanitize=alignment")
_LINK_FLAGS = ("-lm",)
_ERROR_LINES = 40


def program_folder() -> Path:
    """Where programs are kept: as long as the process lasts where the cache is off, or cannot be written."""
    root = cache_root()
    if root is not None:
        folder = root / "emulator"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return _passing_folder()


@cache
def _passing_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="tilegen-emulator-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def build(source: str, manifest: Manifest | Mapping[str, Any]) -> Path:
    """The program that emulates the file, compiled unless the cache has it.

    Raises UnusableText if the host compiler rejects the text, CompilerMissing.
    """
    facts = facts_of(manifest)
    compiler = find_compiler()
    text = emulated_text(source, facts)
    folder = program_folder()
    core = folder / f"core-{_digest(compiler, _CORE_FLAGS, _headers_digest())}.o"
    program = (
        folder
        / f"kernel-{_digest(compiler, (*_KERNEL_FLAGS, *compiler.poison), _headers_digest(), facts['language'], text)}"
    )
    if program.exists():
        return program
    with filelock.FileLock(f"{program}.lock"):
        if not program.exists():
            _compile(compiler, text, str(facts["language"]), core, program)
    return program


def _compile(compiler: HostCompiler, text: str, language: str, core: Path, program: Path) -> None:
    """The kernel's object beside the core's, the latter only the first time; both compilers run at once."""
    root = templates_root() / "emulator"
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        kernel_source = Path(scratch, "kernel.cpp")
        kernel_source.write_text(text, encoding="utf-8")
        kernel = Path(scratch, "kernel.o")
        prelude = root / "prelude" / f"{language}.hpp"
        flags = (*_KERNEL_FLAGS, *compiler.poison, "-include", str(prelude), "-I", str(root / "include"))
        jobs = [_start(compiler, flags, kernel_source, kernel)]
        with filelock.FileLock(f"{core}.lock"):
            fresh = Path(scratch, "core.o")
            if not core.exists():
                jobs.append(_start(compiler, _CORE_FLAGS, root / "core" / "main.cpp", fresh))
            for job in jobs:
                _finish(job)
            if fresh.exists():
                os.replace(fresh, core)
        linked = Path(scratch, "program")
        command = [*compiler.command, str(kernel), str(core), *_LINK_FLAGS, "-o", str(linked)]
        _finish(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        os.replace(linked, program)


def _start(
    compiler: HostCompiler, flags: tuple[str, ...], source: Path, target: Path
) -> subprocess.Popen[str]:
    command = [*compiler.command, *flags, "-c", str(source), "-o", str(target)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(job: subprocess.Popen[str]) -> None:
    output, _ = job.communicate()
    if job.returncode != 0:
        errors = "\n".join(output.splitlines()[:_ERROR_LINES])
        raise UnusableText(f"the host compiler rejects the text:\n{errors}")


def _digest(compiler: HostCompiler, flags: tuple[str, ...], *texts: str) -> str:
    digest = hashlib.sha256()
    for text in (compiler.identity, *flags, *texts):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


@cache
def _headers_digest() -> str:
    """Of all the emulator's headers. The twins of the primitives are part of the kernel's text."""
    root = templates_root() / "emulator"
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and relative.parts[0] != "primitives":
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
