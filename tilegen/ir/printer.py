"""The tile IR as text, for tests and debugging; close to what the user wrote."""

from __future__ import annotations

from typing import assert_never

from tilegen.ir.expressions import Binary, Bitcast, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    Assign,
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    CustomOperation,
    Fill,
    For,
    Gemm,
    If,
    LeaveParts,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
    SyncThreads,
)

_PRECEDENCE = {
    "or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
_UNARY_PRECEDENCE = 11
_NOT_PRECEDENCE = 3


def expression_text(expr: Expr) -> str:
    """A scalar expression with the parentheses that it needs."""
    return _expression(expr, 0)


def _expression(expr: Expr, outer: int) -> str:
    match expr:
        case Const(value=value):
            return str(value)
        case Var(name=name):
            return name
        case Unary(op="not", operand=operand):
            return _wrap(f"not {_expression(operand, _NOT_PRECEDENCE)}", _NOT_PRECEDENCE, outer)
        case Unary(op=op, operand=operand):
            return _wrap(f"{op}{_expression(operand, _UNARY_PRECEDENCE)}", _UNARY_PRECEDENCE, outer)
        case Binary(op="min" | "max", left=left, right=right):
            return f"{expr.op}({expression_text(left)}, {expression_text(right)})"
        case Binary(op=op, left=left, right=right):
            inner = _PRECEDENCE[op]
            text = f"{_expression(left, inner)} {op} {_expression(right, inner + 1)}"
            return _wrap(text, inner, outer)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return (
                f"select({expression_text(condition)}, {expression_text(then)}, {expression_text(otherwise)})"
            )
        case Cast(operand=operand, dtype=dtype):
            return f"{dtype}({expression_text(operand)})"
        case Bitcast(operand=operand, dtype=dtype):
            return f"reinterpret({expression_text(operand)}, {dtype})"
        case Call(function=function, arguments=arguments):
            return f"{function}({_list(arguments)})"
        case Load(buffer=buffer, indices=indices):
            return f"{buffer.name}[{_list(indices)}]"
        case _:
            assert_never(expr)


def _wrap(text: str, inner: int, outer: int) -> str:
    return f"({text})" if inner < outer else text


def _list(items: tuple[Expr, ...]) -> str:
    return ", ".join(expression_text(item) for item in items)


def region_text(region: Region) -> str:
    """`A[i:+128, j]`: an offset and an extent for each axis; a dropped axis has only an index."""
    items = []
    for axis, (offset, extent) in enumerate(zip(region.offsets, region.shape, strict=True)):
        text = expression_text(offset)
        items.append(text if axis in region.dropped else f"{text}:+{extent}")
    return f"{region.buffer.name}[{', '.join(items)}]"


def buffer_text(buffer: Buffer) -> str:
    """`A: float16[M, K] global input`."""
    text = f"{buffer.name}: {buffer.dtype}[{_list(buffer.shape)}]"
    if buffer.strides is not None:
        text += f" strides ({_list(buffer.strides)})"
    text += f" {buffer.scope}"
    return text if buffer.role == "none" else f"{text} {buffer.role}"


def statement_lines(statement: Stmt, indent: int = 0) -> list[str]:
    """A statement and what stands inside it, one line each."""
    margin = "  " * indent
    head, blocks = _statement(statement)
    lines = [margin + head]
    for position, block in enumerate(blocks):
        if position:
            lines.append(f"{margin}else:")
        for inner in block:
            lines += statement_lines(inner, indent + 1)
    return lines


def _statement(statement: Stmt) -> tuple[str, tuple[tuple[Stmt, ...], ...]]:
    """The statement's first line and its blocks."""
    match statement:
        case Copy(source=source, target=target):
            return f"copy {region_text(source)} -> {region_text(target)}", ()
        case Fill(target=target, value=value):
            return f"fill {region_text(target)} = {expression_text(value)}", ()
        case Gemm():
            return _gemm(statement), ()
        case Reduce(op=op, source=source, target=target, axis=axis, clear=clear):
            sign = "=" if clear else "join="
            return f"reduce {region_text(target)} {sign} {op} over axis {axis} of {region_text(source)}", ()
        case AddPartials(target=target, partials=partials):
            return f"add partials {region_text(target)} through {partials.name}", ()
        case LeaveParts(sources=sources, axis=axis, last=last):
            return (
                f"leave parts of {', '.join(map(region_text, sources))} over {axis.name}; let {last.name}",
                (),
            )
        case AddParts(target=target, axis=axis):
            return f"add parts {region_text(target)} over {axis.name}", ()
        case Store(buffer=buffer, indices=indices, value=value):
            return f"{buffer.name}[{_list(indices)}] = {expression_text(value)}", ()
        case AtomicElement(op=op, buffer=buffer, indices=indices, value=value):
            return f"atomic {op} {buffer.name}[{_list(indices)}], {expression_text(value)}", ()
        case AtomicTile(op=op, source=source, target=target):
            return f"atomic {op} {region_text(target)}, {region_text(source)}", ()
        case Let(var=var, value=value, mutable=mutable):
            return f"{'var' if mutable else 'let'} {var.name}: {var.dtype} = {expression_text(value)}", ()
        case Assign(var=var, value=value):
            return f"{var.name} = {expression_text(value)}", ()
        case If(condition=condition, then=then, otherwise=otherwise):
            return f"if {expression_text(condition)}:", (then, otherwise) if otherwise else (then,)
        case For():
            return _for(statement), (statement.body,)
        case ParallelFor(vars=variables, extents=extents, body=body):
            return f"parallel {', '.join(v.name for v in variables)} in ({_list(extents)}):", (body,)
        case Persistent(vars=variables, extents=extents, body=body):
            return f"persistent {', '.join(v.name for v in variables)} in ({_list(extents)}):", (body,)
        case SyncThreads():
            return "sync_threads", ()
        case CustomOperation():
            return _custom(statement), ()
        case _:
            assert_never(statement)


def _gemm(statement: Gemm) -> str:
    a, b, c = (region_text(region) for region in (statement.a, statement.b, statement.c))
    text = f"gemm {c} {'=' if statement.clear else '+='} {a}{'ᵀ' if statement.transpose_a else ''}"
    text += f" · {b}{'ᵀ' if statement.transpose_b else ''}"
    return text if statement.policy == "square" else f"{text} policy={statement.policy}"


def _for(statement: For) -> str:
    step = statement.step
    bounds = f"{expression_text(statement.start)} .. {expression_text(statement.stop)}"
    if not (isinstance(step, Const) and step.value == 1):
        bounds += f" step {expression_text(step)}"
    text = f"for {statement.var.name} in {bounds} {statement.kind}"
    for name in ("num_stages", "order", "stage"):
        value = getattr(statement, name)
        if value is not None:
            text += f" {name}={value}"
    return f"{text}:"


def _custom(statement: CustomOperation) -> str:
    reads = ", ".join(region_text(region) for region in statement.reads)
    writes = ", ".join(region_text(region) for region in statement.writes)
    text = f"{statement.operation} reads ({reads}) writes ({writes})"
    if statement.arguments:
        text += f" with ({_list(statement.arguments)})"
    for name, value in statement.attributes:
        text += f" {name}={value}"
    return text


def to_text(program: Program) -> str:
    """A whole program as readable text."""
    kernel = program.kernel
    lines = [f"program {program.name} ({program.digest})"]
    lines += [f"  {name} = {value}" for name, value in program.parameters]
    lines += [f"  tensor {buffer_text(buffer)}" for buffer in program.tensors]
    lines += [f"  scalar {var.name}: {var.dtype}" for var in program.scalars]
    lines += [f"  extent {var.name}" for var in program.extents]
    lines += [f"  assume {expression_text(assumption.condition)}" for assumption in program.assumptions]
    if program.outputs:
        lines.append(f"  returns {', '.join(program.outputs)}")
    head = f"kernel grid ({_list(kernel.grid)}) as ({', '.join(v.name for v in kernel.block_vars)})"
    head += f" threads {kernel.threads}"
    if kernel.persistent is not None:
        head += f" persistent={kernel.persistent}"
    if kernel.cluster != (1, 1, 1):
        head += f" cluster {kernel.cluster}"
    if kernel.min_blocks is not None:
        head += f" min_blocks={kernel.min_blocks}"
    lines.append(f"{head}:")
    lines += [f"  alloc {buffer_text(buffer)}" for buffer in kernel.allocations]
    if kernel.rasterisation is not None:
        raster = kernel.rasterisation
        lines.append(f"  swizzle panel={raster.panel} order={raster.order}")
    lines += [f"  layout of {annotation.buffer.name} given" for annotation in kernel.annotations]
    for statement in kernel.body:
        lines += statement_lines(statement, 1)
    return "\n".join(lines) + "\n"
