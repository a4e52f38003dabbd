"""Scalar expressions in C++ have the values that Python gives them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tilegen.emit.templating import render_template
from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr, Load, Var
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import (
    BY_NAME,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int4,
    int8,
    int32,
    int64,
    uint32,
)
from tilegen.location import Location
from tilegen.lower.vocabulary.translate import Environment, ScalarError, translate
from tilegen.model.dialect import CUDA, HIP, Dialect, DialectError, dialect_of
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import Name

i, j = Var("i"), Var("j")
x, y = Var("x", float32), Var("y", float32)
h, g = Var("h", float16), Var("g", float16)
w = Var("w", bfloat16)


def text(expr: Expr, dialect: Dialect = CUDA, environment: Environment | None = None) -> str:
    return expression_text(translate(expr, environment or Environment(), dialect))


def binary(op: str, left: Expr | float, right: Expr | float) -> Expr:
    return build.binary(op, left, right)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expr", "cuda", "hip"),
    [
        (binary("+", x, 1.0), "x + 1.0f", "x + 1.0f"),
        (binary("max", x, 0.0), "fmaxf(x, 0.0f)", "fmaxf(x, 0.0f)"),
        (build.call("exp2", x), "exp2_approx(x)", "exp2_approx(x)"),
        (build.call("exp", x), "expf(x)", "expf(x)"),
        (build.call("round", x), "rintf(x)", "rintf(x)"),
        (build.call("sigmoid", x), "1.0f / (1.0f + expf(-x))", "1.0f / (1.0f + expf(-x))"),
        (build.call("exp", Var("z", float64)), "exp(z)", "exp(z)"),
        (binary("+", h, g), "h + g", "h + g"),
        (binary("/", h, g), *2 * ("static_cast<{h}>(static_cast<float>(h) / static_cast<float>(g))",)),
        (
            binary("max", h, g),
            "__hmax(h, g)",
            "static_cast<fp16>(fmaxf(static_cast<float>(h), static_cast<float>(g)))",
        ),
        (build.call("exp", h), *2 * ("static_cast<{h}>(expf(static_cast<float>(h)))",)),
        (binary("*", w, w), "w * w", "static_cast<bf16>(static_cast<float>(w) * static_cast<float>(w))"),
        (binary("<", h, g), "h < g", "h < g"),
        (build.cast(h, float32), *2 * ("static_cast<float>(h)",)),
        (build.cast(x, float16), *2 * ("static_cast<{h}>(x)",)),
        (build.cast(i, float16), "static_cast<half>(static_cast<float>(i))", "static_cast<fp16>(i)"),
        (build.cast(h, int32), "int(static_cast<float>(h))", "int(h)"),
        (
            build.cast(h, bfloat16),
            "static_cast<__nv_bfloat16>(static_cast<float>(h))",
            "static_cast<bf16>(static_cast<float>(h))",
        ),
        (build.cast(i, int64), "i64(i)", "i64(i)"),
        (build.cast(i, bool_), "i != 0", "i != 0"),
        (build.cast(x, bool_), "x != 0.0f", "x != 0.0f"),
        (build.bitcast(x, uint32), "__float_as_uint(x)", "__float_as_uint(x)"),
        (build.bitcast(h, BY_NAME["uint16"]), "__half_as_ushort(h)", "__builtin_bit_cast(u16, h)"),
        (build.select(binary("<", i, j), x, y), "i < j ? x : y", "i < j ? x : y"),
        (build.logical_not(binary("and", binary("<", i, j), binary("<", j, 4))), *2 * ("!(i < j && j < 4)",)),
        (build.call("abs", i), "abs(i)", "abs(i)"),
        (build.call("isnan", h, dtype=bool_), *2 * ("isnan(static_cast<float>(h))",)),
        (Const(float("-inf"), float32), "-infinity()", "-infinity()"),
        (Const(0.5, float16), "half(0.5f)", "fp16(0.5f)"),
    ],
)
def test_spelling(expr: Expr, cuda: str, hip: str) -> None:
    assert text(expr, CUDA) == cuda.format(h="half")
    assert text(expr, HIP) == hip.format(h="fp16")


def test_division_is_plain_where_nothing_is_negative() -> None:
    known = Environment(ranges={"i": (0, 100), "j": (1, 8)})
    assert text(binary("//", i, 4)) == "floor_div(i, 4)"
    assert text(binary("//", i, 4), environment=known) == "i / 4"
    assert text(binary("%", i, j), environment=known) == "i % j"
    assert text(binary("%", binary("-", i, 1), 4), environment=known) == "floor_mod(i - 1, 4)"


def test_leaves_come_from_the_environment() -> None:
    buffer = Buffer("C_local", (build.const(4),), float32, "fragment")
    environment = Environment(
        variables={"i": Name("row")},
        load=lambda load: Name(f"{load.buffer.name}_element"),
        constant=lambda constant: Name("kBlock") if constant.name else None,
    )
    named = Const(64, int32, name="block")
    assert text(binary("*", i, named), environment=environment) == "row * kBlock"
    assert text(Load(buffer, (i,)), environment=environment) == "C_local_element"


def test_what_the_language_lacks_is_an_error_at_the_line() -> None:
    here = Location("k.py", 7)
    with pytest.raises(ScalarError, match=r"k.py:7: CUDA has no function gamma of float32"):
        text(build.call("gamma", x, location=here))
    with pytest.raises(ScalarError, match=r"k.py:7: exp needs a float, not int32"):
        text(build.call("exp", i, location=here))
    with pytest.raises(ScalarError, match="cannot be read here"):
        text(Load(Buffer("A", (build.const(4),), float32, "global"), (i,), here))
    with pytest.raises(DialectError, match="int4"):
        text(build.Cast(i, int4))
    with pytest.raises(DialectError, match="no language"):
        dialect_of("metal")


# --------------------------------------------------------------------------------------------- against a compiler


def _integer(random: Random, depth: int) -> Expr:
    if depth == 0:
        return Var(random.choice("ij")) if random.random() < 0.6 else build.const(random.randrange(-9, 10))
    op = random.choice(("+", "-", "*", "//", "%", "min", "max", "select", "abs", "&", ">>", "-u", "int8"))
    operand = _integer(random, depth - 1)
    match op:
        case "//" | "%":
            divisor = random.choice([d for d in range(-7, 8) if d])
            return binary(op, operand, divisor)
        case "select":
            condition = binary(random.choice(("<", "==", ">=")), operand, _integer(random, depth - 1))
            return build.select(condition, _integer(random, depth - 1), _integer(random, depth - 1))
        case "abs":
            return build.call("abs", operand)
        case ">>":
            return binary(">>", operand, random.randrange(3))
        case "-u":
            return build.negate(operand)
        case "int8":
            return build.cast(build.cast(operand, int8), int32)
        case _:
            return binary(op, operand, _integer(random, depth - 1))


def _evaluate(expr: Expr, values: dict[str, int]) -> int:
    """By Python's own arithmetic; conversions to int8 wrap."""
    from tilegen.ir.expressions import Binary, Call, Cast, Select, Unary

    match expr:
        case Const(value):
            return int(value)
        case Var(name):
            return values[name]
        case Unary("-", operand):
            return -_evaluate(operand, values)
        case Cast(operand, dtype):
            inner = _evaluate(operand, values)
            return (inner + 128) % 256 - 128 if dtype == int8 else inner
        case Call("abs", (operand,)):
            return abs(_evaluate(operand, values))
        case Select(condition, then, otherwise):
            return _evaluate(then if _evaluate(condition, values) else otherwise, values)
        case Binary(op, left, right):
            a, b = _evaluate(left, values), _evaluate(right, values)
            scope = {"a": a, "b": b, "min": min, "max": max}
            return int(eval(f"{op}(a, b)" if op in ("min", "max") else f"a {op} b", scope))
        case _:
            raise AssertionError(expr)


def test_integers_agree_with_python(require_tool: Callable[[str], None], tmp_path: Path) -> None:
    require_tool("host_compiler")
    random = Random(3)
    cases: list[tuple[Expr, dict[str, int]]] = []
    while len(cases) < 300:
        expr = _integer(random, random.randrange(1, 4))
        values = {"i": random.randrange(-20, 21), "j": random.randrange(-20, 21)}
        if abs(_evaluate(expr, values)) < 2**31:
            cases.append((expr, values))
    helpers = [render_template(f"cuda/helpers/{name}.cu.j2", {}) for name in ("floor_div", "floor_mod")]
    prelude = (
        "#include <algorithm>\n#include <cstdio>\n#include <cstdlib>\nusing std::min;\nusing std::max;\n"
    )
    prelude += "using i8 = signed char;\n#define TILEGEN_DEVICE inline\n" + "\n".join(helpers) + "\n"
    lines = []
    for expr, values in cases:
        ranges = {name: (value, value) for name, value in values.items()} if random.random() < 0.5 else {}
        spelled = text(expr, CUDA, Environment(ranges=ranges))
        lines.append(f'  {{ const int i = {values["i"]}, j = {values["j"]}; (void)i; (void)j; '
                     f'std::printf("%d\\n", int({spelled})); }}')  # fmt: skip
    source = tmp_path / "scalar.cpp"
    source.write_text(prelude + "int main() {\n" + "\n".join(lines) + "\n}\n")
    program = tmp_path / "scalar"
    subprocess.run(["c++", "-std=c++17", "-w", source, "-o", program], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in output.split()] == [_evaluate(expr, values) for expr, values in cases]
