"""Small kernels that ask single primitives for their results, on a GPU or in the emulator, with NumPy's answer beside.

Each probe runs several experiments, one a block, and keeps operands in integers small enough that every sum is exact:
what is compared are layouts, addresses and bounds, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.emit.primitives import Primitive, render_primitives
from tilegen.emit.printer import banner_line
from tilegen.manifest import Manifest, Parameter, PointerParameter, Source, Tensor, TensorMapParameter
from tilegen.target import load_target

Array = np.ndarray[Any, Any]
TARGET = "sm_90a"
_SHARED = 64 * 1024


@dataclass(frozen=True, slots=True)
class Probe:
    """A kernel file with its manifest, its inputs and what NumPy expects of it (NaN where nothing is written)."""

    source: str
    manifest: Manifest
    inputs: tuple[Array, ...]
    expected: Array

    @property
    def name(self) -> str:
        return self.manifest.kernel


def kernel_file(
    name: str, parameters: str, body: str, primitives: Iterable[Primitive], threads: int, attributes: str = ""
) -> str:
    """A file of the anatomy that tilegen emits, around a kernel's body."""

    def banner(title: str) -> str:
        return banner_line(title).text

    return f"""// {name}: a probe of device primitives

#include <cuda_fp16.h>
#include <cuda_bf16.h>

#ifndef __CUDACC_RTC__
#include <cuda.h>
#include <cuda_runtime.h>
#else
struct alignas(64) CUtensorMap {{
  unsigned long long opaque[16];
}};
#endif

namespace {{

{banner("device types")}

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;
using u64 = unsigned long long;

{banner("configuration")}

struct alignas(1024) SharedStorage {{
  u32 words[{_SHARED // 4 - 256}];
  u64 barrier;
}};

{banner("device primitives")}
// clang-format off: operands of inline PTX stay one group a line

{render_primitives([Primitive("shared_storage"), *primitives], "cuda")}
// clang-format on

}}  // namespace

{banner("kernel")}

extern "C" __global__ void {attributes}__launch_bounds__({threads}) {name}({parameters}) {{
  SharedStorage& shared = shared_storage();
  const int thread = threadIdx.x;
{body}}}

{banner("host")}
"""


def manifest(
    name: str,
    primitives: Sequence[Primitive],
    tensors: Sequence[Tensor],
    parameters: Sequence[Parameter],
    blocks: int,
    threads: int,
    cluster: int = 1,
) -> Manifest:
    """The launch of a probe; the last tensor is what it returns."""
    return Manifest(
        kernel=name,
        target=TARGET,
        language="cuda",
        wave_size=32,
        parameters=tuple(parameters),
        tensors=tuple(tensors),
        symbols=(),
        scalars=(),
        outputs=(tensors[-1].name,),
        requirements=(),
        grid=(str(blocks), "1", "1"),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        shared_bytes=_SHARED,
        source=Source("tests/gpu/probes.py", 1, ""),
        primitives=tuple((p.name, p.values()) for p in (Primitive("shared_storage"), *primitives)),
    )


def tensor(name: str, array: Array, role: str = "input") -> Tensor:
    return Tensor(name, array.dtype.name, tuple(map(str, array.shape)), None, role, 16)  # type: ignore[arg-type]


def pointer(name: str, array: Array, access: str = "read") -> PointerParameter:
    return PointerParameter(name, name, array.dtype.name, access)  # type: ignore[arg-type]


def tensor_map(
    name: str, source: str, array: Array, extents: Sequence[int], box: Sequence[int], swizzle: int
) -> TensorMapParameter:
    """A map over the first elements of a flat tensor, row-major with rows padded to 16 bytes; fastest extent first."""
    return TensorMapParameter(
        name,
        source,
        array.dtype.name,
        len(extents),
        tuple(map(str, extents)),
        tuple(map(str, row_strides(extents, array.itemsize))),
        tuple(box),
        swizzle,
    )


def row_strides(extents: Sequence[int], itemsize: int) -> list[int]:
    """Bytes of dimensions 1 and up."""
    strides = []
    step = -(-extents[0] * itemsize // 16) * 16
    for extent in extents[1:]:
        strides.append(step)
        step *= extent
    return strides


def swizzled(offset: Array, span: int) -> Array:
    """The PTX ISA's swizzling modes on byte offsets: 16-byte chunks of 128 bytes are permuted by the row's number."""
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[span]
    return offset ^ ((offset >> 7 & mask) << 4)


def poison(shape: tuple[int, ...], dtype: str) -> Array:
    """An array of any type with all bits set: what nothing has written, NaN in floats."""
    return np.full((*shape, np.dtype(dtype).itemsize), 0xFF, np.uint8).view(dtype)[..., 0]


def on_emulator(probe: Probe, **options: Any) -> Array:
    """The probe's result in the emulator."""
    from tilegen import emulate

    result: Array = emulate.run(probe.source, probe.manifest, probe.inputs, **options)
    return result


def on_device(probe: Probe) -> Array:
    """The probe's result on the GPU."""
    import cupy

    from tilegen.runtime.compiled import CompiledKernel

    kernel = CompiledKernel(probe.source, probe.manifest, load_target(TARGET))
    arrays = [cupy.asarray(array) for array in probe.inputs]
    roles = {t.name: t.role for t in probe.manifest.tensors}
    last = probe.manifest.tensors[-1]
    if roles[last.name] == "inout":
        kernel(*arrays)
        return cupy.asnumpy(arrays[-1])
    out = cupy.asarray(poison(tuple(int(extent) for extent in last.shape), last.dtype))
    kernel(*arrays, out=out)
    cupy.cuda.runtime.deviceSynchronize()
    return cupy.asnumpy(out)


def all_probes() -> dict[str, Callable[[], Probe]]:
    """Every probe by name."""
    from matrix_probes import MATRIX_PROBES
    from memory_probes import MEMORY_PROBES

    return {**MATRIX_PROBES, **MEMORY_PROBES}
