"""What the manifest says against what a call brings: extents solved, the contract checked, the launch evaluated."""

import dataclasses
import re

import pytest

from tilegen.calls.arguments import allocated, check_count, supplied
from tilegen.calls.arrays import ArrayFacts
from tilegen.calls.binding import ContractError, bind_shapes
from tilegen.calls.scalars import check_scalar
from tilegen.errors import ArgumentError
from tilegen.manifest import (
    Manifest,
    PointerParameter,
    Requirement,
    Scalar,
    ScalarParameter,
    Source,
    Tensor,
    TensorMapParameter,
)
from tilegen.runtime.launch import LiveScalarSlot, PointerSlot, ScalarSlot, TensorMapSlot
from tilegen.runtime.parameters import bind_call


def tensor(name, shape, role="input", **fields):
    return Tensor(name, "float16", shape, None, role, 16, **fields)


def tensor_map(name, rows, columns, box):
    return TensorMapParameter(name, name, "float16", 2, (columns, rows), (f"{columns} * 2",), box, 128)


MATMUL = Manifest(
    kernel="matmul",
    target="sm_90a",
    language="cuda",
    wave_size=32,
    parameters=(
        tensor_map("A", "M", "K", (64, 128)),
        tensor_map("B", "K", "N", (64, 64)),
        PointerParameter("C", "C", "float16", "write"),
        ScalarParameter("M", "int32", "M"),
        ScalarParameter("tiles", "int32", "ceildiv(M, 128) * ceildiv(N, 256)"),
        ScalarParameter("scale", "float32", "scale"),
    ),
    tensors=(tensor("A", ("M", "K")), tensor("B", ("K", "N")), tensor("C", ("M", "N"), "output")),
    symbols=("M", "N", "K"),
    scalars=(Scalar("scale", "float32"),),
    outputs=("C",),
    requirements=(Requirement("K % 8 == 0", "K % 8 == 0"), Requirement("N % 8 == 0", "N % 8 == 0")),
    grid=("min(ceildiv(M, 128) * ceildiv(N, 256), multiprocessors)", "1", "1"),
    block=(384, 1, 1),
    cluster=(1, 1, 1),
    shared_bytes=214016,
    source=Source("matmul.py", 12, "00000000"),
)


def facts(*shape, dtype="float16", strides=None, device="gpu:0", alignment=16):
    if strides is None:
        strides = tuple(__import__("math").prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return ArrayFacts("cupy", device, dtype, shape, strides, alignment)


GOOD = {0: facts(300, 72), 1: facts(72, 520)}
SCALARS = {"scale": 0.5}


def test_outputs_are_allocated_and_the_rest_is_supplied():
    assert allocated(MATMUL) == (2,) and supplied(MATMUL) == (0, 1)
    in_place = dataclasses.replace(MATMUL, outputs=())
    assert allocated(in_place) == () and supplied(in_place) == (0, 1, 2)
    updated = dataclasses.replace(
        MATMUL, tensors=(tensor("A", ("M", "K"), "inout"), *MATMUL.tensors[1:]), outputs=("C", "A")
    )
    assert allocated(updated) == (2,) and supplied(updated) == (0, 1)


def test_extents_shapes_and_launch():
    shapes = bind_shapes(MATMUL, GOOD, SCALARS)
    assert shapes.extents == {"M": 300, "K": 72, "N": 520}
    assert shapes.tensors == ((300, 72), (72, 520), (300, 520))
    call = bind_call(MATMUL, shapes, SCALARS, multiprocessors=132)
    assert (call.grid, call.block, call.shared_bytes) == ((9, 1, 1), (384, 1, 1), 214016)
    assert bind_call(MATMUL, shapes, SCALARS, multiprocessors=4).grid == (4, 1, 1)
    a, b, c, m, tiles, scale = call.slots
    assert isinstance(a, TensorMapSlot) and a.tensor == 0
    assert (a.recipe.extents, a.recipe.strides, a.recipe.box) == ((72, 300), (144,), (64, 128))
    assert isinstance(b, TensorMapSlot) and b.tensor == 1 and c == PointerSlot(2)
    assert m == ScalarSlot((300).to_bytes(4, "little")) and tiles == ScalarSlot((9).to_bytes(4, "little"))
    assert scale == LiveScalarSlot(0, "float32")
    assert call.zeroed == ()


def test_a_grid_of_clusters_is_as_large_as_the_device_says():
    of_clusters = dataclasses.replace(
        MATMUL, grid=("min(ceildiv(M, 128) * 4, clusters * 4)", "1", "1"), cluster=(4, 1, 1)
    )
    shapes = bind_shapes(MATMUL, {0: facts(30000, 72), 1: facts(72, 520)}, SCALARS)
    call = bind_call(of_clusters, shapes, SCALARS, multiprocessors=132, clusters=lambda: 32)
    assert call.grid == (128, 1, 1)
    unasked = bind_call(MATMUL, shapes, SCALARS, multiprocessors=132, clusters=lambda: 1 // 0)
    assert unasked.grid == (132, 1, 1)


def test_extents_that_the_kernel_cannot_count_are_refused():
    huge = {0: facts(2**31, 72), 1: facts(72, 520)}
    with pytest.raises(
        ArgumentError, match=r"argument M: expected an extent that int32 holds, got 2,147,483,648"
    ):
        bind_call(MATMUL, bind_shapes(MATMUL, huge, SCALARS), SCALARS, multiprocessors=132)


def test_zeroed_outputs_and_static_shared_memory():
    tensors = (*MATMUL.tensors[:2], tensor("C", ("M", "N"), "output", zeroed=True))
    manifest = dataclasses.replace(MATMUL, tensors=tensors, language="hip")
    call = bind_call(manifest, bind_shapes(manifest, GOOD, SCALARS), SCALARS, 132)
    assert call.zeroed == ((2, 300 * 520 * 2),)
    assert call.shared_bytes == 0


def test_an_empty_output_launches_nothing():
    shapes = bind_shapes(MATMUL, {0: facts(0, 72), 1: facts(72, 520)}, SCALARS)
    assert 0 in bind_call(MATMUL, shapes, SCALARS, 132).grid
    assert shapes.tensors[2] == (0, 520)


@pytest.mark.parametrize(
    "arrays, error, sentence",
    [
        (
            {1: facts(72, 520, dtype="float32")},
            ArgumentError,
            "argument B: expected dtype float16, got float32",
        ),
        ({1: facts(72, 520, 1)}, ArgumentError, r"argument B: expected 2 axes \(\[K, N\]\)"),
        ({1: facts(80, 520)}, ArgumentError, "argument B: expected K = 72 on axis 0"),
        ({1: facts(72, 520, device="gpu:1")}, ArgumentError, "argument B: expected an array on gpu:0"),
        ({1: facts(72, 520, strides=(1, 72))}, ArgumentError, "argument B: expected a row-major array"),
        ({1: facts(72, 520, alignment=2)}, ArgumentError, "argument B: .* multiple of 16 bytes"),
        (
            {0: facts(300, 70), 1: facts(70, 520)},
            ContractError,
            "argument A, B: expected K % 8 == 0, got K = 70",
        ),
        ({1: facts(72, 521)}, ContractError, "argument B, C: expected N % 8 == 0, got N = 521"),
        ({2: facts(300, 528)}, ArgumentError, "argument C: expected N = 520"),
    ],
)
def test_each_broken_rule_is_named_with_a_remedy(arrays, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        bind_shapes(MATMUL, {**GOOD, **arrays}, SCALARS)
    assert "\n  remedy: " in str(caught.value)
    if error is ArgumentError:
        assert not isinstance(caught.value, ContractError)


def test_fixed_shapes_and_expressions_over_extents():
    manifest = dataclasses.replace(
        MATMUL, tensors=(tensor("A", ("M", "64")), tensor("B", ("2 * M", "N")), *MATMUL.tensors[2:]), requirements=(),
        symbols=("M", "N"),
    )  # fmt: skip
    assert bind_shapes(manifest, {0: facts(5, 64), 1: facts(10, 16)}, SCALARS).tensors[2] == (5, 16)
    with pytest.raises(
        ArgumentError, match=re.escape("argument A: expected shape (5, 64) = [M, 64], got (5, 65)")
    ):
        bind_shapes(manifest, {0: facts(5, 65), 1: facts(10, 16)}, SCALARS)
    with pytest.raises(ArgumentError, match=re.escape("expected shape (10, 16) = [2 * M, N], got (11, 16)")):
        bind_shapes(manifest, {0: facts(5, 64), 1: facts(11, 16)}, SCALARS)


def test_an_extent_that_no_array_has_by_itself():
    manifest = dataclasses.replace(
        MATMUL, tensors=(tensor("A", ("2 * M", "K")), *MATMUL.tensors[1:]), requirements=()
    )
    with pytest.raises(ArgumentError, match="argument M"):
        bind_shapes(manifest, GOOD, SCALARS)


def test_given_strides_are_compared_where_they_matter():
    column_major = dataclasses.replace(MATMUL.tensors[1], strides=("1", "K"))
    manifest = dataclasses.replace(MATMUL, tensors=(MATMUL.tensors[0], column_major, MATMUL.tensors[2]))
    bind_shapes(manifest, {**GOOD, 1: facts(72, 520, strides=(1, 72))}, SCALARS)
    with pytest.raises(ArgumentError, match=re.escape("expected strides (1, 72), got (520, 1)")):
        bind_shapes(manifest, GOOD, SCALARS)
    manifest = dataclasses.replace(manifest, requirements=())
    bind_shapes(manifest, {0: facts(300, 72), 1: facts(72, 1, strides=(1, 999))}, SCALARS)


def test_scalars_and_counts():
    with pytest.raises(ArgumentError, match=r"argument scale: expected a number \(float32\), got nothing"):
        bind_shapes(MATMUL, GOOD, {})
    with pytest.raises(ArgumentError, match=re.escape("expected 2 arrays (A, B), got 3")) as caught:
        check_count(MATMUL, supplied(MATMUL), 3)
    assert caught.value.remedy == "pass the arrays in the program's order, numbers by name: scale=…"
    plain = dataclasses.replace(MATMUL, scalars=())
    with pytest.raises(ArgumentError, match=re.escape("expected 1 array (A), got 2")) as caught:
        check_count(plain, (0,), 2)
    assert caught.value.remedy == "pass the arrays in the program's order"


@pytest.mark.parametrize(
    "dtype, value, fits",
    [
        ("int32", 2**31 - 1, True),
        ("int32", 2**31, False),
        ("uint8", -1, False),
        ("uint8", 256, False),
        ("int64", 2**40, True),
        ("int32", 2.0, False),
        pytest.param("float32", 10**400, False, id="float32-huge"),
        ("float16", 1e6, True),  # infinity, as any conversion gives
        ("bool", True, True),
    ],
)
def test_a_number_that_its_type_does_not_hold_is_refused(dtype, value, fits):
    if fits:
        check_scalar("k", dtype, value)
        return
    with pytest.raises(ArgumentError, match="argument k: expected"):
        check_scalar("k", dtype, value)
