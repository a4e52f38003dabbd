"""Where programs are read from, and what their locations say."""

from __future__ import annotations

import importlib.util
import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frontend_faults import read

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.frontend import parse
from tilegen.frontend.names import Names, safe_identifier
from tilegen.frontend.source import relative_file, source_of
from tilegen.ir.walk import each_statement

PROGRAM = '''\
import tilegen.language as T


def double(X, block: int = 128):
    """Doubles a vector."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    with T.Kernel(
        T.ceildiv(N, block),  # one block each
        threads=block,
    ) as bx:
        for i in T.Parallel(block):  # : elements
            X[bx * block + i] = (
                X[bx * block + i]  # the old value
                * 2
            )
'''


def _import(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_relative_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "kernels").mkdir()
    path = tmp_path / "kernels" / "double.py"
    path.write_text(PROGRAM)
    program = parse(_import(path).double)
    assert program.location.file == "kernels/double.py"
    assert (program.location.line, program.location.column) == (4, 0)
    outside = tmp_path.parent / f"{tmp_path.name}_elsewhere"
    outside.mkdir()
    (outside / "double.py").write_text(PROGRAM)
    assert parse(_import(outside / "double.py").double).location.file == "double.py"


def test_statement_texts_are_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "double.py"
    path.write_text(PROGRAM)
    program = parse(_import(path).double)
    assert program.kernel.location.text == "with T.Kernel(T.ceildiv(N, block), threads=block) as bx"
    loop, store = each_statement(program.kernel.body)
    assert loop.location.text == "for i in T.Parallel(block)"
    assert (loop.location.line, loop.location.column, loop.location.end_column) == (12, 8, 34)
    assert store.location.text == "X[bx * block + i] = (X[bx * block + i] * 2)"
    assert (store.location.line, store.location.end_line) == (13, 16)


def test_digest_depends_on_the_text_alone(tmp_path: Path) -> None:
    digests = []
    for name, text in (
        ("a.py", PROGRAM),
        ("b.py", "\n\n" + PROGRAM),
        ("c.py", PROGRAM.replace("* 2", "* 3")),
    ):
        (tmp_path / name).write_text(text)
        digests.append(parse(_import(tmp_path / name).double).digest)
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 8 and int(digests[0], 16) >= 0


def test_nested_and_non_ascii_sources_have_right_columns() -> None:
    def factory() -> Any:
        def grüße(X):
            X: T.Tensor((8,), T.float32)
            with T.Kernel(8) as bx:
                β = "ü" if len("äöü") == 2 else nichts  # noqa: F821
                X[bx] = β

        return grüße

    with pytest.raises(ProgramError) as caught:
        parse(factory())
    assert read(caught.value).underlined == "nichts"


def test_functions_of_executed_text() -> None:
    name = "<a cell>"
    linecache.cache[name] = (len(PROGRAM), None, PROGRAM.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(PROGRAM, name, "exec"), space)
    assert parse(space["double"]).location.file == name


def test_notebook_cells_have_a_stable_name() -> None:
    assert relative_file("/tmp/ipykernel_1234/987654321.py") == "<notebook>"
    assert relative_file("<ipython-input-3-0123456789ab>") == "<notebook>"


def test_functions_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def f(X): pass", space)
    with pytest.raises(
        TilegenError, match=r"Python has no source for f .*define it in a file or in a notebook cell"
    ):
        parse(space["f"])
    with pytest.raises(TilegenError, match="is not a Python function"):
        source_of(len)
    with pytest.raises(TilegenError, match="is not defined by a plain def statement"):
        source_of(lambda X: X)


def test_macros_are_no_programs() -> None:
    @T.macro
    def helper(x: Any) -> Any:
        return x

    with pytest.raises(TilegenError, match="helper is a macro, not a tile program"):
        parse(helper)


def test_annotations_as_strings(tmp_path: Path) -> None:
    path = tmp_path / "lazy.py"
    path.write_text(
        "from __future__ import annotations\n"
        "import tilegen.language as T\n"
        "def make(n):\n"
        "    size = n\n"
        "    @T.prim_func\n"
        "    def zero(X: T.Tensor((size, 4), 'float16'), s: T.int32):\n"
        "        with T.Kernel(size) as bx:\n"
        "            X[bx, 0] = s\n"
        "    return zero\n"
    )
    program = parse(_import(path).make(8), style="lazy", out_idx=[0])
    assert program.tensors[0].extents == (8, 4)
    assert [var.name for var in program.scalars] == ["s"]


def test_text_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/frontend')\n"
        "from frontend_programs import attention\n"
        "from tilegen.frontend import parse\n"
        "from tilegen.ir.printer import to_text\n"
        "print(to_text(parse(attention, dims={'dim': 64})))\n"
    )
    root = Path(__file__).parents[2]
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "PATH": ""},
        ).stdout
        for seed in ("0", "1234")
    }
    assert len(texts) == 1 and "pipelined" in texts.pop()


@pytest.mark.parametrize(
    "name, identifier",
    [
        ("A_shared", "A_shared"),
        ("auto", "auto_"),
        ("threadIdx", "threadIdx_"),
        ("max", "max_"),
        ("kStages", "kStages_"),
        ("kernel", "kernel"),
        ("_", "unused"),
        ("__x__y", "x_y"),
        ("σ2", "sigma2"),
        ("_2d", "v2d"),
    ],
)
def test_safe_identifiers(name: str, identifier: str) -> None:
    assert safe_identifier(name) == identifier


def test_unique_names() -> None:
    names = Names()
    assert [names.unique(hint) for hint in ("i", "i", "auto", "auto", "i_1")] == [
        "i",
        "i_1",
        "auto_",
        "auto_1",
        "i_1_1",
    ]
