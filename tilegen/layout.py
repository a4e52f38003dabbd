"""Layouts that TileLang's programs ask for. tilegen's own are in `tilegen.operations`."""

from __future__ import annotations

from typing import Any

from tilegen.foreign import refuse_foreign
from tilegen.language.operation import operation, outside_kernel

__all__ = ["make_swizzled_layout"]


@operation
def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Any:
    """In `T.annotate_layout`: the layout of a shared tile in which no access meets bank conflicts. tilegen chooses one
    without being asked, so that the annotation is accepted with a warning and changes nothing."""
    raise outside_kernel("make_swizzled_layout")


def __getattr__(name: str) -> Any:
    refuse_foreign("tilegen.layout", name)
    raise AttributeError(f"module 'tilegen.layout' has no attribute '{name}'")
