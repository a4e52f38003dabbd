"""The manifest as plain data, whether it comes as tilegen.manifest.Manifest or as the JSON's mapping."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilegen.emulate.errors import EmulationError
from tilegen.manifest import Manifest

Facts = Mapping[str, Any]


def facts_of(manifest: Manifest | Facts) -> Facts:
    """Names and values as the manifest's JSON has them.

    Raises:
        EmulationError: (kind "manifest") something else.
    """
    if isinstance(manifest, Manifest):
        return dataclasses.asdict(manifest)
    if not isinstance(manifest, Mapping):
        raise EmulationError(
            "manifest",
            f"a manifest is what json.loads gives of the .json file, not {type(manifest).__name__}",
        )
    return manifest
