"""What a compiler answers, and the errors when it does not."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import TilegenError


class ToolMissing(TilegenError):
    """A compiler or disassembler is not on this machine; the message says what to install."""

    def __init__(self, tool: str, remedy: str) -> None:
        super().__init__(f"{tool} was not found: {remedy}")
        self.tool = tool
        self.remedy = remedy


class CompileError(TilegenError):
    """A compiler refused the source; `log` is all that it said."""

    def __init__(self, compiler: str, log: str) -> None:
        super().__init__(f"{compiler} refused the source:\n{log}")
        self.compiler = compiler
        self.log = log


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel takes, as its compiler reports it.

    `spills` counts bytes (CUDA: stores and loads) or vector registers (HIP). `scalar_spills` counts scalar registers
    that HIP keeps in lanes of a vector register: a move each, no memory. `shared_bytes` is the static part only;
    `registers` includes `accumulation_registers`.
    """

    name: str
    registers: int
    accumulation_registers: int
    spills: int
    stack_bytes: int
    shared_bytes: int
    scalar_spills: int = 0


@dataclass(frozen=True, slots=True)
class CompileResult:
    """A successful compilation; `binary` is a cubin, an AMDGPU code object, or the host's object file or library.

    `assembly` is the compiler's own listing of the device code (HIP), else empty: see `disassemble`.
    """

    compiler: str
    kernels: tuple[KernelResources, ...]
    log: str
    binary: bytes
    assembly: str = ""

    @property
    def registers(self) -> int:
        """Registers of a thread, of the kernel that takes most."""
        return max((kernel.registers for kernel in self.kernels), default=0)

    @property
    def spills(self) -> int:
        """Spills of all kernels together."""
        return sum(kernel.spills for kernel in self.kernels)

    @property
    def scalar_spills(self) -> int:
        """Scalar registers of all kernels together that are kept in vector registers."""
        return sum(kernel.scalar_spills for kernel in self.kernels)

    @property
    def shared(self) -> int:
        """Static shared bytes of a block, of the kernel that takes most."""
        return max((kernel.shared_bytes for kernel in self.kernels), default=0)

    def kernel(self, name: str) -> KernelResources:
        """One kernel by name.

        Raises:
            TilegenError: when the binary has none of this name.
        """
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        names = ", ".join(kernel.name for kernel in self.kernels)
        raise TilegenError(f"no kernel is called '{name}'; the binary holds {names}")
