"""The machine: decodes a kernel once, then runs its workgroups one by one, each wave up to its next barrier."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto

import numpy as np

from cdna_simulator.code_object import Instruction, Kernel
from cdna_simulator.errors import SimulationError
from cdna_simulator.lds_operations import decode_lds
from cdna_simulator.local_data_share import BankCount, LocalDataShare
from cdna_simulator.matrix_operations import decode_matrix
from cdna_simulator.memory import GlobalMemory
from cdna_simulator.memory_operations import decode_memory
from cdna_simulator.packed_operations import decode_packed
from cdna_simulator.scalar_operations import decode_scalar, signed
from cdna_simulator.vector_operations import decode_vector
from cdna_simulator.wave import LANES, Wave

Action = Callable[[Wave], object]
Dimensions = tuple[int, int, int]


class Stop(Enum):
    """Why a wave stopped."""

    BARRIER = auto()
    END = auto()


# Hints and cache control: no effect on results.
_IGNORED = {
    "s_nop", "s_sleep", "s_setprio", "s_sethalt", "s_inst_prefetch", "s_icache_inv", "s_dcache_wb", "s_dcache_inv",
    "buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_invl2", "v_nop", "s_setreg_b32",
    "s_setreg_imm32_b32", "s_sched_barrier", "s_ttracedata", "s_waitcnt_depctr",
}  # fmt: skip
_CONDITIONS: dict[str, Callable[[Wave], bool]] = {
    "s_branch": lambda wave: True,
    "s_cbranch_scc0": lambda wave: not wave.scc,
    "s_cbranch_scc1": lambda wave: wave.scc,
    "s_cbranch_vccz": lambda wave: wave.vcc == 0,
    "s_cbranch_vccnz": lambda wave: wave.vcc != 0,
    "s_cbranch_execz": lambda wave: wave.exec == 0,
    "s_cbranch_execnz": lambda wave: wave.exec != 0,
}
_DECODERS = (decode_scalar, decode_vector, decode_packed, decode_matrix, decode_lds, decode_memory)
# Scalar registers that the kernel descriptor asks for, in order: bit of the properties word, registers.
_USER_SCALARS = ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1))
_KERNEL_ARGUMENTS = 3


class Machine:
    """One kernel, decoded. `counts[i]` is how often instruction i ran."""

    def __init__(self, kernel: Kernel, memory: GlobalMemory, limit: int) -> None:
        self.kernel = kernel
        self.counts = [0] * len(kernel.instructions)
        self.banks: dict[str, BankCount] = {}
        self.barriers = 0
        self._memory = memory
        self._left = limit
        index = {instruction.address: i for i, instruction in enumerate(kernel.instructions)}
        self._actions = [self._decode(instruction, index) for instruction in kernel.instructions]

    def run_block(
        self, block: Dimensions, position: Dimensions, arguments: int, lds_bytes: int, order: str, seed: int
    ) -> None:
        """Runs one workgroup; waves take turns in the order "forward", "reverse" or "random"."""
        lds = LocalDataShare(self.kernel.lds_bytes + lds_bytes, self.banks)
        threads = block[0] * block[1] * block[2]
        waves = [
            self._new_wave(number, min(LANES, threads - LANES * number), block, position, arguments, lds)
            for number in range((threads + LANES - 1) // LANES)
        ]
        shuffler = random.Random(seed)
        while not all(wave.done for wave in waves):
            turn = [wave for wave in waves if not wave.done]
            if order == "reverse":
                turn.reverse()
            elif order == "random":
                shuffler.shuffle(turn)
            for wave in turn:
                wave.done = self._run(wave) is Stop.END
            lds.barrier()
            self.barriers += 1

    def _run(self, wave: Wave) -> Stop:
        """Runs a wave to its next barrier or its end."""
        actions, counts = self._actions, self.counts
        while True:
            here = wave.next
            counts[here] += 1
            wave.next = here + 1
            try:
                result = actions[here](wave)
            except SimulationError as error:
                raise SimulationError(
                    f"wave {wave.number} at {self.kernel.instructions[here]}: {error}"
                ) from error
            if isinstance(result, Stop):
                return result
            self._left -= 1
            if self._left < 0:
                raise SimulationError(
                    f"no end after the permitted instructions, at {self.kernel.instructions[here]}"
                )

    def _new_wave(
        self,
        number: int,
        lanes: int,
        block: Dimensions,
        position: Dimensions,
        arguments: int,
        lds: LocalDataShare,
    ) -> Wave:
        """Initial registers (LLVM AMDGPU usage guide, Initial Kernel Execution State)."""
        wave = Wave(number, lanes, self._memory, lds)
        next_scalar = 0
        for bit, count in _USER_SCALARS:
            if self.kernel.properties >> bit & 1:
                if bit == _KERNEL_ARGUMENTS:
                    wave.scalar[next_scalar] = arguments & 0xFFFFFFFF
                    wave.scalar[next_scalar + 1] = arguments >> 32
                next_scalar += count
        next_scalar = max(next_scalar, self.kernel.resources >> 1 & 31)
        for axis in range(3):
            if self.kernel.resources >> (7 + axis) & 1:
                wave.scalar[next_scalar] = position[axis]
                next_scalar += 1
        thread = np.arange(LANES * number, LANES * (number + 1))
        x, y, z = thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1])
        wave.vector[0] = (x | y << 10 | z << 20).astype(np.uint32)
        return wave

    def _decode(self, instruction: Instruction, index: dict[int, int]) -> Action:
        name = instruction.mnemonic
        if name == "s_endpgm":
            return lambda wave: Stop.END
        if name == "s_barrier":
            return lambda wave: Stop.BARRIER
        if name == "s_waitcnt":
            return _wait(instruction)
        if name in _CONDITIONS:
            return _branch(instruction, index)
        if name in _IGNORED:
            return lambda wave: None
        plain = replace(instruction, mnemonic=re.sub(r"_e(32|64)$", "", name))
        for decode in _DECODERS:
            action = decode(plain)
            if action:
                return action
        return _unknown(instruction)


def _wait(instruction: Instruction) -> Action:
    match = re.search(r"vmcnt\((\d+)\)", " ".join((*instruction.operands, *instruction.modifiers)))
    if not match:
        return lambda wave: None
    remaining = int(match[1])
    return lambda wave: wave.retire(remaining)


def _branch(instruction: Instruction, index: dict[int, int]) -> Action:
    holds = _CONDITIONS[instruction.mnemonic]
    distance = 4 * signed(int(instruction.operands[0], 0), 16)
    target = index[instruction.address + instruction.size + distance]

    def action(wave: Wave) -> None:
        if holds(wave):
            wave.next = target

    return action


def _unknown(instruction: Instruction) -> Action:
    """Unknown instructions trap when they are reached: padding after the end need not be known."""

    def action(wave: Wave) -> None:
        raise SimulationError("the simulator does not know this instruction")

    return action
