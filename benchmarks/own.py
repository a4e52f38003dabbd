"""tilegen's side of the benchmarks that run the repository's examples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.correctness import Output
from benchmarks.measure import Run
from tilegen.calls.arrays import framework_of
from tilegen.errors import TilegenError
from tilegen.language.tensors import as_dtype, spec_of_array
from tilegen.runtime.compilation import Backend

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class ExampleMissing(TilegenError):
    """An example that is not in the repository."""


def example(name: str) -> ModuleType:
    """The example module (see `tilegen.cli.loading` for what it defines).

    Raises:
        ExampleMissing: when there is no such file.
        ExampleError: when it cannot be loaded.
    """
    from tilegen.cli.loading import load_module

    path = EXAMPLES / f"{name}.py"
    if not path.is_file():
        raise ExampleMissing(f"there is no {path.name} among the examples")
    return load_module(path)


def kernel_of(name: str) -> Any:
    """The example's kernel: what it calls `kernel`, else its only one."""
    from tilegen.cli.loading import load_kernel

    example(name)
    return load_kernel(str(EXAMPLES / f"{name}.py"))


def variants(
    module: ModuleType, kernel: Any, schedules: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Keyword arguments to try: none, the example's `schedules` if it lists any, and those given that fit."""
    known = set(inspect.signature(kernel.__wrapped__).parameters)
    fitting = [schedule for schedule in schedules if known.issuperset(schedule)]
    return [{}, *getattr(module, "schedules", ()), *fitting]


def element_type(kernel: Any, dtype: str) -> dict[str, Any]:
    """The element type as the kernel's parameter `dtype`, where it has one."""
    return {"dtype": as_dtype(dtype)} if "dtype" in inspect.signature(kernel.__wrapped__).parameters else {}


def launch(
    kernel: Any, inputs: Sequence[Any], output: Output, parameters: Mapping[str, Any], backend: Backend
) -> Run:
    """A launch of a kernel whose first output is `output`; further ones are allocated once. Arrays in host memory are
    emulated."""
    facts = [framework_of(array).facts(array) for array in inputs]
    if facts[0].on_gpu:
        specs = [spec_of_array(f.shape, f.dtype, None if f.row_major else f.strides) for f in facts]
        called = kernel.emit(*specs, **parameters).compile(backend)
    else:
        called = functools.partial(kernel, **parameters)
    made = called(*inputs)
    outputs = made if isinstance(made, tuple) else (made,)
    if outputs[0].shape != output.tensor.shape:
        raise TilegenError(
            f"the example returns shape {tuple(outputs[0].shape)}, not {tuple(output.tensor.shape)}"
        )
    out = (output.tensor, *outputs[1:]) if len(outputs) > 1 else output.tensor

    def run() -> None:
        called(*inputs, out=out)

    return run


def candidates(
    name: str,
    inputs: Sequence[Any],
    output: Output,
    parameters: Mapping[str, Any],
    backend: Backend,
    schedules: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Callable[[], Run]]:
    """What makes a launch of each schedule of an example, those of `schedules` whose words the kernel knows included;
    nothing where the example is missing."""
    try:
        module = example(name)
    except ExampleMissing:
        return {}
    kernel = kernel_of(name)
    given = {**parameters, **element_type(kernel, framework_of(inputs[0]).facts(inputs[0]).dtype)}

    def making(schedule: Mapping[str, Any]) -> Callable[[], Run]:
        return lambda: launch(kernel, inputs, output, {**given, **schedule}, backend)

    return {
        ", ".join(f"{key}={value}" for key, value in schedule.items()) or "default": making(schedule)
        for schedule in variants(module, kernel, schedules)
    }
