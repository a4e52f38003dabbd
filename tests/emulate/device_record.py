"""What the hand-written kernels of data/ give on a real H200, kept in data/h200.npz as the emulator's reference.

    python tests/emulate/device_record.py          # on a machine with an H200 and CuPy; rewrites the file

Inputs are drawn again from fixed seeds, so the file holds outputs alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from kernels import Facts, exchange, functions, matmul, matmul_inputs, matmul_relu, source_of, wgmma_layouts

RECORD = Path(__file__).parent / "data" / "h200.npz"
Array = np.ndarray[Any, Any]
_ROWS = 8  # of a matrix, evenly spread, are kept

_SWIZZLES = (128, 64, 32)
LAYOUTS = [
    *((a, b, s, t, 0, 0) for a in (0, 1) for b in (0, 1) for s in _SWIZZLES for t in _SWIZZLES),
    *((0, b, 128, s, bfloat, 1) for b in (0, 1) for s in _SWIZZLES for bfloat in (0, 1)),
    (0, 1, 64, 32, 1, 0),
]


def layout_inputs(number: int) -> tuple[Array, Array]:
    """A and B as they lie in memory for LAYOUTS[number]."""
    generator = np.random.default_rng(100 + number)
    dtype = ml_dtypes.bfloat16 if LAYOUTS[number][4] else np.float16
    return generator.standard_normal((64, 64)).astype(dtype), generator.standard_normal((64, 64)).astype(
        dtype
    )


def function_inputs() -> list[Array]:
    """X, Y, I, J of `functions`; some values where rounding is hard: ties, subnormals of fp16, huge."""
    generator = np.random.default_rng(7)
    x, y = (generator.standard_normal(256).astype(np.float32) for _ in range(2))
    x[:8] = [2049.0, 2051.0, 1e-7, 6.1e-5, 65519.0, -0.0, 1.00048828125, 3.0e-8]
    y[:8] = [1.0, -1.0, 1.0, 0.5, 1.0, 2.0, 1.00048828125, 1.0]
    i, j = (generator.integers(0, 2**32, 256, dtype=np.uint32) for _ in range(2))
    return [x, y, i, j]


def exchange_inputs() -> list[Array]:
    return [np.random.default_rng(2).standard_normal((3, 32, 64)).astype(np.float32)]


def ampere_inputs() -> list[Array]:
    a, b = matmul_inputs(200, 100, 136)
    return [a, np.ascontiguousarray(b.T)]


def cases() -> Iterator[tuple[str, Facts, list[Array]]]:
    """(name, manifest, inputs) of everything that is recorded."""
    for number, layout in enumerate(LAYOUTS):
        yield f"layout{number}", wgmma_layouts(*layout), list(layout_inputs(number))
    yield "functions", functions(), function_inputs()
    yield "exchange", exchange(), exchange_inputs()
    yield "matmul", matmul(), ampere_inputs()
    yield "matmul_relu", matmul_relu(), list(matmul_inputs(129, 264, 72))


def kept(name: str, output: Array) -> Array:
    """The part of an output that the file holds."""
    if name == "functions" or output.ndim != 2:
        return output
    return output[:: max(1, len(output) // _ROWS)]


def _tensor_map(parameter: Facts, pointer: int, names: dict[str, int], driver: ctypes.CDLL) -> Array:
    types = {"float16": 6, "float32": 7, "bfloat16": 9}  # CUtensorMapDataType
    swizzles = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
    rank = parameter["rank"]
    extents = (ctypes.c_uint64 * rank)(*(eval(str(e), {}, names) for e in parameter["extents"]))
    strides = (ctypes.c_uint64 * rank)(*(eval(str(s), {}, names) for s in parameter["strides_bytes"]))
    box = (ctypes.c_uint32 * rank)(*parameter["box"])
    steps = (ctypes.c_uint32 * rank)(*([1] * rank))
    storage = np.zeros(24, dtype=np.uint64)
    aligned = (storage.ctypes.data + 63) // 64 * 64
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned), types[parameter["dtype"]], rank, ctypes.c_void_p(pointer), extents, strides, box,
        steps, 0, swizzles[parameter["swizzle"]], 0, 0,
    )  # fmt: skip
    assert status == 0, f"cuTensorMapEncodeTiled: {status}"
    start = (aligned - storage.ctypes.data) // 8
    return storage[start : start + 16].copy().view("V128")[0]


def run_on_device(facts: Facts, inputs: list[Array]) -> list[Array]:
    """The outputs of a kernel of data/ on the GPU."""
    import cupy

    driver = ctypes.CDLL("libcuda.so.1")
    arrays = iter(inputs)
    tensors: dict[str, Any] = {}
    names: dict[str, int] = {}
    outputs = []
    for tensor in facts["tensors"]:
        shape = tensor["shape"]
        if tensor["role"] == "input":
            host = next(arrays)
            names.update(
                {
                    extent: size
                    for extent, size in zip(shape, host.shape, strict=True)
                    if extent.isidentifier()
                }
            )
            tensors[tensor["name"]] = cupy.asarray(np.ascontiguousarray(host).view(np.uint8))
    for tensor in facts["tensors"]:
        if tensor["role"] == "output":
            shape = [eval(extent, {}, names) for extent in tensor["shape"]]
            host = np.zeros(shape, dtype=getattr(ml_dtypes, tensor["dtype"], tensor["dtype"]))
            tensors[tensor["name"]] = cupy.asarray(host.view(np.uint8))
            outputs.append((tensor["name"], host))
    scope = {**names, "multiprocessors": 132, "ceildiv": lambda a, b: -(-a // b), "min": min}
    arguments: list[Any] = []
    for parameter in facts["parameters"]:
        if parameter["kind"] == "tensor_map":
            arguments.append(_tensor_map(parameter, tensors[parameter["tensor"]].data.ptr, names, driver))
        elif parameter["kind"] == "pointer":
            arguments.append(tensors[parameter["tensor"]])
        else:
            arguments.append(np.dtype(parameter["dtype"]).type(eval(parameter["value"], {}, scope)))
    options = ("-arch=sm_90a", "--std=c++17")
    kernel = cupy.RawModule(code=source_of(facts), options=options).get_function(facts["kernel"])
    kernel.max_dynamic_shared_size_bytes = facts["shared_bytes"]
    grid = tuple(eval(extent, {}, scope) for extent in facts["grid"])
    kernel(grid, tuple(facts["block"]), tuple(arguments), shared_mem=facts["shared_bytes"])
    cupy.cuda.runtime.deviceSynchronize()
    return [cupy.asnumpy(tensors[name]).view(host.dtype).reshape(host.shape) for name, host in outputs]


def main() -> None:
    record = {}
    for name, facts, inputs in cases():
        for number, output in enumerate(run_on_device(facts, inputs)):
            record[f"{name}.{number}"] = kept(name, output)
    np.savez_compressed(RECORD, **record)
    print(f"{len(record)} outputs, {RECORD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
