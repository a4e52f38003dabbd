"""Which arrays a call takes and makes, and which of them must not share memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.calls.arrays import ArrayFacts, numpy_dtype
from tilegen.errors import ArgumentError
from tilegen.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Apart:
    """Two arrays of a call, the first one written, that must not share memory: their names, their places among the
    call's addresses and their sizes in bytes."""

    names: tuple[str, str]
    places: tuple[int, int]
    sizes: tuple[int, int]


def allocated(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that a call makes and returns, in return order."""
    positions = {tensor.name: position for position, tensor in enumerate(manifest.tensors)}
    return tuple(
        positions[name] for name in manifest.outputs if manifest.tensors[positions[name]].role == "output"
    )


def supplied(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that the caller passes, in launch order."""
    other = {*allocated(manifest), *scratch(manifest)}
    return tuple(position for position in range(len(manifest.tensors)) if position not in other)


def scratch(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the tensors that a call makes for the kernel alone."""
    return tuple(p for p, tensor in enumerate(manifest.tensors) if tensor.role == "scratch")


def check_count(manifest: Manifest, positions: Sequence[int], given: int) -> None:
    """Raises ArgumentError unless as many arrays are given as there are positions to fill."""
    if given != len(positions):
        names = ", ".join(manifest.tensors[position].name for position in positions)
        count = f"{len(positions)} array{'' if len(positions) == 1 else 's'}"
        numbers = ", ".join(f"{scalar.keyword}=…" for scalar in manifest.scalars)
        remedy = "pass the arrays in the program's order" + (
            f", numbers by name: {numbers}" if numbers else ""
        )
        raise ArgumentError("list", f"{count} ({names})", f"{given}", remedy)


def check_outputs(manifest: Manifest, positions: Sequence[int], given: int) -> None:
    """Raises ArgumentError unless `out` has an array for each tensor that a call would make."""
    if given and not positions:
        remedy = "leave out= away: arrays that the program writes are among its arguments"
        raise ArgumentError("out", "none, for the program makes no output", f"{given}", remedy)
    if given and given != len(positions):
        names = ", ".join(manifest.tensors[position].name for position in positions)
        count = f"{len(positions)} array{'' if len(positions) == 1 else 's'}"
        raise ArgumentError(
            "out", f"{count} ({names})", f"{given}", "pass one for each output, in their order"
        )


def arrays_apart(
    manifest: Manifest, facts: Mapping[int, ArrayFacts], places: Mapping[int, int]
) -> tuple[Apart, ...]:
    """The pairs of given arrays that the kernel takes to be apart: what it writes, and everything else.

    `facts` and `places` are by position in `manifest.tensors`.
    """
    sizes = {position: _span(array) for position, array in facts.items()}
    pairs = []
    for written in facts:
        if manifest.tensors[written].role == "input":
            continue
        for other in facts:
            if other == written or (manifest.tensors[other].role != "input" and other < written):
                continue
            names = manifest.tensors[written].name, manifest.tensors[other].name
            pairs.append(Apart(names, (places[written], places[other]), (sizes[written], sizes[other])))
    return tuple(pairs)


def check_apart(pairs: Sequence[Apart], addresses: Sequence[int]) -> None:
    """Raises ArgumentError where two such arrays share memory."""
    for pair in pairs:
        first, second = addresses[pair.places[0]], addresses[pair.places[1]]
        if first < second + pair.sizes[1] and second < first + pair.sizes[0]:
            raise ArgumentError(
                pair.names[0],
                f"memory that {pair.names[1]} does not use",
                "arrays that overlap",
                "pass a copy of one of them: a tensor that is written overlaps no other",
            )


def _span(array: ArrayFacts) -> int:
    """The bytes from an array's first element to the end of its last one."""
    if 0 in array.shape:
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return (1 + last) * numpy_dtype(array.dtype).itemsize
