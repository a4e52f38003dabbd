"""Where the package's data folders (targets, templates) lie."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def data_folder(name: str) -> Path:
    """The folder `targets` or `templates`: inside the installed package, or beside it in a source checkout.

    Raises FileNotFoundError if the installation lacks it.
    """
    for parent in (_PACKAGE, _PACKAGE.parent):
        folder = parent / name
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"tilegen's data folder '{name}' is missing: the installation is incomplete")
