"""The manifest as plain data, whether it comes as tilegen.manifest.Manifest or as the JSON's mapping."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilegen.manifest import Manifest

Facts = Mapping[str, Any]


def facts_of(manifest: Manifest | Facts) -> Facts:
    """Names and values as the manifest's JSON has them."""
    return dataclasses.asdict(manifest) if isinstance(manifest, Manifest) else manifest
