"""The .h file of a kernel: the launcher's declaration and its contract, for host code in C++."""

from __future__ import annotations

import re

from tilegen.emit.header_comment import header_comment
from tilegen.emit.lines import Line, comment_lines
from tilegen.emit.signature import launcher_comment, launcher_signature
from tilegen.emit.templating import render_template
from tilegen.emit.wrap import physical_lines
from tilegen.model.dialect import dialect_of
from tilegen.model.kernel import KernelModel


def render_header(model: KernelModel) -> str:
    """The text of `<name>.<target>.h`.

    Raises:
        DialectError: when the language has no type for an argument.
    """
    dialect = dialect_of(model.language)
    declaration = [*comment_lines(launcher_comment(model)), Line(f"{launcher_signature(model)};")]
    words = set(re.findall(r"\b\w+\b", declaration[-1].code))
    values: dict[str, object] = {
        "guard": re.sub(r"\W", "_", f"TILEGEN_{model.name}_{model.target}_H").upper(),
        "contract": "\n".join(header_comment(model)),
        "includes": sorted({header for name, header in dialect.headers.items() if name in words}),
        "declaration": "\n".join(physical_lines(declaration)),
    }
    return render_template(f"{model.language}/launcher.h.j2", values) + "\n"
