"""The walker: expressions and statements working on one state."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilegen.frontend import expressions, handlers, statements
from tilegen.frontend.context import Context
from tilegen.ir.expressions import Expr

__all__ = ["Walker", "handlers"]


class Walker(Context):
    """Walks one tile program."""

    def evaluate(self, node: ast.expr) -> object:
        return expressions.evaluate(self, node)

    def execute(self, block: Sequence[ast.stmt]) -> None:
        statements.execute(self, block)

    def expression(self, value: object, node: ast.expr) -> Expr:
        return expressions.to_expression(self, value, node)
