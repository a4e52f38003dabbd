"""From an atom's thread-value layout (Shape:Stride over a column-major tile) to fragment modes."""

from __future__ import annotations

from tilegen.atoms import ThreadValueLayout
from tilegen.inference.fragment import Mode

Nested = int | tuple["Nested", ...]


def _flatten(value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    assert isinstance(value, tuple)
    return tuple(leaf for item in value for leaf in _flatten(item))


def _modes(shape: object, stride: object, rows: int) -> tuple[Mode, ...]:
    modes = []
    for extent, step in zip(_flatten(shape), _flatten(stride), strict=True):
        modes.append(Mode(extent, (step % rows, step // rows)))
    return tuple(modes)


def thread_modes(layout: ThreadValueLayout, rows: int) -> tuple[Mode, ...]:
    """The thread modes of an atom's operand over a tile of `rows` rows; steps are (row, column)."""
    assert isinstance(layout.shape, tuple) and isinstance(layout.stride, tuple)
    return _modes(layout.shape[0], layout.stride[0], rows)


def value_modes(layout: ThreadValueLayout, rows: int) -> tuple[Mode, ...]:
    """The register modes, likewise."""
    assert isinstance(layout.shape, tuple) and isinstance(layout.stride, tuple)
    return _modes(layout.shape[1], layout.stride[1], rows)


def shifted(modes: tuple[Mode, ...], extent: int, steps: tuple[int, int]) -> tuple[Mode, ...]:
    """The modes followed by `extent` repetitions, `steps` apart."""
    return (*modes, Mode(extent, steps)) if extent > 1 else modes
