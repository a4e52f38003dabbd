"""What can go wrong when an emitted file is emulated."""

from __future__ import annotations

from tilegen.errors import TilegenError


class EmulationError(TilegenError):
    """The emulated kernel did what a device forbids, or what no device could do.

    kind       race, deadlock, out-of-bounds, misaligned, poison, register-budget, barrier-misuse, missing-fence,
               divergence, read-only, misuse, trap, crash, timeout, manifest, argument, tensor-map, resources, rest
    line       of the emitted file, None if unknown
    user_line  the Python line and statement that the emitted file names above it, None if unknown
    """

    def __init__(
        self, kind: str, message: str, line: int | None = None, user_line: str | None = None
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.line = line
        self.user_line = user_line


class UnusableText(TilegenError):
    """The text is no emitted file: a section is missing, or the host compiler rejects it."""


class CompilerMissing(TilegenError):
    """No C++ compiler was found on this machine."""
