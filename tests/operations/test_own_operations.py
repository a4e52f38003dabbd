"""Operations of users take part in inference, schedule and lowering as the built-in ones do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import own_operations as own
import pytest

import tilegen
import tilegen.language as T
from tilegen.cli.loading import load_example
from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.operations import Fragment, Mode, OperationCall, TileOperation, register_operation

TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_operation.py"
MODES = (("reverse", "eager"), ("random", "lazy"))


@pytest.fixture
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def array(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def emit(kernel: Any, target: str, *arrays: np.ndarray[Any, Any], **parameters: Any) -> tilegen.Emission:
    specs = [T.Tensor(a.shape, a.dtype.name) for a in arrays]
    emission = kernel.emit(*specs, target=target, **parameters)
    assert isinstance(emission, tilegen.Emission)
    return emission


@pytest.mark.usefixtures("_needs_compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_the_example(target: str) -> None:
    example = load_example(str(EXAMPLE))
    (x,) = example.emulation_inputs(np.random.default_rng(0))
    emission = emit(example.kernel, target, x)
    for schedule, asynchronous in MODES:
        assert np.array_equal(
            emission.emulate(x, schedule=schedule, asynchronous=asynchronous), example.reference(x)
        )


@pytest.mark.usefixtures("_needs_compiler")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("run", [8, 32])
def test_a_result_has_the_layout_that_is_offered(target: str, run: int) -> None:
    x = array(1, 75, run)
    emission = emit(own.argmax_of_rows, target, x, run=run)
    decisions = emission.generated.decisions
    rows, best = decisions.fragments["rows"], decisions.fragments["best"]
    assert best.same_distribution(rows.project((0,), best.tile))
    assert "row_argmax at" in decisions.reasons["rows"] and "offers" in decisions.reasons["best"]
    assert np.array_equal(emission.emulate(x, schedule="random", seed=2), 2 * x.argmax(1))


@pytest.mark.usefixtures("_needs_compiler")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("through", ["shared", "exchange"])
def test_behind_a_pipelined_gemm(target: str, through: str) -> None:
    a, b = array(2, 150, 96, dtype=np.float16), array(3, 96, 32, dtype=np.float16)
    emission = emit(own.nearest, target, a, b, through=through)
    if target == "sm_90a":
        assert emission.generated.plan.kind == "warp_specialised"
    expected = (a.astype(np.float64) @ b.astype(np.float64)).argmax(1)
    for schedule, asynchronous in MODES:
        assert np.array_equal(emission.emulate(a, b, schedule=schedule, asynchronous=asynchronous), expected)


@pytest.mark.usefixtures("_needs_compiler")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("direct", [False, True])
def test_inside_a_pipelined_loop(target: str, direct: bool) -> None:
    a, b = array(4, 100, 160, dtype=np.float16), array(5, 160, 64, dtype=np.float16)
    emission = emit(own.halved_operand, target, a, b, direct=direct)
    if not direct:
        assert emission.generated.decisions.reasons["A_half"].startswith("halve_tile at")
    expected = a.astype(np.float64) / 2 @ b.astype(np.float64)
    for schedule, asynchronous in MODES:
        found = emission.emulate(a, b, schedule=schedule, asynchronous=asynchronous)
        assert np.abs(found - expected).max() < 1e-2


@pytest.mark.usefixtures("_needs_compiler")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["left", "right"])
def test_elements_scalars_attributes_and_barriers(target: str, mode: str) -> None:
    x, add = array(6, 10, 32), array(7, 1, 32)
    emission = emit(own.rotated, target, x, add, mode=mode)
    for schedule, asynchronous in MODES:
        moved, cleared = emission.emulate(
            x, add, schedule=schedule, asynchronous=asynchronous, seed=1, scalars={"amount": 4}
        )
        assert np.array_equal(moved, np.roll(x, -5 if mode == "left" else 5, axis=1) + add)
        assert not cleared.any()


# ------------------------------------------------------------------------------------------- what is refused


def test_a_layout_that_a_gemm_decided_clashes() -> None:
    a, b = array(2, 64, 32, dtype=np.float16), array(3, 32, 32, dtype=np.float16)
    with pytest.raises(ProgramError) as error:
        emit(own.nearest, "sm_90a", a, b, through="accumulators")
    text = str(error.value)
    assert "row_argmax needs C_local (rows) laid out as ((32, 4), 16):((1, 32), 128)" in text
    assert "but it is laid out as" in text and "row_argmax(C_local, best)" in text
    assert "copy C_local to a fragment of its own with T.copy" in text


def test_an_operation_refuses_a_call() -> None:
    x, add = array(6, 10, 32), array(7, 1, 32)
    with pytest.raises(
        ProgramError, match=r'mode is left or right, not up(.|\n)*rotate_rows(.|\n)*write mode="left"'
    ):
        emit(own.rotated, "sm_80", x, add, mode="up")


def test_rows_that_the_example_cannot_sort() -> None:
    kernel = load_example(str(EXAMPLE)).kernel
    with pytest.raises(ProgramError, match="sort_rows cannot sort rows of 48 elements"):
        emit(kernel, "sm_80", array(0, 64, 96, dtype=np.float16), run=48)


def test_parts_of_fragments_are_refused() -> None:
    @tilegen.jit
    def part(X):  # type: ignore[no-untyped-def]
        X: T.Tensor((64, 32), T.float32)  # type: ignore[valid-type]
        index = T.empty((32,), T.int32)
        with T.Kernel(1, threads=128):
            rows = T.alloc_fragment((64, 32), T.float32)
            best = T.alloc_fragment((32,), T.int32)
            T.copy(X, rows)
            own.row_argmax(rows[0:32, :], best)
            T.copy(best, index)
        return index

    with pytest.raises(ProgramError, match="rows of row_argmax is a part of rows"):
        part.emit(T.Tensor((64, 32), T.float32), target="sm_80")


def test_registration() -> None:
    class twice(TileOperation):
        uses = {"tile": "update"}

        @staticmethod
        def call(tile: Any) -> None:
            """Doubles a tile."""

        def lower(self, call: OperationCall, code: Any) -> list[Any]:
            return []

    word = register_operation(twice)
    assert repr(word) == "<tile operation twice>" and word.__doc__ == "Doubles a tile."
    assert repr(register_operation(twice)) == repr(word), "the same class again, as notebooks do"

    class other(TileOperation):
        name = "twice"
        uses = {"tile": "update"}

        @staticmethod
        def call(tile: Any) -> None:
            """Something else."""

        def lower(self, call: OperationCall, code: Any) -> list[Any]:
            return []

    with pytest.raises(
        TilegenError, match="the operation twice is registered already, by test_own_operations"
    ):
        register_operation(other)

    class nothing(TileOperation):
        uses = {"tile": "read"}

        @staticmethod
        def call(tile: Any) -> None:
            """Reads alone."""

        def lower(self, call: OperationCall, code: Any) -> list[Any]:
            return []

    with pytest.raises(TilegenError, match="the operation nothing writes no tile"):
        register_operation(nothing)
    with pytest.raises(T.OutsideKernelError):
        word(1)


def test_public_names() -> None:
    assert tilegen.register_operation is register_operation
    assert tilegen.TileOperation is TileOperation
    assert Fragment((4,), (Mode(4, (1,)),), ((Mode(1, (0,)),),)).replication == 1
