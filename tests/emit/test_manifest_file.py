"""The manifest holds what the model says, by value, and survives JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hip_model import hip_model
from matmul_model import ceil, matmul_model, n, op

from tilegen.emit.formula import NoFormula, formula_text
from tilegen.emit.manifest import build
from tilegen.formula import FormulaError, ceildiv, compile_formulas, formula_names, parse_formula
from tilegen.manifest import Manifest, ManifestError, PointerParameter, ScalarParameter, TensorMapParameter
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Member, Prefix, StaticCast, Ternary
from tilegen.model.statements import Expression


def test_round_trip() -> None:
    for model in (matmul_model(), hip_model()):
        manifest = build(model, registers={"consumer": 232}, parameters_of_generation={"block_M": "128"})
        text = manifest.to_json()
        assert Manifest.from_json(text) == manifest
        assert Manifest.from_json(text).to_json() == text
        assert list(json.loads(text))[:3] == ["version", "tilegen", "kernel"]


def test_contents() -> None:
    manifest = build(matmul_model())
    a_map = manifest.parameters[0]
    assert a_map == TensorMapParameter("A", "A", "float16", 2, ("K", "M"), ("2 * K",), (64, 128), 128)
    assert manifest.parameters[3] == ScalarParameter("M", "int32", "M")
    assert manifest.grid[1:] == ("1", "1")
    (blocks, *_) = compile_formulas(manifest.grid, (*manifest.symbols, "multiprocessors"))(1000, 520, 64, 132)
    assert blocks == min(8 * 3, 132)
    assert manifest.block == (384, 1, 1) and manifest.shared_bytes == 214016 and manifest.wave_size == 32
    assert [requirement.condition for requirement in manifest.requirements] == ["K % 8 == 0", "N % 8 == 0"]
    assert manifest.source.file == "examples/matmul.py" and manifest.source.line == 12
    assert dict(manifest.primitives)["wgmma"] == {"n": 256, "a": "f16", "d": "f32", "source": "SS"}
    assert manifest.tensor("C").role == "output"
    with pytest.raises(ManifestError, match="no tensor named D"):
        manifest.tensor("D")


def test_primitives_of_scalar_expressions_are_listed() -> None:
    model = matmul_model()
    body = (*model.body, Expression(c.call("exp2_approx", "x")))
    assert "exp2_approx" in dict(build(replace(model, body=body)).primitives)


def test_pointers_say_how_they_are_used() -> None:
    manifest = build(hip_model())
    accesses = [entry.access for entry in manifest.parameters if isinstance(entry, PointerParameter)]
    assert accesses == ["read", "write"] and manifest.wave_size == 64
    assert [scalar.name for scalar in manifest.scalars] == ["scale"]


def test_bad_manifests_are_errors() -> None:
    text = build(matmul_model()).to_json()
    with pytest.raises(ManifestError, match="version 2"):
        Manifest.from_json(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(ManifestError, match="not JSON"):
        Manifest.from_json("{")
    with pytest.raises(ManifestError, match="not a JSON object"):
        Manifest.from_json("[]")
    with pytest.raises(ManifestError, match="lacks or garbles"):
        Manifest.from_json(text.replace('"kind": "tensor_map"', '"kind": "sorcery"'))


@pytest.mark.parametrize(
    ("expression", "formula"),
    [
        (ceil("M", "kBlock"), "(M + 128 - 1) // 128"),
        (op(ceil("M", "kBlock"), "*", "N"), "(M + 128 - 1) // 128 * N"),
        (op("N", "*", ceil("M", "kBlock")), "N * ((M + 128 - 1) // 128)"),
        (op("N", "*", "kArea"), "N * (128 * 128)"),
        (c.call("min", "M", op("N", "-", op("M", "-", 1))), "min(M, N - (M - 1))"),
        (Ternary(op("M", "<", "N"), n("M"), n("N")), "min(M, N)"),
        (StaticCast("u64", op("M", "*", "N"), functional=True), "M * N"),
        (op(op("M", "==", "N"), "&&", Prefix("!", op("M", "<", 4))), "M == N and (not M < 4)"),
        (op("M", "*", Prefix("-", op("N", "+", 1))), "M * -(N + 1)"),
        (op("M", "%", Literal(-3)), "M % -3"),
    ],
)
def test_formulas(expression: CExpr, formula: str) -> None:
    constants = {"kBlock": Literal(128), "kArea": op("kBlock", "*", "kBlock")}
    assert formula_text(expression, constants) == formula
    parse_formula(formula)


def test_what_is_no_formula_is_an_error() -> None:
    for expression in (Member(n("a"), "x"), Literal(1.5, "float"), op("M", "<<", 2), n("a::b")):
        with pytest.raises(NoFormula):
            formula_text(expression)


def test_formulas_compile() -> None:
    formulas = ("ceildiv(M, 128) * N", "max(M, lambda_) // 2", "M < N and N > 0")
    assert compile_formulas(formulas, ("M", "N", "lambda_"))(129, 3, 400) == (6, 200, False)
    assert compile_formulas((), ())() == ()
    assert ceildiv(7, 2) == 4 and ceildiv(8, 2) == 4
    assert formula_names("min(b, a) + a * ceildiv(c, 2)") == ["b", "a", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M +",
        "M ** 2",
        "f(M)",
        "M.x",
        "[M]",
        "__import__('os')",
        "M if N else 1",
        "lambda: 1",
        "1.5",
        "M[0]",
        "M << 1",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        parse_formula(text)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(FormulaError, match="names K; known are M"):
        compile_formulas(("M * K",), ("M",))
