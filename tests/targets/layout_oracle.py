"""An independent reading of thread-value layouts, for the tests of the targets' atoms."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.atoms import MmaOperand, ThreadValueLayout


def evaluate(shape: object, stride: object, index: int) -> int:
    """Shape:Stride at a column-major index, by the definition: peel the modes from the left."""
    if isinstance(shape, int) and isinstance(stride, int):
        return index % shape * stride
    offset = 0
    for inner_shape, inner_stride in zip(shape, stride, strict=True):  # type: ignore[call-overload]
        extent = size(inner_shape)
        offset += evaluate(inner_shape, inner_stride, index % extent)
        index //= extent
    return offset


def size(shape: object) -> int:
    if isinstance(shape, int):
        return shape
    product = 1
    for inner in shape:  # type: ignore[attr-defined]
        product *= size(inner)
    return product


def at(layout: ThreadValueLayout, thread: int, value: int) -> int:
    """The element index that the layout gives to (thread, value)."""
    (thread_shape, value_shape), (thread_stride, value_stride) = layout.shape, layout.stride
    return evaluate(thread_shape, thread_stride, thread) + evaluate(value_shape, value_stride, value)


def elements(operand: MmaOperand, rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Every (thread, value, row, column) of an operand whose tile has `rows` rows."""
    threads, values = size(operand.layout.shape[0]), size(operand.layout.shape[1])
    for thread in range(threads):
        for value in range(values):
            index = at(operand.layout, thread, value)
            yield thread, value, index % rows, index // rows
