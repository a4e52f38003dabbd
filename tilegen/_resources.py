"""Where files live: the data folders in a wheel, beside the package in a checkout or an editable install."""

from __future__ import annotations

import os
from pathlib import Path

from tilegen.errors import TilegenError

_PACKAGE = Path(__file__).resolve().parent


def targets_root() -> Path:
    """The folder of the target descriptions (`*.toml`)."""
    return _data_folder("targets", "sm_90a.toml")


def templates_root() -> Path:
    """The folder of the Jinja templates and the emulator's headers."""
    return _data_folder("templates", "emulator")


def cache_root() -> Path | None:
    """The folder for all that is kept, or None when the cache is switched off."""
    if os.environ.get("TILEGEN_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return None
    chosen = os.environ.get("TILEGEN_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tilegen", appauthor=False))


def _data_folder(name: str, landmark: str) -> Path:
    candidates = (_PACKAGE / name, _PACKAGE.parent / name)
    for candidate in candidates:
        if (candidate / landmark).exists():
            return candidate
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise TilegenError(f"tilegen's data folder '{name}' is missing (looked at {looked}): reinstall tilegen")
