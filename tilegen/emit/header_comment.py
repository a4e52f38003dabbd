"""The comment at the head of a file: provenance, launch contract, arguments, buffers, pipeline."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import tilegen
from tilegen.emit.expressions import expression_text
from tilegen.emit.lines import COLUMNS
from tilegen.emit.signature import restricted
from tilegen.ir.types import DType
from tilegen.model.dialect import SHORT_NAMES, dialect_of
from tilegen.model.kernel import BufferRow, KernelModel, TensorArgument

_TITLE_COLUMN = 87
_KEY_WIDTH = 11
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
    return [f"{origin} Do not edit; regenerate with", *_wrapped(model.regenerate, "  ", "    ")]


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
    rows = [(tensor.name, tensor_text(tensor)) for tensor in model.tensors]
    rows += [(name, short_name(dtype)) for name, dtype in model.scalars]
    width = max((len(name) for name, _ in rows), default=0) + 2
    lines: list[str] = []
    for name, text in rows:
        lead = f"{'Arguments' if not lines else '':<{_KEY_WIDTH}}{name:<{width}}"
        lines += _wrapped(text, lead, " " * len(lead))
    if restricted(model):
        lines += _wrapped("A tensor that is written overlaps no other.", " " * _KEY_WIDTH, " " * _KEY_WIDTH)
    return lines


def tensor_text(tensor: TensorArgument) -> str:
    """`fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0`."""
    shape = ", ".join(expression_text(extent) for extent in tensor.shape)
    if tensor.strides is None:
        order = "row-major" if len(tensor.shape) > 1 else "contiguous"
    else:
        order = "strides (" + ", ".join(expression_text(stride) for stride in tensor.strides) + ")"
    parts = [f"{short_name(tensor.dtype)} [{shape}] {order}"]
    if tensor.alignment > tensor.dtype.bits // 8:
        parts.append(f"{tensor.alignment}-byte aligned")
    if tensor.zeroed:
        parts.append("set to 0 by the launcher")
    return ", ".join([*parts, *tensor.notes])


_BUFFER_HEADS = ("Buffer", "scope", "shape", "layout (Shape:Stride, elements)", "bytes", "bank conflicts")


def _buffers(rows: tuple[BufferRow, ...]) -> list[str]:
    """The table of buffers; a layout that is too long for its column goes on below, under itself."""
    if not rows:
        return []
    cells = [(row.name, row.scope, row.shape, row.layout, row.bytes, row.conflicts) for row in rows]
    widths = [
        max(len(row[column]) for row in (_BUFFER_HEADS, *cells)) for column in range(len(_BUFFER_HEADS))
    ]
    widths[0] = max(widths[0], _KEY_WIDTH - 1)
    others = widths[0] + 1 + sum(width + 2 for width in (widths[1], widths[2], widths[4], widths[5]))
    widths[3] = max(min(widths[3], _ROOM - others), 24)
    lines = [_row(_BUFFER_HEADS, widths)]
    for row, values in zip(rows, cells, strict=True):
        whole = _row(values, widths)
        if len(whole) <= _ROOM:  # a layout somewhat wider than its column moves the figures to the right
            lines.append(whole)
            lines += _note(row, widths)
            continue
        pieces = textwrap.wrap(values[3], widths[3], subsequent_indent="  ", break_long_words=False) or [""]
        # The figures stand on the last line of a long layout.
        for piece in pieces[:-1]:
            lines.append(_row((*values[:3], piece, "", ""), widths))
            values = ("", "", "", *values[3:])
        lines.append(_row((*values[:3], pieces[-1], *values[4:]), widths))
        lines += _note(row, widths)
    return lines


def _note(row: BufferRow, widths: list[int]) -> list[str]:
    margin = " " * (widths[0] + 1)
    return _wrapped(row.note, margin, margin) if row.note else []


def _row(values: tuple[str, ...], widths: list[int]) -> str:
    name, scope, shape, layout, size, conflicts = values
    return (
        f"{name:<{widths[0]}} {scope:<{widths[1]}}  {shape:<{widths[2]}}  {layout:<{widths[3]}}  "
        f"{size:>{widths[4]}}  {conflicts}"
    ).rstrip()
