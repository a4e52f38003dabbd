"""What the simulated machine refuses."""

from __future__ import annotations


class SimulationError(Exception):
    """A trap: bad address, race, unknown instruction; the message names the instruction and the wave."""
