"""`tilegen emit`: writes the emitted files, or checks that those on disk are current."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilegen.cli.console import errors, output
from tilegen.cli.loading import load_configured
from tilegen.cli.options import Dims, KernelReference, Settings, Targets, folder, read_dims, read_settings
from tilegen.runtime.devices import resolve_target


def emit(
    kernel: KernelReference,
    target: Targets = None,
    dim: Dims = None,
    set: Settings = None,
    out: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("."),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if files there are stale or missing.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="Another name for kernel and launcher.")] = None,
) -> None:
    """Emit a kernel: <name>.<target>.cu (or .hip), .h and .json."""
    loaded, parameters_for = load_configured(kernel)
    dims, given = read_dims(dim), read_settings(set)
    targets = list(dict.fromkeys(resolve_target(t).name for t in target or ["auto"]))
    emissions = [
        loaded.emit(target=t, name=name, dims=dims, **{**parameters_for(t), **given}) for t in targets
    ]
    if not check:
        for emission in emissions:
            for path in emission.save(folder(out)):
                output.print(str(path))
        return
    stale = [path for emission in emissions for path in emission.stale(folder(out))]
    for path in stale:
        errors.print(f"{'stale' if path.is_file() else 'missing'}: {path}")
    if stale:
        raise typer.Exit(1)
    output.print(f"{sum(len(emission.files) for emission in emissions)} files are current")
