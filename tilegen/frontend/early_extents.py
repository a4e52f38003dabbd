"""Names of T.const that a program uses above the annotation that binds them: `parts = K // 4`, then
`A: T.Tensor((M, K))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilegen.frontend.arguments import bind_const
from tilegen.frontend.context import Context
from tilegen.frontend.values import ConstExtent


def bind_early(context: Context, name: str, extent: ConstExtent) -> object:
    """The value that an annotation further down gives the extent that Python calls `name`; the extent itself, without a
    value, where the program declares no tensor with it as it stands. A tensor that the caller describes comes first.

    Raises:
        ProgramError: as the annotation.
    """
    if len(context.frames) != 1:
        return extent
    found = list(_declared(context, name))
    for tensor, axis, node in sorted(found, key=lambda place: place[0] not in context.specs):
        spec = context.specs.get(tensor)
        if spec is not None and axis >= spec.rank:
            continue  # the annotation refuses it
        given = None if spec is None else spec.shape[axis]
        bind_const(context, tensor, axis, extent, given, context.location(node))
        return extent.value
    return extent


def names_alone(annotation: ast.expr) -> frozenset[ast.expr]:
    """The names that an annotation binds itself, those that are an extent or a stride as they stand. A name in a
    computed extent, H in `T.Tensor((4 * H, D))`, needs its value from elsewhere."""
    match annotation:
        case ast.Call(args=args, keywords=keywords):
            parts = [*args, *(keyword.value for keyword in keywords)]
        case ast.Subscript(slice=ast.Tuple(elts=elements)):
            parts = elements
        case _:
            parts = []
    items = [part.elts if isinstance(part, ast.Tuple | ast.List) else [part] for part in parts]
    return frozenset(item for group in items for item in group if isinstance(item, ast.Name))


def _declared(context: Context, name: str) -> Iterator[tuple[str, int, ast.AnnAssign]]:
    """The program's own declarations of tensors with this extent: the tensor, the axis, the statement."""
    for statement in context.frames[0].source.tree.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=tensor), value=None) if tensor in context.argument_names:
                for axis, item in enumerate(_shape(statement.annotation)):
                    if isinstance(item, ast.Name) and item.id == name:
                        yield tensor, axis, statement
            case _:
                pass


def _shape(annotation: ast.expr) -> list[ast.expr]:
    """The extents that `T.Tensor((M, K), …)`, `T.Tensor(shape=…)` or `T.Tensor[(M, K), …]` writes."""
    match annotation:
        case ast.Call(args=[shape, *_]):
            pass
        case ast.Call(keywords=keywords):
            named = [keyword.value for keyword in keywords if keyword.arg == "shape"]
            if not named:
                return []
            shape = named[0]
        case ast.Subscript(slice=ast.Tuple(elts=[shape, *_])):
            pass
        case _:
            return []
    return shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape]
