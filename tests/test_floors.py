"""The house's floors: what a module imports when it is loaded lies on its own floor or below, never above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the top down; rooms of one floor do not know each other. A folder of lower/ is a room of its own.
FLOORS = (
    ("cli", "autotuner"),
    ("jit_kernel",),
    ("program",),
    ("cold_call",),
    ("opening",),
    ("building", "host_call"),
    ("emission", "inspect"),
    ("driver",),
    ("lower.kernel",),
    ("lower.reductions",),
    ("lower.pipelines",),
    ("lower.gemms", "operations"),
    ("lower.elements",),
    ("lower.copies",),
    ("lower",),
    ("lower.synchronisation",),
    ("lower.vocabulary", "profiler"),
    ("dtype_parameters", "emulate", "runtime", "schedule"),
    ("emit", "frontend", "inference", "layout", "toolchain"),
    ("calls", "language", "model", "target"),
    ("_target_tables", "atoms", "ir"),
    ("_resources", "_target_schema", "diagnostics", "foreign", "formula", "manifest"),
    ("errors", "location"),
)
HEIGHT = {room: height for height, floor in enumerate(reversed(FLOORS)) for room in floor}
MODULES = sorted(path for path in (ROOT / "tilegen").rglob("*.py") if path.name != "__init__.py")


def room(module: str) -> str:
    """The room of a module of tilegen, given by its dotted name without "tilegen."."""
    parts = module.split(".")
    if parts[0] == "lower" and len(parts) > 1 and (ROOT / "tilegen" / "lower" / parts[1]).is_dir():
        return ".".join(parts[:2])
    return parts[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each module of tilegen that a file imports when it is loaded."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.ImportFrom(module="tilegen", names=names):
                yield from ((statement.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("tilegen."):
                inside = module.removeprefix("tilegen.")
                for alias in names:
                    folder = ROOT / "tilegen" / Path(*inside.split("."), alias.name)
                    within = folder.is_dir() or folder.with_suffix(".py").exists()
                    yield statement.lineno, f"{inside}.{alias.name}" if within else inside


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "tilegen")))
def test_imports_go_down(path: Path) -> None:
    own = room(".".join(path.relative_to(ROOT / "tilegen").with_suffix("").parts))
    upward = [
        f"line {line}: {name}"
        for line, name in imported(path)
        if room(name) != own and name.split(".")[0] != "__version__" and HEIGHT[room(name)] >= HEIGHT[own]
    ]
    assert not upward


def test_every_room_has_a_floor() -> None:
    found = {room(".".join(path.relative_to(ROOT / "tilegen").with_suffix("").parts)) for path in MODULES}
    assert found == set(HEIGHT)


def test_the_map_of_the_house_shows_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in HEIGHT if f"`{name}`" not in page] == []


def test_paths_on_the_map_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[\w/.]*)`", page)
    assert named
    assert [
        path for path in named if not any((root / path).exists() for root in (ROOT, ROOT / "tilegen"))
    ] == []


def test_modules_that_comments_name_exist() -> None:
    """What comments, docstrings and tables of the source call tilegen.….… is there."""
    gone = []
    for path in sorted((ROOT / "tilegen").rglob("*.py")):
        for name in re.findall(
            r"\btilegen((?:\.[a-z_0-9]+){2,})(?![\w{<])", path.read_text(encoding="utf-8")
        ):
            parts = name[1:].split(".")
            ways = [ROOT / "tilegen" / Path(*parts[:count]) for count in range(1, len(parts) + 1)]
            face = ways[-2] / "__init__.py"
            exported = face.exists() and parts[-1] in face.read_text(encoding="utf-8")
            if not (exported or ways[-1].is_dir() or any(way.with_suffix(".py").exists() for way in ways)):
                gone.append(f"{path.relative_to(ROOT)}: tilegen{name}")
    assert gone == []


def test_modules_of_a_page() -> None:
    """About 400 lines at most."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {str(path): length for path, length in lengths.items() if length > 400} == {}
