"""Every error that names a place in the user's program proposes a remedy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "tilegen").rglob("*.py"))


def without_remedy(tree: ast.Module, frontend: bool) -> list[int]:
    """The lines of errors that are raised without one."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "remedy" for word in node.keywords):
            continue
        raised = isinstance(node.func, ast.Name) and node.func.id == "ProgramError"
        failed = frontend and isinstance(node.func, ast.Attribute) and node.func.attr == "fail"
        if (raised or failed) and len(node.args) < 3:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_errors_propose_a_remedy(path: Path) -> None:
    assert without_remedy(ast.parse(path.read_text()), "frontend" in path.parts) == []


def test_errors_without_one_are_found() -> None:
    text = "raise ProgramError(at, 'no')\nraise ProgramError(at, 'no', remedy='yes')\ncall.fail('a', 'no')\n"
    assert without_remedy(ast.parse(text), True) == [1, 3]
    assert without_remedy(ast.parse(text), False) == [1]
