"""How to make values of open extents ones that are known at generation time: what errors propose."""

from __future__ import annotations

from tilegen.ir.expressions import Expr, Var
from tilegen.ir.walk import subexpressions


def fixing_remedy(*values: object, otherwise: str = "") -> str:
    """How to make values of open extents ones that are known at generation time; `otherwise` for other values."""
    parts = [part for value in values if isinstance(value, Expr) for part in subexpressions(value)]
    names = list(dict.fromkeys(p.name for p in parts if isinstance(p, Var) and p.role == "extent"))
    if not names:
        return otherwise
    options = " ".join(f"--dim {name}=…" for name in names)
    fixed = ", ".join(f"'{name}': …" for name in names)
    return f"fix {' and '.join(names)}: {options} or emit(dims={{{fixed}}}); not dynamic in a call"
