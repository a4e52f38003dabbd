"""`tilegen report`: how a kernel comes about, without writing it."""

from __future__ import annotations

from tilegen.cli.console import output
from tilegen.cli.loading import load_configured
from tilegen.cli.options import Dims, KernelReference, Settings, Targets, read_dims, read_settings
from tilegen.runtime.devices import resolve_target


def report(kernel: KernelReference, target: Targets = None, dim: Dims = None, set: Settings = None) -> None:
    """Print layouts, instructions, pipeline, registers, work and roofline time."""
    loaded, parameters_for = load_configured(kernel)
    dims, given = read_dims(dim), read_settings(set)
    for position, name in enumerate(resolve_target(t).name for t in target or ["auto"]):
        if position:
            output.print()
        parameters = {**parameters_for(name), **given}
        output.print(loaded.emit(target=name, dims=dims, **parameters).report(), markup=False)
