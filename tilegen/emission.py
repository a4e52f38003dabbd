"""What a tile program became: the emitted files, and ways to look at them, emulate them and compile them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilegen.driver import Generated
from tilegen.manifest import Manifest
from tilegen.target import Target

if TYPE_CHECKING:
    import numpy

    from tilegen.runtime.compilation import Backend
    from tilegen.runtime.compiled import CompiledKernel

Schedule = Literal["fifo", "reverse", "random"]
Asynchronous = Literal["eager", "lazy", "random"]
_SUFFIXES = {"cuda": "cu", "hip": "hip"}


@dataclass(frozen=True, slots=True)
class Emission:
    """One kernel for one target.

    `source` is the kernel file, `header` declares its launcher, `manifest` says how to launch it; `files` has all
    three by name.
    """

    generated: Generated

    @property
    def source(self) -> str:
        return self.generated.source

    @property
    def header(self) -> str:
        return self.generated.header

    @property
    def manifest(self) -> Manifest:
        return self.generated.manifest

    @property
    def target(self) -> Target:
        return self.generated.target

    @property
    def name(self) -> str:
        """The kernel's name; the launcher is `<name>_launch`."""
        return self.manifest.kernel

    @property
    def files(self) -> dict[str, str]:
        """The texts of `<name>.<target>.cu` (or `.hip`), `.h` and `.json`."""
        stem = f"{self.name}.{self.target.name}"
        return {
            f"{stem}.{_SUFFIXES[self.target.language]}": self.source,
            f"{stem}.h": self.header,
            f"{stem}.json": self.manifest.to_json(),
        }

    def save(self, folder: str | Path) -> list[Path]:
        """Writes the files into a folder, which is made if need be; each appears whole or not at all."""
        from tilegen.runtime.disk_cache import write_atomically

        paths = []
        for name, text in self.files.items():
            path = Path(folder) / name
            write_atomically(path, text.encode())
            paths.append(path)
        return paths

    def stale(self, folder: str | Path) -> list[Path]:
        """The files in a folder that are missing or differ from what is emitted now."""
        return [
            Path(folder) / name
            for name, text in self.files.items()
            if not (Path(folder) / name).is_file() or (Path(folder) / name).read_bytes() != text.encode()
        ]

    def report(self) -> str:
        """How the kernel came about: layouts, atoms, pipeline, registers, work and roofline time."""
        from tilegen.inspect.report import report

        return report(self.generated)

    def emulate(
        self,
        *arrays: numpy.ndarray[Any, Any],
        schedule: Schedule = "fifo",
        asynchronous: Asynchronous = "eager",
        seed: int = 0,
        multiprocessors: int = 3,
        scalars: Mapping[str, int | float] | None = None,
    ) -> Any:
        """Runs the emitted text on the CPU on NumPy arrays and returns the output (a tuple if several).

        `schedule` orders the threads, `asynchronous` says when asynchronous work lands, `seed` drives what is random.

        Raises:
            EmulationError: what the emulated machine finds wrong, with the source lines.
        """
        written = self.emulate_all(
            *arrays,
            schedule=schedule,
            asynchronous=asynchronous,
            seed=seed,
            multiprocessors=multiprocessors,
            scalars=scalars,
        )
        results = tuple(written[name] for name in self.manifest.outputs or written)
        return results[0] if len(results) == 1 else results

    def emulate_all(
        self,
        *arrays: numpy.ndarray[Any, Any],
        schedule: Schedule = "fifo",
        asynchronous: Asynchronous = "eager",
        seed: int = 0,
        multiprocessors: int = 3,
        scalars: Mapping[str, int | float] | None = None,
    ) -> dict[str, numpy.ndarray[Any, Any]]:
        """`emulate`, with every tensor that the kernel writes by its name, arguments that it updates included."""
        from tilegen import emulate

        called = {scalar.keyword: scalar.name for scalar in self.manifest.scalars}
        result = emulate.run(
            self.source,
            json.loads(self.manifest.to_json()),
            arrays,
            schedule=schedule,
            asynchronous=asynchronous,
            seed=seed,
            multiprocessors=multiprocessors,
            scalars={called.get(name, name): value for name, value in (scalars or {}).items()},
        )
        names = [tensor.name for tensor in self.manifest.tensors if tensor.role in ("output", "inout")]
        return dict(zip(names, result if isinstance(result, tuple) else (result,), strict=True))

    def compile(self, backend: Backend | None = None) -> CompiledKernel:
        """The kernel as device code; needs a compiler (NVRTC unless another backend is named), no GPU.

        Raises:
            CompilationError: when the compiler refuses the file.
            ToolMissing: when the compiler is not on this machine; the message says what to install.
        """
        from tilegen.runtime.compiled import CompiledKernel

        return CompiledKernel(self.source, self.manifest, self.target, backend)
