"""Renders the device primitives that a kernel uses, each once, after those that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Literal

import jinja2

from tilegen._resources import templates_root
from tilegen.emit import cuda_primitives, hip_primitives
from tilegen.emit.primitive_rules import Primitive, Rule, UnknownPrimitive

Language = Literal["cuda", "hip"]
Dialect = Literal["cuda", "hip", "emulator"]

_RULES: dict[str, tuple[Rule, ...]] = {"cuda": cuda_primitives.RULES, "hip": hip_primitives.RULES}
_FOLDERS = {
    ("cuda", "cuda"): "cuda/primitives/{}.cuh",
    ("hip", "hip"): "hip/primitives/{}.hpp",
    ("emulator", "cuda"): "emulator/primitives/cuda/{}.hpp",
    ("emulator", "hip"): "emulator/primitives/hip/{}.hpp",
}


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_root()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


@cache
def _rules(language: Language) -> dict[str, tuple[int, Rule]]:
    return {rule.name: (position, rule) for position, rule in enumerate(_RULES[language])}


def primitive_rules(language: Language) -> tuple[Rule, ...]:
    """Every primitive that a language has, in the order of a file."""
    return _RULES[language]


def _rule(primitive: Primitive, language: Language) -> tuple[int, Rule]:
    found = _rules(language).get(primitive.name)
    if found is None:
        raise UnknownPrimitive(f"there is no {language} primitive named {primitive.name}")
    found[1].check(primitive)
    return found


def close_over_requirements(primitives: Iterable[Primitive], language: Language) -> tuple[Primitive, ...]:
    """The primitives and all that they require, each once, in the order of a file (a requirement comes first).

    Raises UnknownPrimitive.
    """
    pending = list(primitives)
    closed: dict[Primitive, int] = {}
    while pending:
        primitive = pending.pop()
        if primitive in closed:
            continue
        position, rule = _rule(primitive, language)
        closed[primitive] = position
        pending.extend(rule.requires(primitive.values()))
    return tuple(sorted(closed, key=lambda primitive: (closed[primitive], primitive.parameters)))


def render_primitives(
    primitives: Iterable[Primitive], dialect: Dialect, language: Language | None = None
) -> str:
    """The text of the primitives in a dialect: "cuda", "hip", or "emulator" (the emulator's twins of the
    primitives of `language`, CUDA's by default).

    Raises UnknownPrimitive.
    """
    if language is None:
        language = "hip" if dialect == "hip" else "cuda"
    pattern = _FOLDERS[(dialect, language)]
    texts: list[str] = []
    family = before = ""
    for primitive in close_over_requirements(primitives, language):
        _, rule = _rule(primitive, language)
        values = primitive.values()
        template = _environment().get_template(pattern.format(primitive.name))
        text = template.render({**values, **rule.context(values)}).strip("\n")
        begins = rule.family != family or not family
        if texts and (begins or not _siblings(before, text)):
            texts.append("")
        if begins and rule.family and dialect != "emulator":
            texts.append(f"// {rule.family}")
        texts.append(text)
        family, before = rule.family, text
    return "\n".join(texts) + "\n" if texts else ""


def _siblings(before: str, text: str) -> bool:
    """Whether no empty line stands between two primitives of a family: short functions, or macros."""
    return (_short(before) and _short(text)) or (_macro(before) and text.startswith("#define"))


def _macro(text: str) -> bool:
    return any(line.startswith("#define") for line in text.split("\n"))


def _short(text: str) -> bool:
    """Whether a primitive is a function of one statement: such ones need no empty line between them."""
    code = [line for line in text.split("\n") if not line.startswith(("//", "template <"))]
    return len(code) == 1 or (text.endswith("}") and sum(line.endswith(";") for line in code) == 1)


__all__ = [
    "Dialect",
    "Language",
    "Primitive",
    "UnknownPrimitive",
    "close_over_requirements",
    "primitive_rules",
    "render_primitives",
]
