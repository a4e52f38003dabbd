"""The command line: `tilegen emit | run | check | report | doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

import tilegen
from tilegen.cli.check import check
from tilegen.cli.console import friendly
from tilegen.cli.doctor import doctor
from tilegen.cli.emit import emit
from tilegen.cli.report import report
from tilegen.cli.run import run

app = typer.Typer(
    name="tilegen",
    help="Turns tile programs written in Python into readable, fast CUDA or HIP C++.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(tilegen.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turns tile programs written in Python into readable, fast CUDA or HIP C++."""


for _command in (emit, run, check, report, doctor):
    app.command()(friendly(_command))

__all__ = ["app"]
