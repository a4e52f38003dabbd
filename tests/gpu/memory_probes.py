"""Probes of what moves memory: TMA loads and stores of every rank, swizzle and bound, reductions, multicast, cp.async,
atomic additions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from probes import Array, Probe, kernel_file, manifest, pointer, row_strides, swizzled, tensor, tensor_map

from tilegen.emit.primitives import Primitive
from tilegen.manifest import TensorMapParameter

_THREADS = 64
_WORDS = 2048  # of an experiment's result
_SLOT = 8192  # bytes of an experiment's target
_BARRIERS = (
    "mbarrier_init",
    "mbarrier_arrive_expect_tx",
    "mbarrier_wait",
    "fence_barrier_init",
    "fence_proxy_async",
)


@dataclass(frozen=True, slots=True)
class Box:
    """A tensor map of a tensor whose elements have this type; extents and box fastest dimension first."""

    dtype: str
    extents: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        return int(np.prod(self.box)) * self.itemsize

    def corners(self) -> list[tuple[int, ...]]:
        """Where boxes are loaded: inside, over the upper bounds, under the lower ones; along the innermost axis at
        multiples of 16 bytes, as the hardware wants."""
        over = [extent - size // 2 for extent, size in zip(self.extents, self.box, strict=True)]
        under = [-(size // 2) for size in self.box]
        for corner in (over, under):
            corner[0] -= corner[0] % (16 // self.itemsize)
        return [(0,) * len(self.box), tuple(over), tuple(under)]

    def stored_corners(self) -> list[tuple[int, ...]]:
        """Where boxes are stored: inside and over the upper bounds, for the hardware stores none under the lower ones;
        and where the last element of the tensor is the first of the box, or one of the first 16 bytes."""
        inside, over, _ = self.corners()
        last = [extent - 1 for extent in self.extents]
        last[0] -= last[0] % (16 // self.itemsize)
        return [inside, over, tuple(last)]


LOADED = (
    Box("uint16", (100,), (64,), 0),
    Box("uint16", (72, 40), (64, 16), 128),
    Box("uint16", (72, 40), (32, 16), 64),
    Box("uint16", (72, 40), (16, 16), 32),
    Box("uint16", (72, 40), (24, 5), 0),
    Box("uint32", (36, 20), (32, 8), 128),
    Box("uint8", (144, 20), (128, 8), 128),
    Box("uint16", (40, 9, 5), (32, 4, 2), 64),
    Box("uint16", (24, 5, 4, 3), (16, 2, 2, 2), 32),
    Box("uint16", (72, 4, 3, 3, 2), (64, 2, 2, 1, 2), 128),
)


def positions(box: Box, corner: Sequence[int]) -> tuple[Array, Array, Array]:
    """For each element of a box at a corner: its byte offset in shared memory, in the tensor, and whether the tensor
    has it."""
    strides = [box.itemsize, *row_strides(box.extents, box.itemsize)]
    grid = np.meshgrid(*(np.arange(size) for size in box.box), indexing="ij")
    plain, place = np.zeros_like(grid[0]), np.zeros_like(grid[0])
    inside = np.ones_like(grid[0], dtype=bool)
    pitch = box.itemsize
    for dimension, local in enumerate(grid):
        plain = plain + local * pitch
        pitch *= box.box[dimension]
        at = local + corner[dimension]
        inside &= (at >= 0) & (at < box.extents[dimension])
        place = place + at * strides[dimension]
    return swizzled(plain, box.swizzle), place, inside


def _call(name: str, box: Box, arguments: str, corner: Sequence[int], tail: str) -> str:
    return f"{name}_{len(box.box)}d({arguments}, {', '.join(map(str, corner))}{tail});"


def tma_load_probe() -> Probe:
    """Boxes of every rank, swizzle and element size, some beyond the bounds; the result is shared memory's image."""
    generator = np.random.default_rng(21)
    data = {
        name: generator.integers(1, np.iinfo(name).max, 40_000 // np.dtype(name).itemsize, dtype=name)
        for name in ("uint8", "uint16", "uint32")
    }
    experiments = [
        (number, corner) for number, box in enumerate(LOADED) for corner in LOADED[number].corners()
    ]
    expected = np.zeros((len(experiments), _WORDS), np.uint32)
    body = "  u32 bytes = 0;\n"
    loads = ""
    for number, (index, corner) in enumerate(experiments):
        box = LOADED[index]
        call = _call("tma_load", box, f"shared.words, map{index}", corner, ", shared.barrier")
        body += f"  if (blockIdx.x == {number}) bytes = {box.bytes};\n"
        loads += f"    if (blockIdx.x == {number}) {call}\n"
        shared_at, place, inside = positions(box, corner)
        image = np.zeros(_WORDS * 4, np.uint8)
        image.view(box.dtype)[shared_at[inside] // box.itemsize] = data[box.dtype][
            place[inside] // box.itemsize
        ]
        expected[number] = image.view(np.uint32)
    body += f"""  if (thread == 0) {{
    mbarrier_init(shared.barrier, 1);
    fence_barrier_init();
  }}
  __syncthreads();
  if (thread == 0) {{
    mbarrier_arrive_expect_tx(shared.barrier, bytes);
{loads}  }}
  mbarrier_wait(shared.barrier, 0);
  for (int i = thread; i < {_WORDS}; i += {_THREADS})
    out[blockIdx.x * {_WORDS} + i] = 4 * i < bytes ? shared.words[i] : 0;
"""
    maps = [
        tensor_map(f"map{i}", box.dtype, data[box.dtype], box.extents, box.box, box.swizzle)
        for i, box in enumerate(LOADED)
    ]
    primitives = [Primitive(name) for name in _BARRIERS[:4]]
    primitives += [Primitive.of("tma_load", rank=rank, multicast=False, hint="") for rank in range(1, 6)]
    out = np.empty(expected.shape, np.uint32)
    return _probe(
        "tma_loads", body, primitives, data, maps, out, len(experiments), tuple(data.values()), expected
    )


def _probe(
    name: str,
    body: str,
    primitives: Sequence[Primitive],
    data: dict[str, Array],
    maps: Sequence[TensorMapParameter],
    out: Array,
    blocks: int,
    inputs: tuple[Array, ...],
    expected: Array,
    cluster: int = 1,
    role: str = "output",
    operands: Array | None = None,
) -> Probe:
    """A probe whose kernel takes maps, then operands (if any), then what it writes."""
    words = [f"const __grid_constant__ CUtensorMap {m.name}" for m in maps]
    parameters: list[Any] = list(maps)
    tensors = [tensor(key, array) for key, array in data.items()]
    if operands is not None:
        words.append("const u32* operands")
        parameters.append(pointer("operands", operands))
        tensors.append(tensor("operands", operands))
    if role == "output" or not maps:
        words.append("u32* out")
        parameters.append(pointer("out", out, "write" if role == "output" else "readwrite"))
    tensors.append(tensor("out", out, role))
    attributes = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    source = kernel_file(name, ", ".join(words), body, primitives, _THREADS, attributes)
    launch = manifest(name, primitives, tensors, parameters, blocks, _THREADS, cluster)
    return Probe(source, launch, inputs, expected)


STORED = (
    Box("uint16", (72, 40), (64, 16), 128),
    Box("uint16", (72, 40), (32, 16), 64),
    Box("uint16", (40, 9, 5), (16, 4, 2), 32),
    Box("uint16", (24, 5, 4, 3), (16, 2, 2, 2), 0),
)


def _slotted(name: str, box: Box, out: Array, slots: int) -> TensorMapParameter:
    """The map with one dimension more: the slot."""
    strides = (*row_strides(box.extents, box.itemsize), _SLOT)
    return TensorMapParameter(
        name,
        "out",
        out.dtype.name,
        len(box.extents) + 1,
        (*map(str, box.extents), str(slots)),
        tuple(map(str, strides)),
        (*box.box, 1),
        box.swizzle,
    )


def _store_body(
    experiments: Sequence[tuple[int, Sequence[int], int]], boxes: Sequence[Box], call: str
) -> str:
    body = f"  for (int i = thread; i < {_WORDS}; i += {_THREADS})\n"
    body += f"    shared.words[i] = operands[blockIdx.x * {_WORDS} + i];\n"
    body += "  fence_proxy_async();\n  __syncthreads();\n  if (thread == 0) {\n"
    for number, (index, corner, slot) in enumerate(experiments):
        rank = len(boxes[index].box) + 1
        at = ", ".join(map(str, (*corner, slot)))
        body += f"    if (blockIdx.x == {number}) {call}_{rank}d(map{index}, shared.words, {at});\n"
    return body + "    tma_store_commit();\n    tma_store_wait();\n  }\n"


def tma_store_probe() -> Probe:
    """Boxes from swizzled shared memory, some beyond the bounds, each into a slot of its own."""
    generator = np.random.default_rng(22)
    corners = [(index, corner) for index, box in enumerate(STORED) for corner in box.stored_corners()]
    experiments = [(index, corner, slot) for slot, (index, corner) in enumerate(corners)]
    slots = len(experiments)
    before = generator.integers(0, 2**16, slots * _SLOT // 2, dtype=np.uint16)
    operands = generator.integers(0, 2**32, (slots, _WORDS), dtype=np.uint32)
    expected = before.copy()
    for number, (index, corner, slot) in enumerate(experiments):
        shared_at, place, inside = positions(STORED[index], corner)
        expected[(slot * _SLOT + place[inside]) // 2] = operands[number].view(np.uint16)[
            shared_at[inside] // 2
        ]
    maps = [_slotted(f"map{i}", box, before, slots) for i, box in enumerate(STORED)]
    primitives = [Primitive(n) for n in ("fence_proxy_async", "tma_store_commit", "tma_store_wait")]
    primitives += [
        Primitive.of("tma_store", rank=rank, hint="") for rank in sorted({len(b.box) + 1 for b in STORED})
    ]
    body = _store_body(experiments, STORED, "tma_store")
    return _probe(
        "tma_stores", body, primitives, {}, maps, before, slots, (operands, before), expected,
        role="inout", operands=operands,
    )  # fmt: skip


_ADDED = {
    "float32": (Box("float32", (36, 20), (32, 8), 128), Box("float32", (12, 5, 4), (8, 2, 2), 32)),
    "float16": (Box("float16", (72, 20), (64, 8), 128), Box("float16", (24, 5, 4), (16, 2, 2), 0)),
    "bfloat16": (Box("bfloat16", (72, 20), (64, 8), 128), Box("bfloat16", (40, 5, 4), (32, 2, 2), 64)),
}


def tma_reduce_probe(dtype: str) -> Probe:
    """Several blocks add boxes of integers in a floating-point type into the same slots."""
    generator = np.random.default_rng(23)
    added, kind = _ADDED[dtype], np.dtype(dtype)
    experiments = [
        (index, corner, index)
        for index, box in enumerate(added)
        for corner in (*box.stored_corners(), (16 // box.itemsize, *(3,) * (len(box.box) - 1)))
    ]
    before = generator.integers(-8, 9, len(added) * _SLOT // kind.itemsize).astype(kind)
    operands = generator.integers(-8, 9, (len(experiments), _WORDS * 4 // kind.itemsize)).astype(kind)
    sums = before.astype(np.float32)
    for number, (index, corner, slot) in enumerate(experiments):
        shared_at, place, inside = positions(added[index], corner)
        values = operands[number][shared_at[inside] // kind.itemsize].astype(np.float32)
        np.add.at(sums, (slot * _SLOT + place[inside]) // kind.itemsize, values)
    expected = sums.astype(kind)
    maps = [_slotted(f"map{i}", box, before, len(added)) for i, box in enumerate(added)]
    primitives = [Primitive(n) for n in ("fence_proxy_async", "tma_store_commit", "tma_store_wait")]
    primitives += [
        Primitive.of("tma_reduce_add", rank=rank) for rank in sorted({len(b.box) + 1 for b in added})
    ]
    body = _store_body(experiments, added, "tma_reduce_add")
    words = operands.view(np.uint32)
    return _probe(
        f"tma_reductions_{dtype}", body, primitives, {}, maps, before, len(experiments), (words, before), expected,
        role="inout", operands=words,
    )  # fmt: skip


_MASKS = (0b1111, 0b0110, 0b0001, 0b1010)  # whom the loads of ranks 0 … 3 reach


def multicast_probe() -> Probe:
    """A cluster of four: each block loads one box into some of the others, at an offset of its own."""
    generator = np.random.default_rng(24)
    box = Box("uint16", (64, 64), (64, 4), 128)
    data = {"data": generator.integers(1, 2**16, 64 * 64, dtype=np.uint16)}
    clusters = 2
    expected = np.zeros((4 * clusters, _WORDS), np.uint32)
    for cluster, source, target in itertools.product(range(clusters), range(4), range(4)):
        if _MASKS[source] >> target & 1:
            shared_at, place, _ = positions(box, (0, 16 * cluster + 4 * source))
            image = np.zeros(1024 // 2, np.uint16)
            image[shared_at // 2] = data["data"][place // 2]
            expected[4 * cluster + target, 256 * source : 256 * source + 256] = image.view(np.uint32)
    received = [sum(mask >> rank & 1 for mask in _MASKS) * box.bytes for rank in range(4)]
    loads = "".join(
        f"    if (rank == {rank})\n"
        f"      tma_load_2d_multicast(shared.words + {256 * rank}, map0, 0, row + {4 * rank},\n"
        f"                            shared.barrier, {mask});\n"
        for rank, mask in enumerate(_MASKS)
    )
    body = f"""  const u32 rank = cluster_rank();
  const int row = blockIdx.x / 4 * 16;
  const u32 bytes[4] = {{{", ".join(map(str, received))}}};
  for (int i = thread; i < 1024; i += {_THREADS}) shared.words[i] = 0;
  if (thread == 0) {{
    mbarrier_init(shared.barrier, 1);
    fence_barrier_init();
  }}
  fence_proxy_async();
  cluster_sync();
  if (thread == 0) {{
    mbarrier_arrive_expect_tx(shared.barrier, bytes[rank]);
{loads}  }}
  mbarrier_wait(shared.barrier, 0);
  for (int i = thread; i < {_WORDS}; i += {_THREADS})
    out[blockIdx.x * {_WORDS} + i] = i < 1024 ? shared.words[i] : 0;
  cluster_sync();
"""
    maps = [tensor_map("map0", "data", data["data"], box.extents, box.box, box.swizzle)]
    primitives = [Primitive(n) for n in (*_BARRIERS, "cluster_rank", "cluster_sync")]
    primitives.append(Primitive.of("tma_load", rank=2, multicast=True, hint=""))
    out = np.empty(expected.shape, np.uint32)
    return _probe(
        "multicast", body, primitives, data, maps, out, 4 * clusters, (data["data"],), expected, cluster=4
    )


def atomics_probe() -> Probe:
    """Every addition without an answer, many threads on few addresses; sections of 64 words of one array."""
    generator = np.random.default_rng(25)
    start = generator.integers(-8, 9, (5, 64)).astype(np.float32)
    sections = [
        start[0],
        start[1],
        start[2],
        start[3].astype(np.float16),
        start[4].astype(ml_dtypes.bfloat16),
    ]
    before = np.zeros((5, 64), np.uint32)
    for row, values in zip(before, sections, strict=True):
        row[: values.nbytes // 4] = np.ascontiguousarray(values).view(np.uint32)
    body = f"""  float* floats = reinterpret_cast<float*>(out);
  const int number = blockIdx.x * {_THREADS} + thread;
  reduce_add(floats + number % 64, float(number % 7));
  reduce_add_v2(floats + 64 + number % 32 * 2, make_float2(float(number % 5), float(number % 3)));
  reduce_add_v4(floats + 128 + number % 16 * 4, make_float4(1.0f, 2.0f, float(number % 3), float(number % 5)));
  reduce_add(reinterpret_cast<half2*>(out + 192) + number % 32, __floats2half2_rn(1.0f, float(number % 3)));
  reduce_add(reinterpret_cast<__nv_bfloat162*>(out + 256) + number % 32,
             __floats2bfloat162_rn(2.0f, float(number % 2)));
"""
    blocks = 4
    n = np.arange(blocks * _THREADS)
    np.add.at(sections[0], n % 64, (n % 7).astype(np.float32))
    for width, values, columns in (
        (2, sections[1], (n % 5, n % 3)),
        (4, sections[2], (np.ones_like(n), 2 * np.ones_like(n), n % 3, n % 5)),
        (2, sections[3], (np.ones_like(n), n % 3)),
        (2, sections[4], (2 * np.ones_like(n), n % 2)),
    ):
        sums = values.astype(np.float32)
        for column, added in enumerate(columns):
            np.add.at(sums, n % (64 // width) * width + column, added.astype(np.float32))
        values[...] = sums.astype(values.dtype)
    expected = np.zeros_like(before)
    for row, values in zip(expected, sections, strict=True):
        row[: values.nbytes // 4] = np.ascontiguousarray(values).view(np.uint32)
    primitives = [
        Primitive.of("atomic_add", type=kind) for kind in ("f32", "f32x2", "f32x4", "f16x2", "bf16x2")
    ]
    return _probe("atomics", body, primitives, {}, [], before, blocks, (before,), expected, role="inout")


def cp_async_probe() -> Probe:
    """Copies of 16, 8 and 4 bytes, some from outside (zeros)."""
    generator = np.random.default_rng(26)
    operands = generator.integers(1, 2**32, 1024, dtype=np.uint32)
    body = f"""  const bool inside = thread % 3 != 1;
  SM80_CP_ASYNC_CACHEGLOBAL::copy(shared.words + 4 * thread, operands + 4 * thread);
  SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy(shared.words + 256 + 4 * thread, operands + 256 + 4 * thread, inside);
  cp_async_commit();
  SM80_CP_ASYNC_CACHEALWAYS_ZFILL<8>::copy(shared.words + 512 + 2 * thread, operands + 512 + 2 * thread, inside);
  SM80_CP_ASYNC_CACHEALWAYS_ZFILL<4>::copy(shared.words + 640 + thread, operands + 640 + thread, inside);
  cp_async_commit();
  cp_async_wait<1>();
  cp_async_wait<0>();
  __syncthreads();
  for (int i = thread; i < {_WORDS}; i += {_THREADS}) out[i] = i < 704 ? shared.words[i] : 0;
"""
    outside = np.arange(_THREADS) % 3 == 1
    expected = np.zeros(_WORDS, np.uint32)
    expected[:704] = operands[:704]
    expected[256:512].reshape(_THREADS, 4)[outside] = 0
    expected[512:640].reshape(_THREADS, 2)[outside] = 0
    expected[640:704][outside] = 0
    primitives = [
        Primitive.of("cp_async", variant=v, hint="")
        for v in ("cacheglobal", "cacheglobal_zfill", "cachealways_zfill")
    ]
    primitives += [Primitive("cp_async_commit"), Primitive("cp_async_wait")]
    out = np.empty(expected.shape, np.uint32)
    return _probe("cp_async", body, primitives, {}, [], out, 1, (operands,), expected, operands=operands)


MEMORY_PROBES: dict[str, Callable[[], Probe]] = {
    "tma_loads": tma_load_probe,
    "tma_stores": tma_store_probe,
    **{f"tma_reductions_{dtype}": partial(tma_reduce_probe, dtype) for dtype in _ADDED},
    "multicast": multicast_probe,
    "atomics": atomics_probe,
    "cp_async": cp_async_probe,
}
