"""`tilegen run`: an example's kernel on random inputs, compared with the example's own reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy
import typer

from tilegen.calls.arrays import framework_named
from tilegen.cli.comparing import difference
from tilegen.cli.console import errors, fail, output
from tilegen.cli.loading import load_example
from tilegen.cli.options import ExampleFile, Settings, only_target, read_settings
from tilegen.errors import DeviceError
from tilegen.runtime.devices import EMULATED, present_device, target_of_device
from tilegen.runtime.loading import import_cupy
from tilegen.runtime.profiler import do_bench


def run(
    file: ExampleFile,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", metavar="NAME", help="The GPU's by default, else sm_90a."),
    ] = None,
    set: Settings = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random inputs.")] = 0,
    emulate: Annotated[bool, typer.Option("--emulate", help="Do not use the GPU.")] = False,
) -> None:
    """Run an example on the GPU if there is one, else in the emulator; exit with 1 if the result is wrong."""
    asked = only_target(target)
    example = load_example(file)
    kernel = example.kernel if asked is None else example.kernel.for_target(asked)
    device = None if emulate else _usable_device()
    name = asked or (target_of_device(device).name if device is not None else EMULATED)
    parameters = {**example.parameters_for(name), **read_settings(set)}
    inputs = example.made_inputs(numpy.random.default_rng(seed), parameters, small=device is None)
    if device is not None:
        where = f"on the GPU ({target_of_device(device).name})"
        arrays = tuple(_on_gpu(array) for array in inputs)
    else:
        where = "in the emulator"
        arrays = inputs
    result = call(kernel, arrays, parameters)()
    found = difference(result, example.expected(inputs, parameters))
    shapes = ", ".join(str(tuple(array.shape)) for array in inputs)
    output.print(f"{kernel.__name__} {where}, inputs {shapes}")
    output.print(f"{found}, accepted {example.tolerance:.0e}")
    if device is not None:
        output.print(f"median time {do_bench(call(kernel, arrays, parameters)):.4f} ms")
    if not found.within(example.tolerance):
        raise fail("the result is wrong")


def call(kernel: Any, arrays: tuple[Any, ...], parameters: dict[str, Any]) -> Callable[[], Any]:
    """The kernel on these arrays, as a function without arguments; a factory is called with the parameters first."""
    if kernel.is_factory:
        program = kernel.program(**parameters)
        return lambda: program(*arrays)
    return lambda: kernel(*arrays, **parameters)


def _usable_device() -> str | None:
    """The GPU's identifier where there is one that CuPy can launch on; says why if CuPy is missing."""
    device = present_device()
    if device is None:
        return None
    try:
        import_cupy()
    except DeviceError as error:
        errors.print(f"note: a GPU is there, but {error}")
        return None
    return device


def _on_gpu(array: numpy.ndarray[Any, Any]) -> Any:
    """The array on the GPU: by CuPy, or by torch where CuPy lacks the element type."""
    if array.dtype.isbuiltin != 2:
        return framework_named("cupy").from_numpy(array)
    return framework_named("torch").from_numpy(array).cuda()
