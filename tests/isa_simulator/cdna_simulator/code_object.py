"""A compiled kernel: its instructions as LLVM prints them, its descriptor, its arguments."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from cdna_simulator.errors import SimulationError
from tilegen.toolchain import find_tools
from tilegen.toolchain.process import run


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction. `modifiers` are the words after the last operand."""

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: tuple[str, ...]
    address: int
    size: int

    def __str__(self) -> str:
        return f"{self.address:#x}: {self.mnemonic} {', '.join(self.operands)} {' '.join(self.modifiers)}".rstrip()

    def modifier(self, name: str) -> int:
        """The number of `name:number`; 0 when it is not there."""
        for word in self.modifiers:
            if word.startswith(f"{name}:"):
                return int(word[len(name) + 1 :], 0)
        return 0

    def word(self, name: str) -> str:
        """The text of `name:text`; empty when it is not there."""
        return next((word[len(name) + 1 :] for word in self.modifiers if word.startswith(f"{name}:")), "")

    def selectable(self, name: str) -> bool:
        return any(word.startswith(f"{name}:") for word in self.modifiers)

    def selectors(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of `name:[a,b,…]`."""
        for word in self.modifiers:
            if word.startswith(f"{name}:["):
                return tuple(int(number) for number in word[len(name) + 2 : -1].split(","))
        return default


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument of the metadata; `kind` is its value_kind."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel ready to run; sizes in bytes. `properties` and `resources` are words of the kernel descriptor."""

    name: str
    instructions: tuple[Instruction, ...]
    arguments: tuple[Argument, ...]
    argument_bytes: int
    lds_bytes: int
    private_bytes: int
    registers: int
    resources: int  # COMPUTE_PGM_RSRC2
    properties: int  # KERNEL_CODE_PROPERTIES


def read_kernel(code_object: Path, name: str) -> Kernel:
    """Decodes one kernel of a code object with LLVM's tools.

    Raises:
        SimulationError: when it holds no kernel of this name.
        ToolMissing: when llvm-objdump or llvm-readelf are not installed.
    """
    tools = find_tools()
    readelf = [*tools.need_llvm_readelf().command]
    listing = run("llvm-objdump", [*tools.need_llvm_objdump().command, "-d", str(code_object)])
    notes = run("llvm-readelf", [*readelf, "--notes", str(code_object)])
    entry = next(
        (part for part in re.split(r"(?m)^  - (?=\.a)", notes) if f".name:           {name}\n" in part), None
    )
    if entry is None:
        raise SimulationError(f"the code object holds no kernel called {name}")
    lds, private, _ = struct.unpack_from("<III", _descriptor(code_object, name, readelf), 0)
    resources, properties = struct.unpack_from("<IH", _descriptor(code_object, name, readelf), 52)
    return Kernel(
        name=name,
        instructions=_instructions(listing, name),
        arguments=_arguments(entry),
        argument_bytes=_number(entry, "kernarg_segment_size"),
        lds_bytes=lds,
        private_bytes=private,
        registers=_number(entry, "vgpr_count"),
        resources=resources,
        properties=properties,
    )


def _descriptor(code_object: Path, name: str, readelf: list[str]) -> bytes:
    """The 64 bytes of the symbol `name.kd` (LLVM AMDGPU usage guide, Kernel Descriptor)."""
    symbols = run("llvm-readelf", [*readelf, "-sW", str(code_object)])
    symbol = re.search(rf"([0-9a-f]{{16}})\s+64 OBJECT .* {re.escape(name)}\.kd", symbols)
    headers = run("llvm-readelf", [*readelf, "-lW", str(code_object)])
    if symbol:
        address = int(symbol[1], 16)
        for load in re.finditer(r"LOAD\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+\S+\s+0x([0-9a-f]+)", headers):
            offset, start, size = (int(number, 16) for number in load.groups())
            if start <= address < start + size:
                return code_object.read_bytes()[offset + address - start :][:64]
    raise SimulationError(f"the code object holds no descriptor of {name}")


def _instructions(listing: str, name: str) -> tuple[Instruction, ...]:
    instructions = []
    inside = False
    for line in listing.splitlines():
        if header := re.match(r"[0-9a-f]+ <(.+)>:", line):
            inside = header[1] == name
        elif inside and (match := re.match(r"\t(\S+)(.*?)\s*// ([0-9A-F]+): ([0-9A-F ]+)", line)):
            operands, modifiers = _split(match[2].strip())
            size = 4 * len(match[4].split())
            instructions.append(Instruction(match[1], operands, modifiers, int(match[3], 16), size))
    return tuple(instructions)


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Operands are parted by commas outside brackets; modifiers follow the last one, parted by blanks."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    words = parts[-1].split()
    operands = [part.strip() for part in parts[:-1]] + words[:1]
    return tuple(operands), tuple(words[1:])


def _arguments(entry: str) -> tuple[Argument, ...]:
    listed = entry.split(".args:")[1] if ".args:" in entry else ""
    listed = re.split(r"(?m)^    \.", listed)[0]
    arguments = []
    for item in re.split(r"(?m)^      - ", listed)[1:]:
        kind = re.search(r"\.value_kind:\s+(\S+)", item)
        if kind:
            arguments.append(Argument(_number(item, "offset"), _number(item, "size"), kind[1]))
    return tuple(arguments)


def _number(text: str, field: str) -> int:
    match = re.search(rf"\.{field}:\s+(\d+)", text)
    return int(match[1]) if match else 0
