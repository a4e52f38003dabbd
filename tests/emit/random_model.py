"""Random kernel-model expressions and statements in the manner of real kernels, from a seeded generator."""

from __future__ import annotations

from random import Random

from tilegen.model.expressions import (
    Braces,
    CallC,
    CExpr,
    Index,
    Lambda,
    Literal,
    Member,
    Name,
    Operation,
    Prefix,
    Reinterpret,
    StaticCast,
    Ternary,
)
from tilegen.model.statements import (
    AssignC,
    Banner,
    Blank,
    Break,
    Comment,
    CStmt,
    Declare,
    Expression,
    ForC,
    IfC,
    Return,
)

_NAMES = (
    "shared", "kBlockM", "kBlockN", "row", "column", "ring", "stage", "threadIdx", "C_local", "group", "k", "bx", "by",
    "consumer", "accumulator_registers", "tile", "kSwizzleColumns", "lane", "warp", "scale_log2", "fragment", "q",
)  # fmt: skip
_FUNCTIONS = (
    "tma_load_2d", "fmaxf", "min", "mbarrier_wait", "descriptor_sw128", "exp2_approx", "window.offset", "swizzle",
    "SM90_64x256x16_F32F16F16_SS<Major::K, Major::MN>::fma", "__shfl_xor_sync", "buffer_load_b128", "load_wave_tile",
)  # fmt: skip
_ARITHMETIC = ("+", "-", "*", "/", "%", "+", "*", "^", "&", "|", ">>")
_COMPARISONS = ("<", "==", ">=", "!=", "<=")
_WORDS = ("the", "stage", "whose", "wgmma", "may", "matmul.py:24", "rows 8")


def name(random: Random) -> Name:
    return Name(random.choice(_NAMES))


def expression(random: Random, depth: int) -> CExpr:
    if depth <= 0 or random.random() < 0.12:
        kind = random.random()
        if kind < 0.25:
            return Literal(random.randrange(300))
        return Literal(random.random() * 3, "float") if kind < 0.3 else name(random)
    kind = random.random()
    if kind < 0.42:
        op = random.choice(_ARITHMETIC)
        return Operation(op, expression(random, depth - 1), expression(random, depth - 1))
    if kind < 0.62:
        arguments = tuple(
            expression(random, depth - random.choice((1, 2))) for _ in range(random.randrange(6))
        )
        return CallC(Name(random.choice(_FUNCTIONS)), arguments)
    if kind < 0.76:
        element: CExpr = Member(Name("shared"), random.choice(("A_shared", "B_shared", "full", "K_empty")))
        for _ in range(random.randrange(1, 4)):
            element = Index(element, expression(random, depth - 2))
        return element
    if kind < 0.8:
        return Member(name(random), random.choice(("stage", "phase", "x")))
    if kind < 0.85:
        type_name = random.choice(("float", "u64", "half"))
        return StaticCast(type_name, expression(random, depth - 1), functional=random.random() < 0.5)
    if kind < 0.9:
        return Prefix(random.choice("-!&*"), expression(random, depth - 1))
    if kind < 0.96:
        return Ternary(
            condition(random, depth - 1), expression(random, depth - 2), expression(random, depth - 2)
        )
    return Reinterpret(random.choice(("half2", "u32")), Index(name(random), expression(random, depth - 2)))


def condition(random: Random, depth: int) -> CExpr:
    if depth <= 0 or random.random() < 0.35:
        op = random.choice(_COMPARISONS)
        return Operation(op, expression(random, depth - 1), expression(random, depth - 2))
    return Operation(random.choice(("&&", "||")), condition(random, depth - 1), condition(random, depth - 1))


def comment(random: Random) -> str:
    if random.random() < 0.5:
        return ""
    return " ".join(random.choice(_WORDS) for _ in range(random.randrange(1, 14)))


def simple(random: Random, depth: int, remark: str = "") -> CStmt:
    """A statement without blocks."""
    kind = random.randrange(6)
    value = expression(random, depth)
    if kind == 0:
        return AssignC(Index(name(random), expression(random, 1)), value, comment=remark)
    if kind == 1:
        target = Index(
            Index(Member(Name("shared"), "C_shared"), expression(random, 2)), expression(random, 2)
        )
        return AssignC(target, value, comment=remark)
    if kind == 2:
        return AssignC(name(random), value, op="+=", comment=remark)
    if kind == 3:
        type_name = random.choice(("int", "u64", "half2", "float"))
        const = random.random() < 0.6
        return Declare(type_name, random.choice(_NAMES), value, const=const, comment=remark)
    if kind == 4:
        call = CallC(Name("tile_coordinates"), tuple(expression(random, 2) for _ in range(4)))
        return Declare("auto", "", call, const=True, structured=("by", "bx"), comment=remark)
    arguments = tuple(expression(random, random.randrange(4)) for _ in range(random.randrange(1, 8)))
    return Expression(CallC(Name(random.choice(_FUNCTIONS)), arguments), comment=remark)


def long_statement(random: Random) -> CStmt:
    """A statement whose text may well pass 120 columns."""
    depth = random.randrange(2, 6)
    kind = random.randrange(6)
    if kind == 0:
        return IfC(condition(random, depth), (Return(),))
    if kind == 1:
        return IfC(condition(random, depth), (Return(), Break()))
    if kind == 2:
        body = (Expression(CallC(Name("f"))), Break())
        return ForC("i", expression(random, 1), expression(random, depth), body)
    if kind == 3:
        items = tuple(expression(random, 2) for _ in range(random.randrange(1, 4)))
        return Declare("half2", "v", Braces(items), dimensions=(Literal(4),), const=True)
    if kind == 4:
        message = Name('"the tile and its stages exceed the shared memory of this"')
        return Expression(CallC(Name("static_assert"), (condition(random, depth), message)))
    return simple(random, depth)


def statement(random: Random, depth: int) -> CStmt:
    """A statement with blocks `depth` deep at most."""
    kind = random.random()
    if depth > 0 and kind < 0.2:
        body = tuple(statement(random, depth - 1) for _ in range(random.randrange(1, 4)))
        unroll = True if random.random() < 0.3 else None
        return ForC("i", Literal(0), expression(random, 1), body, unroll=unroll, comment=comment(random))
    if depth > 0 and kind < 0.35:
        then = tuple(statement(random, depth - 1) for _ in range(random.randrange(1, 3)))
        otherwise: tuple[CStmt, ...] = ()
        if random.random() < 0.4:
            otherwise = tuple(statement(random, depth - 1) for _ in range(random.randrange(3)))
        return IfC(condition(random, 1), then, otherwise, comment=comment(random))
    if kind < 0.4:
        return Blank()
    if kind < 0.48:
        return Comment(comment(random) or "A comment")
    if kind < 0.52:
        return Banner("producer")
    if kind < 0.6:
        body = tuple(statement(random, depth - 1) for _ in range(random.randrange(1, 4)))
        return Declare("auto", random.choice(_NAMES), Lambda((("int", "t"),), body))
    return simple(random, random.randrange(2, 5), comment(random))
