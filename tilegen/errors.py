"""The root of every error that tilegen raises on purpose."""

from __future__ import annotations


class TilegenError(Exception):
    """A program, a target or a call that tilegen cannot honour; the message says why and what to do."""
