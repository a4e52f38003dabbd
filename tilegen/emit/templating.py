"""The Jinja environment of the templates: undefined names are errors, text is taken as it is."""

from __future__ import annotations

from functools import cache

import jinja2

from tilegen._resources import templates_root
from tilegen.errors import TilegenError
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import CExpr


@cache
def environment() -> jinja2.Environment:
    """The one environment; templates are named from the root of the templates folder."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_root()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
    )


def render_template(name: str, values: dict[str, object]) -> str:
    """The text of a template without leading and trailing empty lines.

    Raises:
        TilegenError: when the template is missing, or uses a name that `values` lacks.
    """
    try:
        return environment().get_template(name).render(values).strip("\n")
    except jinja2.TemplateNotFound as error:
        raise TilegenError(f"there is no template '{error.name}'") from error
    except jinja2.UndefinedError as error:
        raise TilegenError(f"template '{name}': {error.message}") from error


def template_value(value: object) -> object:
    """Model expressions as C++ text, sequences item by item; everything else as it is."""
    if isinstance(value, CExpr):
        return expression_text(value)
    if isinstance(value, list | tuple):
        return [template_value(item) for item in value]
    return value
