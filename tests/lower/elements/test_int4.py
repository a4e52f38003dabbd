"""4-bit integers become 16-bit floats by bits alone: exactly, for all values at all places of a word."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from emulation import kernel_text

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emit.primitives import Primitive, render_primitives
from tilegen.emulate import run
from tilegen.frontend import parse

ORDERS = {
    "interleaved": lambda i: (i % 2 * 4 + i % 8 // 2) * 4,
    "natural": lambda i: i % 8 * 4,
    "backwards": lambda i: (7 - i % 8) * 4,
}
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
BLOCK = 1024


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def unpack(W, order: str, dtype: str, zero: int, signed: bool):
    N = T.const("N")
    W: T.Tensor((N,), T.int32 if signed else T.uint32)
    Y = T.empty((8 * N,), dtype)
    with T.Kernel(T.ceildiv(8 * N, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            if order == "interleaved":
                q = (W[bx * (BLOCK // 8) + i // 8] >> ((i % 2 * 4 + i % 8 // 2) * 4)) & 15
            elif order == "natural":
                q = (W[bx * (BLOCK // 8) + i // 8] >> (i % 8 * 4)) & 15
            else:
                q = (W[bx * (BLOCK // 8) + i // 8] >> ((7 - i % 8) * 4)) & 15
            if signed:
                Y[bx * BLOCK + i] = T.cast(q - zero, dtype) * 2
            else:
                Y[bx * BLOCK + i] = (T.cast(q, dtype) - zero) * 2
    return Y


def words() -> np.ndarray:
    """Every value at every place, beside different neighbours."""
    random = np.random.default_rng(0).integers(0, 1 << 32, 256, dtype=np.uint32)
    places = [(random & ~np.uint32(15 << 4 * place)) for place in range(8)]
    values = [
        (word & ~np.uint32(0)) | np.uint32(q << 4 * place)
        for place in range(8)
        for q in range(16)
        for word in places[place][:2]
    ]
    return np.concatenate([random, np.array(values, dtype=np.uint32)])


def expected(packed: np.ndarray, order: str, zero: int) -> np.ndarray:
    shifts = np.array([ORDERS[order](i) for i in range(8)], dtype=np.uint32)
    return 2.0 * ((packed[:, None] >> shifts & 15).astype(np.int64) - zero).reshape(-1)


def files(target: str, order: str, dtype: str, zero: int, signed: bool, count: int):
    specs = {"W": T.Tensor((count,), T.int32 if signed else T.uint32)}
    return generate(
        parse(unpack, specs, {"order": order, "dtype": dtype, "zero": zero, "signed": signed}), target
    )


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("zero", [0, 8, 15])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("target", "dtype"), [("sm_80", "float16"), ("sm_90a", "bfloat16"), ("gfx942", "float16")]
)
def test_every_value_at_every_place(target: str, dtype: str, order: str, zero: int, signed: bool) -> None:
    packed = words()
    found = files(target, order, dtype, zero, signed, len(packed))
    argument = packed.view(np.int32) if signed else packed
    result = run(found.source, found.manifest, [argument])
    np.testing.assert_array_equal(result.astype(np.float64), expected(packed, order, zero))
    text = kernel_text(found)
    words_in_text = {"interleaved": "int4_to_", "natural": "int4_neighbours_to_", "backwards": "& 15"}
    assert words_in_text[order] in text
    assert (f"<{zero}>(" in text) == (order != "backwards")


@pytest.mark.parametrize("zero", [0, 8])
@pytest.mark.parametrize("order", ["interleaved", "natural"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_the_device_text_does_what_its_twin_does(dtype: str, order: str, zero: int) -> None:
    """The bit operations that the GPU runs, on the emulator's lop3 and byte permutation."""
    packed = words()
    found = files("sm_80", order, dtype, zero, False, len(packed))
    primitives = found.manifest.primitives
    (parameters,) = [parameters for name, parameters in primitives if name == "int4_pair"]
    text = render_primitives([Primitive("int4_pair", parameters)], "cuda")
    device = text[text.index("// Nibbles") :]
    marker = "// clang-format on\n"
    assert found.source.count(marker) == 1
    source = found.source.replace(marker, marker + "\n// " + 40 * "-" + " device helpers\n\n" + device)
    kept = tuple(entry for entry in primitives if entry[0] != "int4_pair")
    manifest = replace(found.manifest, primitives=(*kept, ("lop3", {}), ("byte_permute", {})))
    result = run(source, manifest, [packed])
    np.testing.assert_array_equal(result.astype(np.float64), expected(packed, order, zero))


def scaled(W, S, K: int, group: int = 32, block: int = 64):
    """Bytes of two, as `quantise` of many libraries packs them along K; a scale of each `group` of a row."""
    N = T.const("N")
    W: T.Tensor((N, K // 2), T.uint8)
    S: T.Tensor((N, T.ceildiv(K, group)), T.float16)
    Y = T.empty((N, K), T.float16)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        bytes_local = T.alloc_fragment((block, block // 2), T.uint8)
        wide = T.alloc_fragment((block, block), T.float16)
        for k in T.Pipelined(T.ceildiv(K, block), num_stages=1):
            T.copy(W[bx * block, k * (block // 2)], bytes_local)
            for i, j in T.Parallel(block, block):
                q = (bytes_local[i, j // 2] >> (j % 2 * 4)) & 15
                wide[i, j] = (T.cast(q, T.float16) - 8) * S[bx * block + i, (k * block + j) // group]
            T.copy(wide, Y[bx * block, k * block])
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("group", [32, 1], ids=["a pair shares its scale", "each has its own"])
def test_scales_of_groups_along_a_loop(target: str, group: int) -> None:
    """The loop's variable is part of a scale's index, which is still that of both numbers of a pair."""
    rng = np.random.default_rng(5)
    rows, columns = 70, 192
    q = rng.integers(0, 16, (rows, columns))
    scales = rng.standard_normal((rows, columns // group)).astype(np.float16)
    specs = {"W": T.Tensor((rows, columns // 2), T.uint8), "S": T.Tensor(scales.shape, T.float16)}
    emitted = generate(parse(scaled, specs, {"K": columns, "group": group}), target)
    packed = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)
    result = run(emitted.source, emitted.manifest, (packed, scales), schedule="random", seed=1)
    assert (result == ((q - 8) * np.repeat(scales, group, 1)).astype(np.float16)).all()
    assert ("int4_neighbours" in kernel_text(emitted)) == (group == 32)
    # A way of computing that was tried and left leaves nothing in the file.
    assert ("int4_neighbours" in emitted.source) == (group == 32)
