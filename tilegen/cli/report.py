"""`tilegen report`: how a kernel comes about, without writing it."""

from __future__ import annotations

from tilegen.cli.console import output
from tilegen.cli.loading import load_kernel
from tilegen.cli.options import Dims, KernelReference, Settings, Targets, read_dims, read_settings


def report(kernel: KernelReference, target: Targets = None, dim: Dims = None, set: Settings = None) -> None:
    """Print layouts, instructions, pipeline, registers, work and roofline time."""
    loaded = load_kernel(kernel)
    dims, parameters = read_dims(dim), read_settings(set)
    for position, name in enumerate(target or ["auto"]):
        if position:
            output.print()
        output.print(loaded.emit(target=name, dims=dims, **parameters).report(), markup=False)
