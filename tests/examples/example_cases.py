"""Every example, for every target it names, with the arrays that it brings for the emulator."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen.cli.loading import Example, load_example
from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def example(name: str) -> Example:
    return load_example(str(EXAMPLES / f"{name}.py"))


def cases(*languages: str, targets: tuple[str, ...] = ()) -> list[Any]:
    """(example, target) as pytest parameters; only files that say how they are run are examples."""
    from tilegen.target import load_target

    found = []
    for path in sorted(EXAMPLES.glob("*.py")):
        if "def reference(" in path.read_text(encoding="utf-8"):
            for target in example(path.stem).targets:
                if load_target(target).language in languages and (not targets or target in targets):
                    found.append(pytest.param(path.stem, target, id=f"{path.stem}-{target}"))
    return found


@cache
def arrays(name: str, target: str = "") -> tuple[Any, ...]:
    """The example's arrays for the emulator, as the target's parameters want them."""
    subject = example(name)
    return subject.made_inputs(np.random.default_rng(0), subject.parameters_for(target), small=True)


@cache
def emission(name: str, target: str) -> Emission:
    subject = example(name)
    if subject.kernel.is_factory:
        return subject.kernel.emit(target=target, **subject.parameters_for(target))
    specs = [spec_of_array(array.shape, array.dtype) for array in arrays(name, target)]
    return subject.kernel.emit(*specs, target=target, **subject.parameters_for(target))
