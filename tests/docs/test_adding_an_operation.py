"""The page on operations shows the example as it is, and what is emitted for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.operations import Code

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding_an_operation.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "custom_operation.py"
OTHER = ROOT / "tests" / "operations" / "own_operations.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", blocks("python"))
def test_the_code_is_the_examples(block: str) -> None:
    assert block in EXAMPLE.read_text(encoding="utf-8") or block in OTHER.read_text(encoding="utf-8")


def test_the_emitted_text_is_as_shown() -> None:
    source = (
        load_kernel(f"{EXAMPLE}:sorted_runs").emit(T.Tensor((4096, 4096), T.float16), target="sm_90a").source
    )
    for block in blocks("cpp"):
        assert block in source


def test_what_code_offers_is_listed() -> None:
    named = set(re.findall(r"`code\.(\w+)", PAGE))
    offered = {name for name in dir(Code) if not name.startswith("_")} - {"context", "call", "language"}
    assert named == offered


def test_every_page_is_in_the_index_and_links_lead_somewhere() -> None:
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+\.md)\)", index)) == pages
    for page in [*pages, "README.md"]:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / "docs" / link).exists(), f"{page} links to {link}"
