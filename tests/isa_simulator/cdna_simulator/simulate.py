"""The door: one call runs a kernel of a code object on numpy arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.code_object import Argument, Kernel, read_kernel
from cdna_simulator.errors import SimulationError
from cdna_simulator.local_data_share import BankCount
from cdna_simulator.machine import Machine
from cdna_simulator.memory import GlobalMemory

Order = Literal["forward", "reverse", "random"]
Value = NDArray[Any] | int | float | np.generic | bytes

_SCALAR_LOAD = 64  # compilers load arguments by up to 16 words, so past the last one
_HIDDEN_ZERO = ("hidden_global_offset", "hidden_none", "hidden_printf", "hidden_hostcall", "hidden_multigrid")


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did: instructions by mnemonic, rounds between barriers, LDS accesses by width with bank conflicts."""

    counts: dict[str, int]
    barriers: int
    banks: dict[str, BankCount]

    @property
    def instructions(self) -> int:
        return sum(self.counts.values())

    @property
    def bank_conflicts(self) -> int:
        """Cycles lost to bank conflicts, of all accesses."""
        return sum(count.conflict_cycles for count in self.banks.values())


def simulate(
    code_object: Path,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Value],
    *,
    dynamic_lds: int = 0,
    order: Order = "forward",
    seed: int = 0,
    limit: int = 100_000_000,
) -> Report:
    """Runs `kernel` over `grid` blocks of `block` threads and returns what it did.

    `arguments` are the kernel's, in order: an array is copied to global memory and, after the run, back in place, so
    outputs are arrays too; a number takes the width that the kernel's metadata gives; bytes are a struct by value.
    Waves of a workgroup take turns in `order` (`seed` for "random").

    Raises:
        SimulationError: for a bad address, an LDS race, a misaligned LDS access, an unknown instruction, wrong
            arguments, private memory (spills), or more than `limit` instructions.
        ToolMissing: when LLVM's tools are not installed.
    """
    program = read_kernel(code_object, kernel)
    if program.private_bytes:
        raise SimulationError(
            f"{kernel} keeps {program.private_bytes} bytes a lane in private memory: not modelled"
        )
    grid_size, block_size = _dimensions(grid), _dimensions(block)
    memory = GlobalMemory()
    visible = [argument for argument in program.arguments if not argument.kind.startswith("hidden_")]
    if len(visible) != len(arguments):
        raise SimulationError(f"{kernel} takes {len(visible)} arguments, {len(arguments)} were given")
    arrays: list[tuple[NDArray[Any], int]] = []
    segment = bytearray(program.argument_bytes + _SCALAR_LOAD)
    for argument, value in zip(visible, arguments, strict=True):
        if isinstance(value, np.ndarray):
            arrays.append((value, memory.allocate(np.ascontiguousarray(value).tobytes())))
            _place(segment, argument, struct.pack("<Q", arrays[-1][1]))
        else:
            _place(segment, argument, _number_bytes(value, argument.size))
    _place_hidden(segment, program, grid_size, block_size)
    machine = Machine(program, memory, limit)
    address = memory.allocate(bytes(segment))
    with np.errstate(all="ignore"):
        for number in range(grid_size[0] * grid_size[1] * grid_size[2]):
            x, rest = number % grid_size[0], number // grid_size[0]
            position = (x, rest % grid_size[1], rest // grid_size[1])
            machine.run_block(block_size, position, address, dynamic_lds, order, seed + number)
    for array, start in arrays:
        data = memory.read_back(start, array.nbytes)
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)
    return _report(machine)


def _report(machine: Machine) -> Report:
    counts: dict[str, int] = {}
    for instruction, count in zip(machine.kernel.instructions, machine.counts, strict=True):
        if count:
            counts[instruction.mnemonic] = counts.get(instruction.mnemonic, 0) + count
    return Report(counts, machine.barriers, machine.banks)


def _dimensions(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return int(x), int(y), int(z)


def _number_bytes(value: Value, size: int) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float):
        return struct.pack({4: "<f", 8: "<d"}[size], value)
    if isinstance(value, int):
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    raise SimulationError(f"an argument cannot be a {type(value).__name__}")


def _place(segment: bytearray, argument: Argument, data: bytes) -> None:
    if len(data) != argument.size:
        raise SimulationError(
            f"the argument at offset {argument.offset} has {argument.size} bytes, not {len(data)}"
        )
    segment[argument.offset : argument.offset + argument.size] = data


def _place_hidden(
    segment: bytearray, program: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    """Hidden arguments (LLVM AMDGPU usage guide, Code Object V5): gridDim and blockDim come through them."""
    for argument in program.arguments:
        if not argument.kind.startswith("hidden_"):
            continue
        axis = "xyz".find(argument.kind[-1])
        name = argument.kind.rpartition("_")[0]
        if name == "hidden_block_count":
            value = grid[axis]
        elif name == "hidden_group_size":
            value = block[axis]
        elif argument.kind == "hidden_grid_dims":
            value = 3
        elif name == "hidden_remainder" or argument.kind.startswith(_HIDDEN_ZERO):
            value = 0
        else:
            continue  # a service of the runtime that device code here never calls
        segment[argument.offset : argument.offset + argument.size] = value.to_bytes(argument.size, "little")
