"""tilegen's side of the benchmarks that run the repository's examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.correctness import Output
from benchmarks.measure import Run
from tilegen.errors import TilegenError

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


def variants(name: str, module: ModuleType) -> list[Mapping[str, Any]]:
    """Keyword arguments to try: none, and the example's `schedules` if it lists any."""
    return [{}, *getattr(module, "schedules", ())]


def launch(kernel: Any, inputs: Sequence[Any], output: Output, parameters: Mapping[str, Any]) -> Run:
    """A launch of a kernel whose first output is `output`; further ones are allocated once."""
    made = kernel(*inputs, **parameters)
    outputs = made if isinstance(made, tuple) else (made,)
    if outputs[0].shape != output.tensor.shape:
        raise TilegenError(
            f"the example returns shape {tuple(outputs[0].shape)}, not {tuple(output.tensor.shape)}"
        )
    kept = (output.tensor, *outputs[1:])
    out = kept if len(kept) > 1 else output.tensor

    def run() -> None:
        kernel(*inputs, out=out, **parameters)

    return run


def candidates(
    name: str, inputs: Sequence[Any], output: Output, parameters: Mapping[str, Any]
) -> dict[str, Callable[[], Run]]:
    """What makes a launch of each schedule of an example; nothing where the example is missing."""
    try:
        module = example(name)
    except ExampleMissing:
        return {}
    kernel = kernel_of(name)

    def making(schedule: Mapping[str, Any]) -> Callable[[], Run]:
        return lambda: launch(kernel, inputs, output, {**parameters, **schedule})

    return {
        ", ".join(f"{key}={value}" for key, value in schedule.items()) or "default": making(schedule)
        for schedule in variants(name, module)
    }
