"""What each word of the language does in a tile program. Importing this package registers all of them."""

from tilegen.frontend.handlers import (
    assumptions,
    atomics,
    blocks,
    builtins,
    custom,
    foreign,
    kernel,
    loops,
    scalars,
    tensors,
    tiles,
)

__all__ = [
    "assumptions",
    "atomics",
    "blocks",
    "builtins",
    "custom",
    "foreign",
    "kernel",
    "loops",
    "scalars",
    "tensors",
    "tiles",
]
