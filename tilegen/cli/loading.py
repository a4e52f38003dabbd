"""Finds the kernel that `FILE:kernel` names, and what an example module says of it.

An example module defines

- a kernel (a `@tilegen.jit` function): the one called `kernel`, else the only one of the module;
- `inputs(rng)`: the call's arrays, from a `numpy.random.Generator`;
- `reference(*inputs)`: the expected output, or a tuple of several;
- `tolerance`: the largest accepted ‖out − ref‖ / ‖ref‖;
- optionally `parameters`: keyword arguments of the kernel (of a factory of lazy programs: its arguments),
- `target_parameters`: for targets by name, those that take the place of `parameters`' there,
- `emulation_inputs(rng)`: smaller arrays, used where the kernel runs in the emulator, and
- `targets`: the targets that `check` looks at, all of them by default.

`inputs`, `emulation_inputs` and `reference` are also given those of the kernel's keyword arguments that they name.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tilegen.errors import TilegenError
from tilegen.jit_kernel import JitKernel
from tilegen.target import target_names


class ExampleError(TilegenError):
    """A file that cannot be loaded, or that lacks what a command needs of it."""


@dataclass(frozen=True, slots=True)
class Example:
    """An example module's parts; see the module docstring."""

    name: str
    kernel: JitKernel
    inputs: Callable[..., Any]
    emulation_inputs: Callable[..., Any]
    reference: Callable[..., Any]
    tolerance: float
    parameters: Mapping[str, Any]
    target_parameters: Mapping[str, Mapping[str, Any]]
    targets: tuple[str, ...]

    def parameters_for(self, target: str) -> dict[str, Any]:
        """The kernel's keyword arguments on a target."""
        return {**self.parameters, **self.target_parameters.get(target, {})}

    def made_inputs(self, generator: Any, parameters: Mapping[str, Any], small: bool) -> tuple[Any, ...]:
        """The call's arrays for these keyword arguments of the kernel; `small` ones are for the emulator."""
        make = self.emulation_inputs if small else self.inputs
        made = make(generator, **_named_by(make, parameters))
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def expected(self, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """What the kernel shall give for these arrays and keyword arguments."""
        return self.reference(*inputs, **_named_by(self.reference, parameters))


def _named_by(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the kernel's keyword arguments that are parameters with a default here, too."""
    own = inspect.signature(function).parameters.values()
    known = {parameter.name for parameter in own if parameter.default is not parameter.empty}
    return {name: value for name, value in parameters.items() if name in known}


def load_module(path: Path) -> ModuleType:
    """Runs a Python file as a module of its own; its folder is importable meanwhile.

    Raises:
        ExampleError: if the file is not there or fails.
    """
    if not path.is_file():
        raise ExampleError(f"{path} is not a file")
    name = f"tilegen_example_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ExampleError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    except TilegenError:
        raise
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise ExampleError(f"{path}{_line_in(path, error)} failed while it was loaded: {what}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """`:12`, the line of a file that an error came from; nothing where its text did not run."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) == path.absolute()]
    return f":{lines[0]}" if lines else ""


def split_reference(text: str) -> tuple[Path, str | None]:
    """`examples/matmul.py:matmul_relu` is the file and the kernel's name (None without a colon)."""
    head, colon, tail = text.rpartition(":")
    if colon and tail.isidentifier() and head:
        return Path(head), tail
    return Path(text), None


def load_kernel(reference: str) -> JitKernel:
    """The kernel that `FILE:kernel` names; `FILE` alone suffices where it has only one.

    Raises:
        ExampleError: no such file or kernel, or several to choose from.
    """
    path, name = split_reference(reference)
    return _kernel_of(load_module(path), path, name)


def load_configured(reference: str) -> tuple[JitKernel, Callable[[str], dict[str, Any]]]:
    """A kernel as `load_kernel` finds it, and the keyword arguments that its file gives it on a target; those are for
    the file's own kernel alone.

    Raises:
        ExampleError: no such file or kernel, or several to choose from.
    """
    path, name = split_reference(reference)
    module = load_module(path)
    kernel = _kernel_of(module, path, name)
    kernels = {id(value) for value in vars(module).values() if isinstance(value, JitKernel)}
    if getattr(module, "kernel", kernel if len(kernels) == 1 else None) is not kernel:
        return kernel, lambda target: {}
    common, own = getattr(module, "parameters", {}), getattr(module, "target_parameters", {})
    return kernel, lambda target: {**common, **own.get(target, {})}


def _kernel_of(module: ModuleType, path: Path, name: str | None) -> JitKernel:
    kernels = {key: value for key, value in vars(module).items() if isinstance(value, JitKernel)}
    if name is not None:
        kernels = {kernel.__name__: kernel for kernel in kernels.values()} | kernels
        if name not in kernels:
            raise ExampleError(f"{path} has no kernel '{name}'; it has {', '.join(kernels) or 'none'}")
        return kernels[name]
    if "kernel" in kernels:
        return kernels["kernel"]
    if len({id(kernel) for kernel in kernels.values()}) != 1:
        listing = ", ".join(kernels) or "none"
        raise ExampleError(
            f"{path} has no single kernel ({listing})\n  remedy: name one, as in {path}:kernel"
        )
    return next(iter(kernels.values()))


def load_example(reference: str) -> Example:
    """An example module's kernel with its inputs and reference.

    Raises:
        ExampleError: naming the part that is missing.
    """
    path, name = split_reference(reference)
    module = load_module(path)
    missing = [part for part in ("inputs", "reference", "tolerance") if not hasattr(module, part)]
    if missing:
        raise ExampleError(
            f"{path} does not define {', '.join(missing)}\n"
            "  remedy: an example module defines its kernel, inputs(rng), reference(*inputs) and tolerance"
        )
    return Example(
        name=path.stem,
        kernel=_kernel_of(module, path, name),
        inputs=module.inputs,
        emulation_inputs=getattr(module, "emulation_inputs", module.inputs),
        reference=module.reference,
        tolerance=float(module.tolerance),
        parameters=dict(getattr(module, "parameters", {})),
        target_parameters=dict(getattr(module, "target_parameters", {})),
        targets=tuple(getattr(module, "targets", target_names())),
    )
