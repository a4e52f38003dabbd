"""The offsets that we compute are those of the struct that we print, according to a compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tilegen.emit.shared_storage import shared_lines
from tilegen.model.expressions import Literal
from tilegen.model.kernel import SharedMember
from tilegen.model.shared_layout import SharedLayoutError, shared_layout


def member(
    name: str, elements: int, alignment: int, type_name: str = "u16", union: str = "", alternative: int = 0
) -> SharedMember:
    size = {"u16": 2, "u64": 8, "float": 4}[type_name]
    return SharedMember(
        type_name, name, (Literal(elements),), size * elements, alignment, "", union, alternative
    )


CASES = {
    "plain": [member("a", 512, 1024), member("b", 1024, 1024), member("full", 3, 8, "u64")],
    "padded": [member("a", 5, 16), member("b", 8, 128), member("c", 3, 8, "u64"), member("d", 1, 2)],
    "union": [
        member("a", 512, 1024, union="x", alternative=0),
        member("b", 256, 16, union="x", alternative=0),
        member("c", 700, 128, union="x", alternative=1),
    ],
    "mixed": [
        member("head", 3, 4, "float"),
        member("a", 20, 256, union="x", alternative=0),
        member("b", 40, 8, "u64", union="x", alternative=1),
        member("c", 7, 2, union="x", alternative=1),
        member("tail", 2, 8, "u64"),
    ],
    "ragged struct in a union": [
        member("a", 3, 8, "u64", union="x", alternative=0),
        member("b", 1, 2, union="x", alternative=0),
        member("c", 1, 2, union="x", alternative=1),
        member("tail", 1, 2),
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_offsets(case: str, require_tool: Callable[[str], None], tmp_path: Path) -> None:
    require_tool("host_compiler")
    members = CASES[case]
    layout = shared_layout(members)
    struct = "\n".join(line.text for line in shared_lines(members))
    checks = [
        f"static_assert(offsetof(SharedStorage, {name}) == {offset});"
        for name, offset in layout.offsets.items()
    ]
    checks.append(f"static_assert(sizeof(SharedStorage) == {layout.size});")
    checks.append(f"static_assert(alignof(SharedStorage) == {layout.alignment});")
    prelude = "#include <cstddef>\nusing u16 = unsigned short;\nusing u64 = unsigned long long;\n"
    source = tmp_path / "storage.cpp"
    source.write_text(prelude + struct + "\n" + "\n".join(checks) + "\n")
    subprocess.run(["c++", "-std=c++17", "-fsyntax-only", source], check=True)
    for entry in members:
        assert layout.offsets[entry.name] % entry.alignment == 0


def test_text() -> None:
    assert [line.text for line in shared_lines(CASES["union"])] == [
        "union alignas(1024) SharedStorage {",
        "  struct {",
        "    u16 a[512];",
        "    u16 b[256];",
        "  };",
        "  u16 c[700];",
        "};",
    ]
    assert shared_lines([]) == []


def test_contradictions_are_errors() -> None:
    with pytest.raises(SharedLayoutError, match="same name"):
        shared_layout([member("a", 1, 2), member("a", 1, 2)])
    with pytest.raises(SharedLayoutError, match="stand together"):
        shared_layout([member("a", 1, 2, union="x"), member("b", 1, 2), member("c", 1, 2, union="x")])
