"""The page on scheduling shows what is emitted now; `--update-golden` rewrites its excerpts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.emission import Emission

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how_it_schedules.md"
PROGRAM = ROOT / "examples" / "attention.py"
EXCERPT = re.compile(
    r'<!-- (program|emitted) from "([^"]+)" to "([^"]+)"(?: (\d+))? -->\n```(\w+)\n(.*?)```\n', re.DOTALL
)


@cache
def attention() -> Emission:
    tensor = T.Tensor((4, 4096, 32, 128), T.float16)
    return load_kernel(f"{PROGRAM}:attention").emit(tensor, tensor, tensor, target="sm_90a", causal=True)


def excerpt(text: str, first: str, last: str, count: int) -> str:
    """From the first line with `first` to the `count`-th later line that ends with `last` (a brace: at the first line's
    indent), at the left margin."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if first in line)

    def indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    ends = [
        number
        for number in range(start + 1, len(lines))
        if lines[number].strip().endswith(last)
        and (last != "}" or indent(lines[number]) <= indent(lines[start]))
    ]
    margin = " " * indent(lines[start])
    return "".join(f"{line.removeprefix(margin)}\n" for line in lines[start : ends[count - 1] + 1])


def current(match: re.Match[str]) -> str:
    kind, first, last, count, language, _ = match.groups()
    source = attention().source if kind == "emitted" else PROGRAM.read_text(encoding="utf-8")
    text = excerpt(source, first, last, int(count or 1))
    repeat = f" {count}" if count else ""
    return f'<!-- {kind} from "{first}" to "{last}"{repeat} -->\n```{language}\n{text}```\n'


def test_the_excerpts_are_emitted(update_golden: bool) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if update_golden:
        page = EXCERPT.sub(current, page)
        PAGE.write_text(page, encoding="utf-8")
    excerpts = list(EXCERPT.finditer(page))
    assert len(excerpts) == page.count("<!-- ") >= 6
    for match in excerpts:
        assert match.group(0) == current(match), "run pytest tests/docs --update-golden"


def test_the_numbers_are_the_kernels() -> None:
    page = PAGE.read_text(encoding="utf-8")
    plan = attention().generated.plan
    assert plan.registers is not None
    own = plan.registers
    assert f"get {own.entry} a thread at launch" in page and f"all but {own.producer}" in page
    assert f"steps of 8: {own.consumer}." in page
    assert plan.longest_first is not None and f"sections of {plan.longest_first.section}" in page
    assert {hand_over.name: hand_over.stages for hand_over in plan.hand_overs} == {"Q": 1, "K": 2, "V": 2}
    assert plan.draws_tiles and len(plan.deferred) == 1
    gemms = [decision.atom for _, decision in attention().generated.decisions.gemms.items()]
    assert gemms == ["SM90_64x128x16_F32F16F16_RS"] * 2
    assert "SM90_64x128x16_F32F16F16" in page
    shared = [name for name in ("Q_shared", "K_shared", "V_shared", "O_shared") if f"`{name}`" in page]
    assert len(shared) == 4 and set(attention().generated.decisions.conflicts.values()) == {0}


def test_what_the_page_says_of_other_shapes() -> None:
    tensor = T.Tensor((4, 4096, 32, 128), T.float16)
    full = load_kernel(f"{PROGRAM}:attention").emit(tensor, tensor, tensor, target="sm_90a")
    assert "infinity() :" not in full.source and "S_k - 1" not in full.source, (
        "the mask of whole tiles is gone"
    )
    assert full.generated.plan.persistent and not full.generated.plan.draws_tiles
    held = {hand_over.name: hand_over.stages for hand_over in full.generated.plan.hand_overs}
    assert held == {"Q": 2, "K": 2, "V": 2}, "Q is read from shared memory all along"
    short = T.Tensor((8, 2048, 32, 64), T.float16)
    plans = [
        load_kernel(f"{PROGRAM}:attention").emit(x, x, x, target="sm_90a", causal=True).generated.plan
        for x in (tensor, short)
    ]
    assert [plan.next_tile is not None for plan in plans] == [False, True]
    assert plans[1].hand_overs[1].stages == 3


def test_the_files_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+\.py)`", page):
        assert (ROOT / "tilegen" / "schedule" / name).exists()
