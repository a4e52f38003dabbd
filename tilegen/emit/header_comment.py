"""The comment at the head of a file: provenance, launch contract, arguments, buffers, pipeline."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

import tilegen
from tilegen.emit.lines import COLUMNS, NO_BREAK
from tilegen.ir.types import DType
from tilegen.model.dialect import SHORT_NAMES, dialect_of
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import CExpr, Literal, Operation
from tilegen.model.kernel import BufferRow, KernelModel, TensorArgument

_TITLE_COLUMN = 87
_KEY_WIDTH = 11
_LONGEST_NAMES = 18  # columns
_ROOM = COLUMNS - 3


def header_comment(model: KernelModel) -> list[str]:
    """The lines of the comment, `// ` included."""
    dialect = dialect_of(model.language)
    title = f"{model.name}: {model.summary}" if model.summary else model.name
    platform = f"{dialect.title}, {model.target}"
    sections = [
        [
            f"{title:<{_TITLE_COLUMN - 3}}{platform}"
            if len(title) < _TITLE_COLUMN - 3
            else f"{title}  {platform}"
        ],
        _provenance(model),
        _launch(model),
        _arguments(model),
        _buffers(model.buffers),
        _keyed("Pipeline", model.pipeline),
        _keyed("Notes", model.notes),
    ]
    lines = []
    for position, section in enumerate(section for section in sections if section):
        if position:
            lines.append("//")
        lines += [f"// {line}".rstrip() for line in section]
    return lines


def _provenance(model: KernelModel) -> list[str]:
    origin = f"Emitted by tilegen {tilegen.__version__} from {model.source} (sha256 {model.digest})."
    command = re.sub(r"( --\w+) (?!-)", rf"\1{NO_BREAK}", model.regenerate)  # options keep their values
    lines = _wrapped(command, "  ", "    ")
    return [f"{origin} Do not edit; regenerate with", *(line.replace(NO_BREAK, " ") for line in lines)]


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _ROOM,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _keyed(key: str, entries: Iterable[str], width: int = _KEY_WIDTH) -> list[str]:
    """Entries in a column of their own, the key before the first; what is too long hangs below."""
    lines: list[str] = []
    for entry in entries:
        lead = f"{key if not lines else '':<{width}}"
        lines += _wrapped(entry, lead, " " * width)
    return lines


def _launch(model: KernelModel) -> list[str]:
    launch = model.launch
    entries = [f"grid  {launch.grid_text}", f"block {launch.block_text}"]
    if launch.cluster != (1, 1, 1):
        entries.append("cluster " + " x ".join(str(extent) for extent in launch.cluster) + " blocks")
    kind = "dynamic shared memory" if model.language == "cuda" else "static LDS"
    facts = [f"{kind} {launch.shared_bytes:,} bytes"] if launch.shared_bytes else []
    facts += [f"registers {launch.registers_text}"] if launch.registers_text else []
    entries += ["; ".join(facts)] if facts else []
    return _keyed("Launch", entries)


def short_name(dtype: DType) -> str:
    return SHORT_NAMES.get(dtype.name, dtype.name)


def _arguments(model: KernelModel) -> list[str]:
    rows = _alike([(tensor.name, tensor_text(tensor)) for tensor in model.tensors])
    rows += [(name, short_name(dtype)) for name, dtype in model.scalars]
    width = max((len(name) for name, _ in rows), default=0) + 2
    lines: list[str] = []
    for name, text in rows:
        lead = f"{'Arguments' if not lines else '':<{_KEY_WIDTH}}{name:<{width}}"
        lines += _wrapped(text, lead, " " * len(lead))
    noted = {note for tensor in model.tensors for note in tensor.notes}
    for requirement in model.requirements:
        if requirement.text not in noted:
            lines += _wrapped(f"Requires {requirement.text}.", " " * _KEY_WIDTH, " " * _KEY_WIDTH)
    if len(model.tensors) > 1 and any(tensor.role != "input" for tensor in model.tensors):
        lines += _wrapped("A tensor that is written overlaps no other.", " " * _KEY_WIDTH, " " * _KEY_WIDTH)
    return lines


def _alike(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of which the same is said share a row: `Q, K, V`."""
    joint: list[tuple[str, str]] = []
    for name, text in rows:
        if joint and joint[-1][1] == text and len(f"{joint[-1][0]}, {name}") <= _LONGEST_NAMES:
            joint[-1] = (f"{joint[-1][0]}, {name}", text)
        else:
            joint.append((name, text))
    return joint


def tensor_text(tensor: TensorArgument) -> str:
    """`fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0`."""
    shape = ", ".join(map(_extent_text, tensor.shape))
    if tensor.strides is None:
        order = "row-major" if len(tensor.shape) > 1 else "contiguous"
    else:
        order = "strides (" + ", ".join(expression_text(stride) for stride in tensor.strides) + ")"
    parts = [f"{short_name(tensor.dtype)} [{shape}] {order}"]
    if tensor.alignment > tensor.dtype.bits // 8:
        parts.append(f"{tensor.alignment}-byte aligned")
    if tensor.role == "scratch":
        parts.append("scratch memory of one launch at a time")
    if tensor.rests:
        parts.append("0 before the first launch, and again after each")
    if tensor.zeroed:
        parts.append("set to 0 by the launcher")
    return ", ".join([*parts, *tensor.notes])


def _extent_text(extent: CExpr) -> str:
    """An extent; `ceil(M / 128)` for a quotient that is rounded up."""
    match extent:
        case Operation(
            "/",
            Operation("-", Operation("+", whole, Literal(int() as raised)), Literal(1)),
            Literal(int() as part),
        ) if raised == part:
            return f"ceil({expression_text(whole)} / {part})"
        case Operation("/", Operation("+", whole, Literal(int() as raised)), Literal(int() as part)) if (
            raised == part - 1
        ):
            return f"ceil({expression_text(whole)} / {part})"
        case _:
            return expression_text(extent)


_BUFFER_HEADS = ("Buffer", "scope", "shape", "layout (Shape:Stride, elements)", "bytes", "bank conflicts")


def _buffers(rows: tuple[BufferRow, ...]) -> list[str]:
    """The table of buffers. Names and layouts that are too long for their columns go on below; registers have no bytes,
    so that their layouts may be longer. The column of names is as wide as makes the table shortest."""
    if not rows:
        return []
    longest = max(_KEY_WIDTH - 1, *(len(row.name) for row in rows))
    tables = [_table(rows, width) for width in range(min(longest, _LONGEST_NAMES), _KEY_WIDTH - 2, -1)]
    return min(tables, key=len)


def _table(rows: tuple[BufferRow, ...], names_width: int) -> list[str]:
    """The table with the names in a column of this width."""
    cells = [(row.name, row.scope, row.shape, row.layout, row.bytes, row.conflicts) for row in rows]
    measured = [_BUFFER_HEADS, *(cell for cell in cells if cell[4])]
    widths = [max(len(cell[column]) for cell in measured) for column in range(len(_BUFFER_HEADS))]
    for column in (1, 2):
        widths[column] = max(widths[column], *(len(cell[column]) for cell in cells))
    widths[0] = names_width
    before = widths[0] + widths[1] + widths[2] + 5
    widths[3] = max(min(widths[3], _ROOM - before - widths[4] - widths[5] - 4), 24)
    lines = [_row(_BUFFER_HEADS, widths)]
    for row, cell in zip(rows, cells, strict=True):
        room = widths[3] if row.bytes else _ROOM - before
        names = textwrap.wrap(cell[0], widths[0]) or [""]
        layout = _layout_lines(cell[3], room)
        height = max(len(names), len(layout))
        names += [""] * (height - len(names))
        layout += [""] * (height - len(layout))
        lines.append(_row((names[0], cell[1], cell[2], layout[0], cell[4], cell[5]), widths))
        lines += [
            _row((name, "", "", piece, "", ""), widths)
            for name, piece in zip(names[1:], layout[1:], strict=True)
        ]
        margin = " " * (widths[0] + 1)
        lines += _wrapped(row.note, margin, margin) if row.note else []
    return lines


def _layout_lines(layout: str, room: int) -> list[str]:
    """The layout in lines; how many registers a thread has stays in one piece."""
    before, comma, count = layout.rpartition(", ")
    text = f"{before}, {count.replace(' ', NO_BREAK)}" if comma and count.endswith(" a thread") else layout
    lines = textwrap.wrap(text, room, subsequent_indent="  ", break_long_words=False)
    return [line.replace(NO_BREAK, " ") for line in lines] or [""]


def _row(values: tuple[str, ...], widths: list[int]) -> str:
    name, scope, shape, layout, size, conflicts = values
    return (
        f"{name:<{widths[0]}} {scope:<{widths[1]}}  {shape:<{widths[2]}}  {layout:<{widths[3]}}  "
        f"{size:>{widths[4]}}  {conflicts}"
    ).rstrip()
