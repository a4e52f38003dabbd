"""Runs compiled gfx90a and gfx942 code objects on the CPU: the compiler's own machine code, with numpy.

LLVM decodes (llvm-objdump), the modules here execute, 64 lanes a wave. They know nothing of tilegen's layouts or
templates, so that the two check each other. The simulator traps accesses outside every allocation, misaligned LDS
accesses and LDS races, and counts bank conflicts on the real addresses. Sources: AMD's CDNA2 and CDNA3 ISA documents
and LLVM's AMDGPU usage guide.
"""

from __future__ import annotations

from cdna_simulator.errors import SimulationError
from cdna_simulator.simulate import Report, simulate

__all__ = ["Report", "SimulationError", "simulate"]
