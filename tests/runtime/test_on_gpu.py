"""The runtime on a real GPU; skipped where there is none (or no CuPy)."""

import time

import numpy as np
import pytest
from small_programs import increment, lazy_add, matmul_relu, scaled, sum_and_difference

import tilegen
import tilegen.language as T
from tilegen.errors import ArgumentError
from tilegen.runtime.devices import present_device

if present_device() is None:
    pytest.skip("no GPU on this machine", allow_module_level=True)
cupy = pytest.importorskip("cupy")
RNG = np.random.default_rng(5)


def normal(*shape, dtype=np.float32):
    return cupy.asarray(RNG.standard_normal(shape, dtype=np.float32).astype(dtype))


def relative_error(result, a, b):
    expected = np.maximum(cupy.asnumpy(a).astype(np.float64) @ cupy.asnumpy(b).astype(np.float64), 0)
    return np.linalg.norm(cupy.asnumpy(result).astype(np.float64) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("shape", [(256, 256, 256), (300, 520, 264), (1, 8, 8), (129, 264, 72), (77, 61, 45)])
def test_matmul_on_cupy_arrays(shape):
    m, n, k = shape
    a, b = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16)
    result = matmul_relu(a, b)
    assert isinstance(result, cupy.ndarray) and result.shape == (m, n) and result.dtype == np.float16
    assert relative_error(result, a, b) < 1e-3


@pytest.mark.parametrize("backend", ["nvrtc", "nvcc"])
def test_compile_and_launch(backend, require_tool):
    require_tool(backend)
    a, b = normal(300, 264, dtype=np.float16), normal(264, 520, dtype=np.float16)
    emission = matmul_relu.emit(T.Tensor((300, 264), T.float16), T.Tensor((264, 520), T.float16))
    kernel = emission.compile(backend=backend)
    c = cupy.full((300, 520), np.nan, np.float16)
    assert kernel.launch(a, b, c) is None
    assert relative_error(c, a, b) < 1e-3
    assert relative_error(kernel(a, b), a, b) < 1e-3
    loaded = kernel._loaded[0].attributes
    assert loaded.registers == kernel.registers or emission.target.name != "sm_90a"


def test_an_sm_80_file_runs_on_later_devices(require_tool):
    require_tool("nvrtc")
    kernel = tilegen.jit(target="sm_80")(matmul_relu.__wrapped__)
    a, b = normal(300, 264, dtype=np.float16), normal(264, 520, dtype=np.float16)
    assert relative_error(kernel(a, b), a, b) < 1e-3


def test_dynamic_extents_and_the_guarded_text():
    kernel = tilegen.jit(dynamic=("M", "K"))(matmul_relu.__wrapped__)
    for m, k in ((128, 64), (300, 264), (77, 61)):
        a, b = normal(m, k, dtype=np.float16), normal(k, 520, dtype=np.float16)
        assert relative_error(kernel(a, b), a, b) < 1e-3


def test_scalars_several_outputs_and_updates_in_place():
    a, b = normal(5, 100), normal(5, 100)
    difference, total = sum_and_difference(a, b)
    assert cupy.array_equal(difference, a - b) and cupy.array_equal(total, a + b)
    row = a[0].copy()
    assert cupy.array_equal(scaled(row, 2.5), row * np.float32(2.5))
    before = row.copy()
    assert increment(row) is None and cupy.array_equal(row, before + 1)
    program = tilegen.compile(lazy_add(100), out_idx=[-1])
    assert cupy.array_equal(program(a[1].copy(), b[1].copy()), a[1] + b[1])


def test_streams():
    a = normal(1 << 20)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        result = scaled(a, 3.0)
    stream.synchronize()
    assert cupy.array_equal(result, a * 3)


def test_errors_come_before_the_launch():
    with pytest.raises(ArgumentError, match="argument B: expected an array"):
        sum_and_difference(normal(5, 100), np.zeros((5, 100), np.float32))
    with pytest.raises(ArgumentError, match="argument D: expected shape"):
        sum_and_difference(normal(5, 100), normal(5, 100), out=(normal(5, 99), normal(5, 100)))


def test_torch_tensors_streams_and_graphs():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch sees no GPU")
    a = torch.randn(300, 264, device="cuda", dtype=torch.float16)
    b = torch.randn(264, 520, device="cuda", dtype=torch.float16)
    expected = torch.relu(a.float() @ b.float())

    def error(result):
        return ((result.float() - expected).norm() / expected.norm()).item()

    assert error(matmul_relu(a, b)) < 1e-3
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = matmul_relu(a, b)
    stream.synchronize()
    assert error(result) < 1e-3
    out = torch.zeros(300, 520, device="cuda", dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul_relu(a, b, out=out)
        allocated = matmul_relu(a, b)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert error(out) < 1e-3 and error(allocated) < 1e-3


def test_python_overhead_of_a_warm_launch():
    """The bar is 12 µs; what is measured is the time to enqueue, the GPU being faster."""
    torch = pytest.importorskip("torch")
    a = torch.randn(64, 64, device="cuda", dtype=torch.float16)
    b = torch.randn(64, 64, device="cuda", dtype=torch.float16)
    matmul_relu(a, b)
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            matmul_relu(a, b)
        best = min(best, (time.perf_counter() - start) / 100)
    assert best < 24e-6, f"{best * 1e6:.1f} µs"


def test_profiler():
    kernel = matmul_relu.emit(T.Tensor((1024, 1024), T.float16), T.Tensor((1024, 1024), T.float16)).compile()
    profiler = kernel.get_profiler()
    assert 1e-3 < profiler.do_bench() < 10

    def reference(a, b):
        return cupy.maximum(a.astype(cupy.float32) @ b.astype(cupy.float32), 0)

    profiler.assert_allclose(reference, rtol=1e-2, atol=0.1)
