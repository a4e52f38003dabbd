"""Assembles the .cu or .hip file of a kernel."""

from __future__ import annotations

import re

from tilegen.emit.configuration import Constants, storage_lines
from tilegen.emit.device_types import device_types
from tilegen.emit.header_comment import header_comment
from tilegen.emit.launcher import launcher_text
from tilegen.emit.lines import Line, logical_lines
from tilegen.emit.primitives import Language, render_primitives
from tilegen.emit.printer import banner_line, print_statements
from tilegen.emit.signature import kernel_signature
from tilegen.emit.templating import render_template, template_value
from tilegen.emit.used_primitives import used_primitives
from tilegen.emit.wrap import physical_lines
from tilegen.model.dialect import Dialect, dialect_of
from tilegen.model.kernel import KernelModel, TensorMap

SCALAR_HELPERS = ("infinity", "not_a_number", "floor_div", "floor_mod")
"""Helpers that a scalar expression may call; a file has them when its text calls them."""


def render(model: KernelModel) -> str:
    """The text of the file, at most 120 columns wide, the same for the same model.

    Raises:
        UndefinedName: when the text names a constant that the model lacks.
        TilegenError: when a template, a type or a primitive is missing, or the shared memory is misstated.
    """
    dialect = dialect_of(model.language)
    body = print_statements(model.body, model.language, 2)
    kernel = [Line(f"{kernel_signature(model)} {{"), *body, Line("}")]
    kernel_text = _raw(kernel)
    helpers = _helpers(model, kernel_text)
    language: Language = "hip" if model.language == "hip" else "cuda"
    primitives = render_primitives(used_primitives(model), language, language)
    launcher = launcher_text(model, "")
    constants = Constants(model)
    storage = storage_lines(model, "kSharedBytes" in launcher + kernel_text + helpers)
    device = constants.needed("\n".join((kernel_text, helpers, _raw(storage))))
    host = constants.needed(launcher) - device
    launcher = launcher_text(model, _raw(constants.lines(host)))
    configuration = [*constants.lines(device), *([Line()] if device and storage else []), *storage]
    plain = "\n".join((_raw(configuration), primitives, helpers, kernel_text, launcher))
    constants.check("\n".join((_raw(storage), helpers, kernel_text, launcher)))
    values: dict[str, object] = {
        "header": "\n".join(header_comment(model)),
        "includes": _includes(model, dialect, plain),
        "tensor_maps": any(isinstance(parameter, TensorMap) for parameter in model.parameters),
        "banners": _banners(),
        "types": "\n".join(device_types(plain, model.language)),
        "configuration": _laid_out(configuration),
        "primitives": primitives.strip("\n"),
        "primitives_unformatted": "asm" in primitives or "__builtin_" in primitives,
        "helpers": _laid_out(logical_lines(helpers)),
        "kernel": _laid_out(kernel),
        "launcher": _laid_out(logical_lines(launcher)),
    }
    return render_template(f"{model.language}/kernel.{dialect.suffix}.j2", values) + "\n"


def _raw(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _laid_out(lines: list[Line]) -> str:
    return "\n".join(physical_lines(lines)).strip("\n")


def _banners() -> dict[str, str]:
    titles = {
        "configuration": "configuration",
        "primitives": "device primitives",
        "helpers": "device helpers",
        "kernel": "kernel",
        "host": "host",
    }
    return {key: banner_line(title).text for key, title in titles.items()}


def _helpers(model: KernelModel, kernel_text: str) -> str:
    """The helpers that the model names and those that its scalar expressions call, one after another."""
    text = "\n".join((kernel_text, *model.functions))
    called = [name for name in SCALAR_HELPERS if re.search(rf"\b{name}\(", text)]
    values = {name: template_value(value) for name, value in model.helper_values}
    suffix = dialect_of(model.language).suffix
    names = dict.fromkeys((*called, *model.helpers))
    texts = [render_template(f"{model.language}/helpers/{name}.{suffix}.j2", values) for name in names]
    return "\n\n".join((*texts, *model.functions))


def _includes(model: KernelModel, dialect: Dialect, text: str) -> list[str]:
    """Headers of the element types that the text names, then those that the model asks for."""
    words = set(re.findall(r"\b\w+\b", text))
    found = [header for name, header in dialect.headers.items() if name in words]
    return sorted(dict.fromkeys((*found, *model.includes)))
