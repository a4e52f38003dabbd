"""Random changes of right programs: each is accepted or refused with a readable error, none breaks the frontend."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from frontend_programs import LOG2E, attention, matmul_relu

import tilegen.language as T
from tilegen.errors import TilegenError
from tilegen.frontend import parse
from tilegen.ir.printer import to_text
from tilegen.ir.verify import verify

MUTANTS = 60


def _reads(node: object) -> bool:
    return isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def _replace_an_expression(tree: ast.Module, pool: list[ast.expr], choose: random.Random) -> None:
    """Puts some expression of the program in the place of another one."""
    node = choose.choice([n for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt | ast.keyword)])
    for name, value in ast.iter_fields(node):
        if _reads(value):
            setattr(node, name, copy.deepcopy(choose.choice(pool)))
            return
        if isinstance(value, list) and value and _reads(value[0]):
            value[choose.randrange(len(value))] = copy.deepcopy(choose.choice(pool))
            return


def _change_a_block(tree: ast.Module, statements: list[ast.stmt], choose: random.Random) -> None:
    """Deletes, inserts or swaps statements."""
    blocks = [
        block for node in ast.walk(tree) if isinstance(block := getattr(node, "body", None), list) and block
    ]
    block = choose.choice(blocks)
    here, there = choose.randrange(len(block)), choose.randrange(len(block))
    match choose.randrange(3):
        case 0 if len(block) > 1:
            del block[here]
        case 1:
            block.insert(here, copy.deepcopy(choose.choice(statements)))
        case _:
            block[here], block[there] = block[there], block[here]


def _mutants(function: Callable[..., Any], seed: int) -> Iterator[str]:
    tree = ast.parse(inspect.getsource(function))
    pool = [node for node in ast.walk(tree) if _reads(node)]
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and not isinstance(n, ast.FunctionDef)]
    choose = random.Random(seed)
    for _ in range(MUTANTS):
        mutant = copy.deepcopy(tree)
        if choose.random() < 0.6:
            _replace_an_expression(mutant, pool, choose)  # type: ignore[arg-type]
        else:
            _change_a_block(mutant, statements, choose)
        yield ast.unparse(ast.fix_missing_locations(mutant))


def _load(text: str, name: str) -> Callable[..., Any] | None:
    """The function of a mutant, or None where Python itself refuses it."""
    space: dict[str, Any] = {"T": T, "LOG2E": LOG2E}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            exec(compile(text, name, "exec"), space)
        except Exception:
            return None
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return next(value for key, value in space.items() if inspect.isfunction(value) and key != "T")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function, dims", [(matmul_relu, {}), (attention, {"dim": 128})])
def test_random_changes(function: Callable[..., Any], dims: dict[str, int], seed: int) -> None:
    accepted = refused = 0
    for number, text in enumerate(_mutants(function, seed)):
        name = f"<mutant {function.__name__} {seed} {number}>"
        mutant = _load(text, name)
        if mutant is None:
            continue
        try:
            program = parse(mutant, dims=dims)
            verify(program)
            assert to_text(program)
            accepted += 1
        except TilegenError as error:
            assert str(error)
            refused += 1
    assert accepted > 5 and refused > 10
