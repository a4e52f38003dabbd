"""The language reference: every exported name is documented as it is, every documented name exists, programs emit."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import tilegen.language as T
from tilegen.jit_kernel import JitKernel
from tilegen.language.operation import operation_name

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def entries() -> list[str]:
    """What headings and first cells of tables document: `T.name` or `T.name(parameters)`."""
    found = []
    for line in TEXT.splitlines():
        if line.startswith("### "):
            found += re.findall(r"`(T\.[^`]*)`", line)
        elif line.startswith("| `T."):
            found += re.findall(r"`(T\.[^`]*)`", line.split(" | ")[0])
    return found


def written(parameter: inspect.Parameter) -> str:
    """A parameter as the page writes it."""
    name = f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name
    default = parameter.default
    if default is parameter.empty:
        return name
    if isinstance(default, T.DType):
        return f"{name}=T.{default}"
    if isinstance(default, T.GemmWarpPolicy):
        return f"{name}=T.GemmWarpPolicy.{default.name}"
    return f'{name}="{default}"' if isinstance(default, str) else f"{name}={default}"


def test_every_name_has_one_entry_and_every_entry_a_name() -> None:
    names = [entry.removeprefix("T.").split("(")[0] for entry in entries()]
    assert sorted(name for name in names if names.count(name) > 1) == []
    assert sorted(names) == sorted(T.__all__)


@pytest.mark.parametrize("entry", [entry for entry in entries() if "(" in entry])
def test_signatures_are_those_of_the_words(entry: str) -> None:
    name = entry.removeprefix("T.").split("(")[0]
    parameters = inspect.signature(getattr(T, name)).parameters.values()
    assert entry == f"T.{name}({', '.join(map(written, parameters))})"


def test_words_are_documented_with_their_arguments() -> None:
    """An entry without arguments is a type, a value, or another name of the entry before it."""
    bare = [entry.removeprefix("T.") for entry in entries() if "(" not in entry]
    words = [name for name in bare if operation_name(getattr(T, name)) is not None]
    described = ["Buffer", "SharedBuffer", "FragmentBuffer", "LocalBuffer"]
    assert words == [*described, "symbolic", "Serial", "range", "Unroll", "vectorized"]


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "gfx942"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_emit(number: int, target: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[number], encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(PROGRAMS[number], str(script), "exec"), names)
    kernel = next(value for value in names.values() if isinstance(value, JitKernel))
    assert "__global__" in kernel.emit(target=target).source


def test_the_table_of_contents() -> None:
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    listed = re.findall(r"^\d+\. \[(.*)\]\(#(.*)\)$", TEXT, re.MULTILINE)
    assert [title for title, _ in listed] == titles
    assert [anchor for _, anchor in listed] == [title.lower().replace(" ", "-") for title in titles]
