"""The device primitives of a kernel: those that lowering names and those that its scalar expressions call."""

from __future__ import annotations

from tilegen.emit.primitives import Primitive
from tilegen.emit.spoken_names import called_names
from tilegen.model.kernel import KernelModel

SCALAR_PRIMITIVES = ("exp2_approx",)
"""What a scalar expression may call; a file has it when its text does."""


def used_primitives(model: KernelModel) -> tuple[Primitive, ...]:
    """Each primitive once, without those that primitives require of one another."""
    called = called_names(model.body)
    wanted = [Primitive(name, parameters) for name, parameters in model.primitives]  # type: ignore[arg-type]
    wanted += [Primitive(name) for name in SCALAR_PRIMITIVES if name in called]
    return tuple(dict.fromkeys(wanted))
