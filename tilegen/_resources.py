"""Where the data folders live: inside the package in a wheel, beside it in a checkout or an editable install."""

from __future__ import annotations

from pathlib import Path

from tilegen.errors import TilegenError

_PACKAGE = Path(__file__).resolve().parent


def targets_root() -> Path:
    """The folder of the target descriptions (`*.toml`)."""
    return _data_folder("targets", "sm_90a.toml")


def templates_root() -> Path:
    """The folder of the Jinja templates and the emulator's headers."""
    return _data_folder("templates", "emulator")


def _data_folder(name: str, landmark: str) -> Path:
    candidates = (_PACKAGE / name, _PACKAGE.parent / name)
    for candidate in candidates:
        if (candidate / landmark).exists():
            return candidate
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise TilegenError(f"tilegen's data folder '{name}' is missing (looked at {looked}): reinstall tilegen")
