"""Takes an emitted file apart and puts the emulator's text in the place of what cannot run on a host."""

from __future__ import annotations

import re

from tilegen.emit.primitives import Language, Primitive, render_primitives
from tilegen.emulate.errors import UnusableText
from tilegen.emulate.facts import Facts

_BANNER = re.compile(r"^// -{8,} (\S.*)$")
_NAMESPACE_END = re.compile(r"^\}  // namespace")
_ROLE_BANNER = re.compile(r"^\s*// -{8,} \S")
_USER_LINE = re.compile(r"//\s+(?P<place>\S+\.py:\d+)(?P<statement>[^\n]*)$")
_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\([^,()]*,\s*(\d+)\)")
_MACRO = "#define TILEGEN_DEVICE "
_PRIMITIVES = "device primitives"
_HELPERS = "device helpers"
_CALLERS_LINE = "int line = __builtin_LINE()"
_NAMES_LINE = re.compile(rf"\b(\w+)\([^;{{}}]*?{re.escape(_CALLERS_LINE)}\)")
_FUNCTION = re.compile(r"TILEGEN_DEVICE [^;{}()]*\b\w+\((?:[^;{}]*?)\)(?= \{)")
_KERNEL = "kernel"
_HOST = "host"
_INTEGERS = "using u32 = unsigned int;\nusing u64 = unsigned long long;\n"


def file_name(facts: Facts) -> str:
    """The emitted file's name: kernel, target, and the language's suffix."""
    return f"{facts['kernel']}.{facts['target']}.{'hip' if facts['language'] == 'hip' else 'cu'}"


def _sections(source: str) -> list[tuple[str, int, list[str]]]:
    """(title, number of the first line, lines) of each section; what comes before the first banner has no title."""
    found: list[tuple[str, int, list[str]]] = [("", 1, [])]
    for number, line in enumerate(source.splitlines(), start=1):
        banner = _BANNER.match(line)
        if banner is not None:
            found.append((banner.group(1).strip(), number, []))
        found[-1][2].append(line)
    return found


def _primitives(facts: Facts) -> str:
    language: Language = "hip" if facts["language"] == "hip" else "cuda"
    wanted = [Primitive(name, tuple(parameters.items())) for name, parameters in facts["primitives"]]
    return render_primitives(wanted, "emulator", language)


_EXTENDED_VECTOR = re.compile(r"(\w+) __attribute__\(\(ext_vector_type\((\d+)\)\)\)")
_HOST_TYPES = {"_Float16": "emulator::Half", "__bf16": "emulator::Bfloat"}


def _host_alias(line: str) -> str:
    """A type alias without what only clang knows: 16-bit floats and vectors are classes of the prelude."""
    for device, host in _HOST_TYPES.items():
        line = line.replace(f"= {device};", f"= {host};")
    return _EXTENDED_VECTOR.sub(r"emulator::Vector<\1, \2>", line)


def _host_line(line: str) -> str:
    """A line outside the primitives as the host takes it: the prelude has the macro in its own way."""
    if line.startswith(_MACRO):
        return ""
    return _host_alias(line) if line.startswith("using ") else line


def _helpers(lines: list[str], primitives: str) -> list[str]:
    """The device helpers, in which primitives report the line that called the helper: its comment names the program's
    statement. No line moves."""
    names = dict.fromkeys(_NAMES_LINE.findall(primitives))
    text = "\n".join(lines)
    calls = re.compile(rf"\b(?:{'|'.join(names)})\(") if names else None
    out, position = "", 0
    for function in _FUNCTION.finditer(text):
        opening = function.end() + 1
        body = text[function.end() : _closed(text, opening, "{", "}")]
        if calls is None or not calls.search(body):
            continue
        head = text[position : function.end() - 1]
        out += f"{head}{'' if head.endswith('(') else ', '}{_CALLERS_LINE})" + _with_line(body, calls)
        position = function.end() + len(body)
    return (out + text[position:]).split("\n")


def _closed(text: str, opening: int, left: str, right: str) -> int:
    """The place behind the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] == left) - (text[place] == right)
        if depth == 0:
            return place + 1
    return len(text)


def _with_line(body: str, calls: re.Pattern[str]) -> str:
    """A helper's body whose calls of primitives hand on the caller's line."""
    out, position = "", 0
    for call in calls.finditer(body):
        end = _closed(body, call.end() - 1, "(", ")")
        before = body[position : end - 1]
        out += f"{before}{'' if before.endswith('(') else ', '}line)"
        position = end
    return out + body[position:]


def emulated_text(source: str, facts: Facts) -> str:
    """The C++ that the host compiles: the emitted file with the emulator's device types and device primitives, without
    its host section. `#line` directives keep the emitted file's line numbers.

    Raises UnusableText if the file has no kernel section.
    """
    sections = _sections(source)
    if all(title != _KERNEL for title, _, _ in sections):
        raise UnusableText(f"the text has no section '{_KERNEL}': it is not an emitted file")
    parts: list[str] = []
    primitives = _primitives(facts)
    for title, first, lines in sections:
        if title == _HELPERS:
            lines = _helpers(lines, primitives)
        if title == _HOST:
            break
        if title == _PRIMITIVES:
            text = _INTEGERS + primitives
            ends = "".join(
                f"{line}\n" for line in lines if _NAMESPACE_END.match(line)
            )  # where no helpers follow
            parts.append(f'#line 1 "emulator {title}"\n{text}{ends}')
        else:
            parts.append(f'#line {first} "{file_name(facts)}"\n' + "\n".join(map(_host_line, lines)) + "\n")
    entry = f"emulator::Kernel emulator::kernel() {{ return emulator::Bound<&::{facts['kernel']}>::describe(); }}\n"
    return "".join(parts) + '#line 1 "emulator entry"\n' + entry


def resident_blocks(source: str) -> int:
    """How many blocks a multiprocessor holds by the kernel's launch bounds: they share its registers."""
    bounds = _LAUNCH_BOUNDS.search(source)
    return max(1, int(bounds.group(1))) if bounds is not None else 1


def user_line(source: str, line: int) -> str | None:
    """The nearest `// file.py:21  statement` comment at or above a line of the emitted file, no further up than the
    banner of its section or role."""
    lines = source.splitlines()
    for number in range(min(line, len(lines)), 0, -1):
        if _ROLE_BANNER.match(lines[number - 1]):
            return None
        found = _USER_LINE.search(lines[number - 1])
        if found is not None:
            return f"{found['place']} {found['statement'].strip()}".strip()
    return None
