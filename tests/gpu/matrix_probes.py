"""Probes of the tensor cores and of matrices in registers: wgmma of many widths, mma.sync, ldmatrix, stmatrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from probes import Array, Probe, kernel_file, manifest, pointer, swizzled, tensor

from tilegen.emit.primitives import Primitive

_ROWS, _STEP = 64, 16
_TYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True, slots=True)
class Product:
    """One wgmma chain over `depth` columns of K; spans are the swizzles of A and B in bytes, A's 0 is registers."""

    n: int
    kind: str
    a_mn: bool
    b_mn: bool
    a_span: int
    b_span: int
    depth: int

    @property
    def source(self) -> str:
        return "SS" if self.a_span else "RS"

    @property
    def atom(self) -> str:
        name = {"f16": "F16", "bf16": "BF16"}[self.kind]
        majors = [f"Major::{'MN' if mn else 'K'}" for mn in (self.a_mn, self.b_mn)]
        chosen = majors if self.a_span else majors[1:]
        return f"SM90_64x{self.n}x16_F32{name}{name}_{self.source}<{', '.join(chosen)}>"

    @property
    def primitives(self) -> list[Primitive]:
        made = [Primitive.of("wgmma", n=self.n, a=self.kind, d="f32", source=self.source)]
        return made + [
            Primitive.of("descriptor", swizzle=span) for span in (self.a_span, self.b_span) if span
        ]


PRODUCTS = (
    *(Product(n, "f16", False, False, 128, 128, 64) for n in (8, 16, 24, 40, 72, 120, 176, 216, 256)),
    *(Product(n, "f16", False, True, 128, 128, 32) for n in (64, 128, 192, 256)),
    *(Product(n, "bf16", True, True, 64, 64, 32) for n in (32, 96, 224)),
    *(Product(n, "f16", True, False, 32, 32, 16) for n in (48, 104, 248)),
    *(Product(n, "f16", True, True, 32, 32, 32) for n in (16, 80, 240)),
    *(Product(n, "f16", False, False, 0, 64, 32) for n in (8, 136, 256)),
    *(Product(n, "bf16", False, True, 0, 128, 32) for n in (64, 256)),
)


def image(matrix: Array, mn_major: bool, span: int) -> Array:
    """The bytes of a (mn, k) operand in shared memory: rows of `span` bytes, K-major one row a mn, MN-major one row a k
    in groups of span / 2 elements of mn (PTX ISA, "Canonical layouts" of wgmma)."""
    extent, depth = matrix.shape
    mn, k = np.meshgrid(np.arange(extent), np.arange(depth), indexing="ij")
    wide = span // 2
    plain = (mn // wide * depth + k) * span + mn % wide * 2 if mn_major else mn * span + k * 2
    whole = np.zeros(-(-(int(plain.max()) + 2) // 1024) * 512, np.uint16)
    whole[swizzled(plain, span) // 2] = matrix.view(np.uint16)
    return whole


def fragment_rows(thread: Array, value: Array) -> Array:
    return thread // 32 * 16 + thread % 32 // 4 + value // 2 % 2 * 8


def fragment_columns(thread: Array, value: Array) -> Array:
    return value // 4 * 8 + thread % 4 * 2 + value % 2


def fragment(matrix: Array) -> Array:
    """(thread, value) of a 64-row matrix in registers (PTX ISA 9.7.15.5.1.1)."""
    thread, value = np.meshgrid(np.arange(128), np.arange(matrix.shape[1] // 2), indexing="ij")
    return np.asarray(matrix[fragment_rows(thread, value), fragment_columns(thread, value)])


def _descriptor(shared: str, span: int, mn_major: bool, depth: int, step: int) -> str:
    """The descriptor of the step-th 16 columns of K."""
    advance = step * _STEP * span if mn_major else step * _STEP * 2
    leading = depth * span if mn_major else 16
    return f"descriptor_sw{span}(reinterpret_cast<const char*>({shared}) + {advance}, {leading}, {8 * span})"


def _experiment(product: Product, number: int, a_at: int, a_words: int, b_at: int, b_words: int) -> str:
    steps = product.depth // _STEP
    lines = [f"  if (blockIdx.x == {number}) {{", f"    float d[{product.n // 2}];"]
    lines.append(f"    for (int i = 0; i < {product.n // 2}; ++i) d[i] = float(i % 5);")
    if product.a_span:
        lines.append(
            f"    for (int i = thread; i < {a_words}; i += 128) shared.words[i] = operands[{a_at} + i];"
        )
        b_base = -(-a_words // 256) * 256
    else:
        lines.append(f"    u32 a[{steps}][4];")
        lines.append(f"    for (int s = 0; s < {steps}; ++s)")
        lines.append(
            f"      for (int i = 0; i < 4; ++i) a[s][i] = operands[{a_at} + (s * 128 + thread) * 4 + i];"
        )
        b_base = 0
    lines.append(f"    u32* b_shared = shared.words + {b_base};")
    lines.append(f"    for (int i = thread; i < {b_words}; i += 128) b_shared[i] = operands[{b_at} + i];")
    lines += ["    fence_proxy_async();", "    __syncthreads();", "    warpgroup_arrive();"]
    for step in range(steps):
        b = _descriptor("b_shared", product.b_span, product.b_mn, product.depth, step)
        a = f"a[{step}]" if not product.a_span else _descriptor(
            "shared.words", product.a_span, product.a_mn, product.depth, step
        )  # fmt: skip
        lines.append(f"    {product.atom}::fma(d, {a}, {b}, true);")
    lines += ["    warpgroup_commit();", "    warpgroup_wait<0>();"]
    lines.append(
        f"    for (int i = 0; i < {product.n // 2}; ++i) out[({number} * 128 + thread) * 128 + i] = d[i];"
    )
    return "\n".join([*lines, "  }"]) + "\n"


def wgmma_probe(products: tuple[Product, ...], name: str) -> Probe:
    """Chains of wgmma, each in a block of its own; the accumulators begin at value % 5."""
    generator = np.random.default_rng(11)
    operands: list[Array] = []
    body, at = "", 0
    expected = np.full((len(products), 128, 128), np.nan, np.float32)
    for number, product in enumerate(products):
        kind = _TYPES[product.kind]
        a = generator.integers(-4, 5, (_ROWS, product.depth)).astype(kind)
        b = generator.integers(-4, 5, (product.n, product.depth)).astype(kind)
        if product.a_span:
            a_words = image(a, product.a_mn, product.a_span).view(np.uint32)
        else:
            steps = [fragment(a[:, k : k + _STEP]) for k in range(0, product.depth, _STEP)]
            a_words = np.ascontiguousarray(np.stack(steps)).view(np.uint32).reshape(-1)
        b_words = image(b, product.b_mn, product.b_span).view(np.uint32)
        body += _experiment(product, number, at, a_words.size, at + a_words.size, b_words.size)
        operands += [a_words, b_words]
        at += a_words.size + b_words.size
        sums = a.astype(np.float32) @ b.astype(np.float32).T
        expected[number, :, : product.n // 2] = fragment(sums) + np.arange(product.n // 2) % 5
    packed = np.concatenate(operands)
    unique = [primitive for product in products for primitive in product.primitives]
    primitives = [*dict.fromkeys(unique), *map(Primitive, _WGMMA)]
    source = kernel_file(name, "const u32* operands, float* out", body, primitives, 128)
    out = np.empty(expected.shape, np.float32)
    launch = manifest(
        name,
        primitives,
        [tensor("operands", packed), tensor("out", out, "output")],
        [pointer("operands", packed), pointer("out", out, "write")],
        len(products),
        128,
    )
    return Probe(source, launch, (packed,), expected)


_WGMMA = ("fence_proxy_async", "warpgroup_arrive", "warpgroup_commit", "warpgroup_wait")


def warp_matrix_probe() -> Probe:
    """ldmatrix and stmatrix of 1, 2 and 4 matrices, plain and transposed, and mma.sync on both types."""
    generator = np.random.default_rng(12)
    words = generator.integers(
        0, 2**32, 128 * 4, dtype=np.uint32
    )  # 16 rows a matrix would be 8 x 16 bytes; 4 matrices
    smalls = {kind: generator.integers(-4, 5, (16, 16)).astype(_TYPES[kind]) for kind in _TYPES}
    columns = {kind: generator.integers(-4, 5, (8, 16)).astype(_TYPES[kind]) for kind in _TYPES}
    packed = [words]
    body = "  const char* rows = reinterpret_cast<const char*>(shared.words) + 16 * thread;\n"
    body += "  char* targets = reinterpret_cast<char*>(shared.words) + 16 * thread;\n"
    primitives, expected = [], []
    number = 0
    for count in (1, 2, 4):
        for transpose in (False, True):
            suffix = f"x{count}" + ("_trans" if transpose else "")
            values = {"count": count, "transpose": transpose}
            primitives += [Primitive.of("ldmatrix", **values), Primitive.of("stmatrix", **values)]
            body += _load_text(number, count, suffix) + _store_text(number + 1, count, suffix)
            expected += [_loaded(words, count, transpose), _stored(words, count, transpose)]
            number += 2
    at = words.size
    for kind, name in (("f16", "F16"), ("bf16", "BF16")):
        a, b = smalls[kind], columns[kind]
        left, right = _mma_a(a), _mma_b(b)
        body += _mma_text(number, at, f"SM80_16x8x16_F32{name}{name}F32_TN")
        packed += [left.reshape(-1), right.reshape(-1)]
        at += left.size + right.size
        sums = a.astype(np.float32) @ b.astype(np.float32).T
        expected.append(_padded(_mma_d(sums).view(np.uint32)))
        primitives.append(Primitive.of("mma_sync", a=kind))
        number += 1
    return _warp_probe("warp_matrices", body, primitives, np.concatenate(packed), np.stack(expected))


def _warp_probe(name: str, body: str, primitives: list[Primitive], packed: Array, expected: Array) -> Probe:
    source = kernel_file(name, "const u32* operands, u32* out", body, primitives, 32)
    out = np.empty(expected.shape, np.uint32)
    launch = manifest(
        name,
        primitives,
        [tensor("operands", packed), tensor("out", out, "output")],
        [pointer("operands", packed), pointer("out", out, "write")],
        len(expected),
        32,
    )
    return Probe(source, launch, (packed,), expected)


def _load_text(number: int, count: int, suffix: str) -> str:
    return f"""  if (blockIdx.x == {number}) {{
    for (int i = thread; i < 128; i += 32) shared.words[i] = operands[i];
    __syncthreads();
    u32 fragment[{count}];
    ldmatrix_{suffix}(fragment, rows);
    for (int i = 0; i < 16; ++i) out[({number} * 32 + thread) * 16 + i] = i < {count} ? fragment[i % {count}] : 0;
  }}
"""


def _store_text(number: int, count: int, suffix: str) -> str:
    return f"""  if (blockIdx.x == {number}) {{
    for (int i = thread; i < 128; i += 32) shared.words[i] = 0;
    __syncthreads();
    u32 fragment[{count}];
    for (int i = 0; i < {count}; ++i) fragment[i] = operands[thread * 4 + i];
    stmatrix_{suffix}(targets, fragment);
    __syncthreads();
    for (int i = 0; i < 16; ++i) out[({number} * 32 + thread) * 16 + i] = i < 4 ? shared.words[thread * 4 + i] : 0;
  }}
"""


def _mma_text(number: int, at: int, atom: str) -> str:
    return f"""  if (blockIdx.x == {number}) {{
    u32 a[4], b[2];
    float d[4];
    for (int i = 0; i < 4; ++i) a[i] = operands[{at} + thread * 4 + i];
    for (int i = 0; i < 2; ++i) b[i] = operands[{at} + 128 + thread * 2 + i];
    for (int i = 0; i < 4; ++i) d[i] = float(i);
    {atom}::fma(d, a, b);
    for (int i = 0; i < 16; ++i) out[({number} * 32 + thread) * 16 + i] = i < 4 ? __float_as_uint(d[i % 4]) : 0;
  }}
"""


def _padded(values: Array) -> Array:
    """(32, count) words in rows of 16."""
    whole = np.zeros((32, 16), np.uint32)
    whole[:, : values.shape[1]] = values
    return whole


def _loaded(words: Array, count: int, transpose: bool) -> Array:
    matrices = words[:128].view(np.uint16).reshape(4, 8, 8)[:count]
    matrices = matrices.transpose(0, 2, 1) if transpose else matrices
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # (count, row, pair)
    return _padded(pairs.reshape(count, 32).T)


def _stored(words: Array, count: int, transpose: bool) -> Array:
    pairs = np.ascontiguousarray(words[:128].reshape(32, 4)[:, :count].T)  # (count, lane)
    matrices = pairs.reshape(count, 8, 4).view(np.uint16)  # (count, row, column)
    matrices = np.ascontiguousarray(matrices.transpose(0, 2, 1)) if transpose else matrices
    whole = np.zeros(128, np.uint32)
    whole[: count * 32] = matrices.view(np.uint32).reshape(-1)
    return _padded(whole.reshape(32, 4))


def _mma_a(a: Array) -> Array:
    """Registers of A (16 x 16): row g + 8 (r % 2), columns 2 t + 8 (r / 2) and one more (PTX ISA 9.7.14.5.8)."""
    pairs = np.ascontiguousarray(a).view(np.uint32)  # (16, 8)
    lane, r = np.meshgrid(np.arange(32), np.arange(4), indexing="ij")
    return np.asarray(pairs[lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)])


def _mma_b(b: Array) -> Array:
    """Registers of B, given as (column, k): k 2 t + 8 r and one more, column g."""
    pairs = np.ascontiguousarray(b).view(np.uint32)  # (8, 8)
    lane, r = np.meshgrid(np.arange(32), np.arange(2), indexing="ij")
    return np.asarray(pairs[lane // 4, lane % 4 + 4 * r])


def _mma_d(sums: Array) -> Array:
    lane, v = np.meshgrid(np.arange(32), np.arange(4), indexing="ij")
    return np.asarray(sums[lane // 4 + 8 * (v // 2), 2 * (lane % 4) + v % 2] + v.astype(np.float32))


MATRIX_PROBES: dict[str, Callable[[], Probe]] = {
    "wgmma_shared": lambda: wgmma_probe(tuple(p for p in PRODUCTS if p.a_span), "wgmma_shared"),
    "wgmma_registers": lambda: wgmma_probe(tuple(p for p in PRODUCTS if not p.a_span), "wgmma_registers"),
    "warp_matrices": warp_matrix_probe,
}
