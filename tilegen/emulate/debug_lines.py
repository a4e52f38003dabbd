"""Which source line a code address belongs to: reads the DWARF 4 line table of an ELF program.

DWARF 4 standard, section 6.2 (line number information); ELF-64 object file format. The emulator's programs are compiled
with -gdwarf-4, so that no other version occurs in the kernel's part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_VERSION = 4
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass(frozen=True, slots=True)
class _Row:
    address: int
    file: str
    line: int


class _Reader:
    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self, size: int) -> int:
        value = int.from_bytes(self.data[self.position : self.position + size], "little")
        self.position += size
        return value

    def signed(self, size: int) -> int:
        value = int.from_bytes(self.data[self.position : self.position + size], "little", signed=True)
        self.position += size
        return value

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def text(self) -> str:
        end = self.data.index(0, self.position)
        value = self.data[self.position : end].decode(errors="replace")
        self.position = end + 1
        return value


class DebugLines:
    """The line table of a program."""

    def __init__(self, program: Path) -> None:
        self._table = _section(program.read_bytes(), ".debug_line")

    def line_of(self, address: int, file_name: str) -> int | None:
        """The line of the file that the code at an address (relative to where the program is loaded) comes from; for
        code that was inlined from another file, the line that it was inlined into. None if there is none."""
        for sequence in self._sequences():
            if not sequence[0].address <= address < sequence[-1].address:
                continue
            line: int | None = None
            for row in sequence:
                if row.address > address:
                    break
                if row.file == file_name and row.line > 0:
                    line = row.line
            return line
        return None

    def _sequences(self) -> Iterator[list[_Row]]:
        position = 0
        while position < len(self._table):
            reader = _Reader(self._table, position)
            length = reader.number(4)
            position += 4 + length
            if reader.number(2) == _VERSION:
                yield from _run_line_program(reader, position)


def _run_line_program(reader: _Reader, end: int) -> Iterator[list[_Row]]:
    """The sequences of one unit: rows with ascending addresses, the last past the end (DWARF 4, 6.2.5)."""
    header_length = reader.number(4)
    program = reader.position + header_length
    minimum_length = reader.number(1)
    reader.number(1)  # operations an instruction: 1 but on VLIW machines
    reader.number(1)  # default of is_stmt
    line_base, line_range, opcode_base = reader.signed(1), reader.number(1), reader.number(1)
    lengths = [reader.number(1) for _ in range(opcode_base - 1)]
    while reader.text():  # include directories
        pass
    files = [""]
    while name := reader.text():
        files.append(name.rsplit("/", 1)[-1])
        for _ in range(3):
            reader.leb()
    reader.position = program
    rows: list[_Row] = []
    address, file, line = 0, 1, 1
    while reader.position < end:
        opcode = reader.number(1)
        if opcode >= opcode_base:
            adjusted = opcode - opcode_base
            address += adjusted // line_range * minimum_length
            line += line_base + adjusted % line_range
            rows.append(_Row(address, files[file], line))
        elif opcode == 0:
            size = reader.leb()
            following = reader.position + size
            extended = reader.number(1)
            if extended == _SET_ADDRESS:
                address = reader.number(size - 1)
            elif extended == _END_SEQUENCE:
                rows.append(_Row(address, files[file], 0))
                yield rows
                rows = []
                address, file, line = 0, 1, 1
            reader.position = following
        elif opcode == _COPY:
            rows.append(_Row(address, files[file], line))
        elif opcode == _ADVANCE_PC:
            address += reader.leb() * minimum_length
        elif opcode == _ADVANCE_LINE:
            line += reader.leb(signed=True)
        elif opcode == _SET_FILE:
            file = reader.leb()
        elif opcode == _CONST_ADD_PC:
            address += (255 - opcode_base) // line_range * minimum_length
        elif opcode == _FIXED_ADVANCE_PC:
            address += reader.number(2)
        else:
            for _ in range(lengths[opcode - 1]):
                reader.leb()


def _section(image: bytes, name: str) -> bytes:
    """The contents of a section of an ELF-64 file; empty if the file is no ELF-64 or has no such section."""
    if image[:5] != b"\x7fELF\x02":
        return b""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)

    def header(index: int) -> tuple[int, int, int]:
        name_offset, *_ = struct.unpack_from("<I", image, table + index * size)
        offset, length = struct.unpack_from("<QQ", image, table + index * size + 0x18)
        return name_offset, offset, length

    _, names, _ = header(names_index)
    for index in range(count):
        name_offset, offset, length = header(index)
        start = names + name_offset
        if image[start : image.index(0, start)].decode() == name:
            return image[offset : offset + length]
    return b""
