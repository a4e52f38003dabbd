"""The errors that tilegen raises on purpose: all derive from one."""

from __future__ import annotations


class TilegenError(Exception):
    """A program, a target or a call that tilegen cannot honour; the message says why and what to do."""


class ArgumentError(TilegenError):
    """A call whose arguments break the kernel's contract; raised before anything is launched.

    Attributes name the argument, what the kernel expects of it, what it got and what to do.
    """

    def __init__(self, argument: str, expected: str, got: str, remedy: str) -> None:
        self.argument = argument
        self.expected = expected
        self.got = got
        self.remedy = remedy
        super().__init__(f"argument {argument}: expected {expected}, got {got}\n  remedy: {remedy}")


class CompilationError(TilegenError):
    """A device compiler refused the emitted file; the message carries its log."""


class DeviceError(TilegenError):
    """The driver reported an error, or no device (or no library to reach it) is there."""
