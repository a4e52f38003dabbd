"""The frontend: a walker over a Python function's syntax tree that builds the tile IR."""

from tilegen.frontend.parse import parse

__all__ = ["parse"]
