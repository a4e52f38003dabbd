"""The kernel model of a small CDNA kernel, built by hand: a scaled transpose through LDS."""

from __future__ import annotations

from matmul_model import ceil, n, op

from tilegen.ir.types import float16, float32, int32
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Index, Literal, StaticCast
from tilegen.model.kernel import (
    BufferRow,
    Constant,
    KernelModel,
    Launch,
    PointerParameter,
    Requirement,
    ScalarParameter,
    SharedMember,
    TensorArgument,
)
from tilegen.model.statements import AssignC, Blank, Comment, CStmt, Declare, Expression, ForC, IfC
from tilegen.target import load_target

LIMITS = load_target("gfx942").limits


def body() -> tuple[CStmt, ...]:
    row, column = op("first_row", "+", "i"), op("first_column", "+", "thread")
    inside = op(op("row", "<", "M"), "&&", op("column", "<", "N"))
    scaled = op(
        StaticCast("float", element("A", op(op(n("row"), "*", n("N")), "+", n("column")))), "*", "scale"
    )
    to_tile = AssignC(tile("i", "thread"), StaticCast("fp16", scaled))
    target = element("B", op(op("column", "*", "M"), "+", "row"))
    return (
        Declare("SharedStorage", "shared", c.call("shared_storage"), reference=True),
        Declare("int", "thread", c.member("threadIdx", "x"), const=True),
        Declare("int", "first_row", op(c.member("blockIdx", "x"), "*", "kTile"), const=True),
        Declare("int", "first_column", op(c.member("blockIdx", "y"), "*", "kTile"), const=True),
        Blank(),
        Comment("transpose.py:9  T.copy(A[bx * tile, by * tile], tile)"),
        rows(
            Declare("int", "row", row, const=True),
            Declare("int", "column", column, const=True),
            IfC(inside, (to_tile,)),
        ),
        Expression(c.call("block_sync_lds")),
        Blank(),
        Comment("transpose.py:10  T.copy(tile, B[by * tile, bx * tile], transpose=True)"),
        rows(
            Declare("int", "row", op("first_row", "+", "thread"), const=True),
            Declare("int", "column", op("first_column", "+", "i"), const=True),
            IfC(inside, (AssignC(target, tile("thread", "i")),)),
        ),
    )


def element(tensor: str, index: CExpr) -> CExpr:
    return Index(n(tensor), index)


def tile(row: str, column: str) -> CExpr:
    return c.index(c.member("shared", "tile"), row, column)


def rows(*inner: CStmt) -> ForC:
    return ForC("i", Literal(0), n("kTile"), inner, unroll=True)


def hip_model(target: str = "gfx942") -> KernelModel:
    return KernelModel(
        name="scaled_transpose",
        target=target,
        language="hip",
        summary="B = scale * A^T",
        source="examples/transpose.py:4",
        digest="00c0ffee",
        regenerate=f"tilegen emit examples/transpose.py:scaled_transpose --target {target}",
        parameters=(
            PointerParameter("A", "A", float16, written=False),
            PointerParameter("B", "B", float16, written=True, read=False),
            ScalarParameter("M", int32, n("M")),
            ScalarParameter("N", int32, n("N")),
            ScalarParameter("scale", float32, n("scale")),
        ),
        tensors=(
            TensorArgument("A", float16, (n("M"), n("N")), None, "input", alignment=2),
            TensorArgument("B", float16, (n("N"), n("M")), None, "output", alignment=2),
        ),
        extents=("M", "N"),
        scalars=(("scale", float32),),
        requirements=(Requirement(op(op("M", "*", "N"), "<=", 2**31 - 1), "M * N < 2^31"),),
        constants=(
            Constant("kTile", Literal(64), comment="rows and columns"),
            Constant("kThreads", n("kTile")),
        ),
        shared=(
            SharedMember(
                "fp16", "tile", (n("kTile"), op("kTile", "+", 2)), 64 * 66 * 2, 16, "padded by a bank"
            ),
        ),
        asserts=(),
        primitives=(("shared_storage", ()), ("block_sync_lds", ())),
        helpers=(),
        helper_values=(),
        body=body(),
        launch=Launch(
            grid=(ceil("M", "kTile"), ceil("N", "kTile"), Literal(1)),
            grid_text="ceil(M / 64) x ceil(N / 64)",
            grid_limits=LIMITS.grid,
            grid_threads=LIMITS.grid_threads,
            block=64,
            block_text="64 threads = 1 wave",
            shared_bytes=64 * 66 * 2,
        ),
        buffers=(BufferRow("tile", "LDS", "fp16 [64, 64]", "(64, 64):(66, 1)", "8,448", "0"),),
        pipeline=(),
        outputs=("B",),
    )
