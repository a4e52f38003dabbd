"""@tilegen.jit on host arrays (the emulator) and on a stand-in for GPU arrays."""

import struct

import numpy as np
import pytest
from gpu_stand_in import CurrentDevice, GpuArray, GpuFramework, RecordingDriver, gpu
from small_programs import (
    increment,
    lazy_add,
    lazy_factory,
    matmul_relu,
    open_rows,
    scaled,
    sum_and_difference,
)

import tilegen
import tilegen.language as T
from tilegen.building import CallError
from tilegen.calls import arrays
from tilegen.errors import ArgumentError, TilegenError
from tilegen.runtime import compiled
from tilegen.runtime.compiled import CompiledKernel

RNG = np.random.default_rng(1)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    """`auto` means the emulated target, whatever machine the tests run on."""
    monkeypatch.setattr("tilegen.runtime.devices.present_device", lambda: None)


@pytest.fixture
def host(require_tool):
    require_tool("host_compiler")


@pytest.fixture
def machine(monkeypatch):
    framework, driver = GpuFramework(), RecordingDriver([])
    monkeypatch.setitem(arrays._BY_TYPE, GpuArray, framework)
    monkeypatch.setattr(compiled, "load", driver.loaded)
    monkeypatch.setattr(compiled, "_CURRENT", CurrentDevice())
    monkeypatch.setattr(CompiledKernel, "_image_for", lambda self, device: None)
    monkeypatch.setattr("tilegen.cold_call.compute_capability", lambda device: "8.0")
    return framework, driver


# ------------------------------------------------------------------------------------------- host arrays


def test_numpy_arrays_run_in_the_emulator(host):
    a = normal(1000)
    result = scaled(a, 2.5)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, a * np.float32(2.5))
    np.testing.assert_array_equal(scaled(a, factor=-1.0), -a)
    np.testing.assert_array_equal(scaled(normal(77) * 0, 1.0, block=32), np.zeros(77))


def test_numbers_of_numpy(host):
    a = normal(100)
    np.testing.assert_array_equal(scaled(a, np.float32(2.5)), a * np.float32(2.5))
    np.testing.assert_array_equal(scaled(a, np.int64(3)), a * 3)


def test_several_outputs_come_as_a_tuple_in_return_order(host):
    a, b = normal(3, 100), normal(3, 100)
    difference, total = sum_and_difference(a, b)
    np.testing.assert_array_equal(difference, a - b)
    np.testing.assert_array_equal(total, a + b)


def test_out_is_filled_and_returned(host):
    a, b = normal(3, 100), normal(3, 100)
    ready = np.zeros((3, 100), np.float32), np.zeros((3, 100), np.float32)
    difference, total = sum_and_difference(a, b, out=ready)
    assert difference is ready[0] and total is ready[1]
    np.testing.assert_array_equal(ready[1], a + b)


def test_torch_tensors_in_host_memory(host):
    torch = pytest.importorskip("torch")
    a = torch.randn(1000)
    result = scaled(a, 3.0)
    assert isinstance(result, torch.Tensor) and torch.equal(result, a * 3)


def test_an_argument_that_the_program_writes_is_updated_in_place(host):
    a = normal(100)
    before = a.copy()
    assert increment(a) is None
    np.testing.assert_array_equal(a, before + 1)


def test_frameworks_mix_in_host_memory(host):
    torch = pytest.importorskip("torch")
    a, b = normal(3, 100), normal(3, 100)
    difference, total = sum_and_difference(torch.from_numpy(a), b)
    assert isinstance(total, torch.Tensor)
    np.testing.assert_array_equal(difference.numpy(), a - b)


def test_arrays_without_elements(host):
    for shape in ((0, 100), (3, 0)):
        difference, total = sum_and_difference(normal(*shape), normal(*shape))
        assert difference.shape == total.shape == shape
    assert (
        matmul_relu(np.ones((20, 0), np.float16), np.ones((0, 40), np.float16)) == np.zeros((20, 40))
    ).all()


def test_outputs_can_be_written_and_overlap_nothing():
    a, b = normal(3, 64), normal(3, 64)
    fixed = normal(3, 64)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="argument S: expected an array that can be written"):
        sum_and_difference(a, b, out=(normal(3, 64), fixed))
    for out in ((a, normal(3, 64)), (normal(3, 64), b), (fixed, fixed)):
        with pytest.raises(ArgumentError, match="got arrays that overlap"):
            sum_and_difference(a, b, out=out)
    flat = normal(200)
    with pytest.raises(ArgumentError, match="argument S: expected memory that A does not use"):
        sum_and_difference(flat[:64].reshape(1, 64), b[:1], out=(normal(1, 64), flat[60:124].reshape(1, 64)))


def test_lazy_factory_and_compile(host):
    a, b = normal(200), normal(200)
    program = lazy_factory(200, block_N=32)
    assert lazy_factory(200, block_N=32) is program
    np.testing.assert_array_equal(program(a, b), a + b)
    assert "kBlock" in program.get_kernel_source() and "lazy_add" in program.get_kernel_source()
    in_place = tilegen.compile(lazy_add(200), target="sm_80")
    c = np.zeros(200, np.float32)
    assert in_place(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)
    assert in_place.emission.target.name == "sm_80"


def test_options_of_other_back_ends_are_warned_of():
    with pytest.warns(UserWarning, match="execution_backend"):
        tilegen.compile(lazy_add(64), out_idx=[-1], execution_backend="cython")
    with pytest.raises(CallError, match="no option 'speed'"):
        tilegen.compile(lazy_add(64), speed=3)
    with pytest.raises(CallError, match=r"takes a tile program \(T.prim_func\)"):
        tilegen.compile(scaled)


@tilegen.jit(target="sm_80")
def blocks_of(block, A, threads, factor: T.float32):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


def test_generation_time_parameters_need_no_defaults(host):
    a = normal(100)
    np.testing.assert_array_equal(blocks_of(64, a, 32, 2.0), a * 2)
    np.testing.assert_array_equal(blocks_of(A=a, factor=2.0, threads=64, block=32), a * 2)
    assert (
        "constexpr int kThreads = 96"
        in blocks_of.emit(A=T.Tensor((8,), T.float32), block=32, threads=96).source
    )
    with pytest.raises(ArgumentError, match="argument A: expected a NumPy array"):
        blocks_of(64, 3, 32, 2.0)
    with pytest.raises(tilegen.TilegenError, match="threads is given no value"):
        blocks_of(64, a, factor=2.0)


@tilegen.jit(target="sm_80")
def counted(n=100):
    A = T.empty((n,), T.int32)
    with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
        for i in T.Parallel(64):
            A[bx * 64 + i] = bx * 64 + i
    return A


def test_without_arrays_the_outputs_say_where_they_are(host):
    np.testing.assert_array_equal(counted(out=np.zeros(100, np.int32)), np.arange(100))
    with pytest.raises(
        CallError, match="nothing says where its outputs are to be\n  remedy: pass them, out="
    ):
        counted()


@tilegen.jit(target="sm_80", out_idx=[-1])
def factory_in_a_factory(N):
    def kernel_func(block):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] + 1

        return main

    return kernel_func(64)


def test_a_factory_may_make_its_program_in_a_function_of_its_own(host):
    a = normal(100)
    np.testing.assert_array_equal(factory_in_a_factory(100)(a), a + 1)


@tilegen.jit(target="sm_80")
def scaled_and_shifted(A, Shift=None, Scale=None):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    if Shift is not None:
        Shift: T.Tensor((M,), T.float32)
    if Scale is not None:
        Scale: T.Tensor((M,), T.float32)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 64), threads=64) as bx:
        for i in T.Parallel(64):
            x = A[bx * 64 + i]
            x = x if Scale is None else x * Scale[bx * 64 + i]
            B[bx * 64 + i] = x if Shift is None else x + Shift[bx * 64 + i]
    return B


def test_optional_arrays_are_told_apart_by_name(host):
    a, b = normal(100), normal(100)
    for _ in range(2):  # prepared, then kept
        np.testing.assert_array_equal(scaled_and_shifted(a, Scale=b), a * b)
        np.testing.assert_array_equal(scaled_and_shifted(a, Shift=b), a + b)
        np.testing.assert_array_equal(scaled_and_shifted(a, None, b), a * b)
        np.testing.assert_array_equal(scaled_and_shifted(Scale=b, A=a), a * b)


@tilegen.jit
def shifted(A, factor: T.float32 = 2.0, block: int = 64, offset: T.int32 = -1):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor + offset
    return B


def test_a_call_may_leave_out_numbers_with_defaults(host):
    a = normal(100)
    np.testing.assert_array_equal(shifted(a), a * 2 - 1)
    np.testing.assert_array_equal(shifted(a, offset=3), a * 2 + 3)
    np.testing.assert_array_equal(shifted(A=a, factor=4.0), a * 4 - 1)
    compiled = shifted.compile(M=100)
    np.testing.assert_array_equal(compiled(a), a * 2 - 1)
    np.testing.assert_array_equal(compiled(a, offset=3), a * 2 + 3)
    np.testing.assert_array_equal(shifted.compile(M=100, factor=4.0)(a), a * 4 - 1)


def test_the_decorator_has_defaults_of_numbers_too(host):
    a = normal(100)
    thrice = tilegen.jit(factor=3.0)(shifted.__wrapped__)
    np.testing.assert_array_equal(thrice(a), a * 3 - 1)
    np.testing.assert_array_equal(thrice(a, factor=5.0), a * 5 - 1)
    np.testing.assert_array_equal(tilegen.jit(factor=3.0)(scaled.__wrapped__)(a), a * 3)


# ------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: scaled(normal(10).astype(np.float64), 1.0), tilegen.TilegenError, "declared as float32"),
        (lambda: scaled(normal(10)), CallError, "needs a number for factor"),
        (lambda: scaled(normal(10), 1.0, speed=2), CallError, "no parameter 'speed'"),
        (lambda: scaled(normal(10), 1.0, 64, 3), CallError, "takes 3 values"),
        (lambda: scaled(normal(10), "fast"), ArgumentError, "argument factor: expected a number, got 'fast'"),
        (lambda: scaled(normal(10), normal(1)), CallError, "block, which is a generation-time parameter"),
        (lambda: shifted(normal(10), factor=normal(1)), CallError, "factor, which is a number"),
        (lambda: scaled(normal(10), 1.0, out=(normal(10),) * 2), ArgumentError, "argument out: expected 1 array"),
        (lambda: scaled(np.float32(3), 1.0), ArgumentError, "argument A: expected a NumPy array"),
        (lambda: scaled(normal(10)[::-1], 1.0), ArgumentError, "argument A: expected strides of 0 or more"),
        (lambda: scaled(normal(10).astype(">f4"), 1.0), ArgumentError, "argument A: expected elements in"),
        (lambda: scaled(normal(10), 1.0, out=normal(10).astype(">f4")), ArgumentError, "argument B: expected elem"),
        (lambda: scaled(normal(10).astype(complex), 1.0), ArgumentError, "argument A: expected an element type"),
        (lambda: scaled(normal(10), 10**400), ArgumentError, "argument factor: expected a number"),
        (lambda: scaled.emit("float32"), ArgumentError, "argument A: expected a NumPy array"),
        (lambda: scaled([1.0, 2.0], 1.0), tilegen.TilegenError, "argument A: expected a NumPy array"),
        (lambda: sum_and_difference(normal(3, 4), normal(3, 5)), tilegen.TilegenError, "N is 4"),
        (lambda: sum_and_difference(normal(3, 4), normal(3)), tilegen.TilegenError, "axes"),
        (lambda: sum_and_difference(normal(3, 4), "text"), ArgumentError, "argument B: expected a NumPy array"),
        (lambda: scaled.emit(T.Tensor((8,), T.float32), target="sm_12"), tilegen.TilegenError, "no target is called"),
        (lambda: scaled.emit(T.Tensor((8,), T.float32), name="not a name"), CallError, "no C identifier"),
        (lambda: lazy_factory(64)(normal(64)), ArgumentError, r"expected 2 arrays \(A, B\), got 1"),
        (lambda: lazy_factory(64)(normal(64), normal(65)), ArgumentError, "argument B: expected shape"),
        (lambda: lazy_factory(64)(normal(64), normal(64), 3.0), CallError, "takes arrays only, but is given 3.0"),
        (lambda: lazy_factory(), CallError, "missing a required argument: 'N'"),
        (lambda: sum_and_difference(normal(3, 4), normal(3, 4), normal(3, 4)), CallError,
         r"takes 2 arrays \(A, B\), but one is given for block"),
        (lambda: scaled(normal(10), 1.0, block=normal(3)), CallError, r"takes 1 arrays \(A\)"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


@pytest.mark.parametrize(
    "value, sentence",
    [
        (scaled, "<tilegen kernel scaled>, which has been through it"),
        (staticmethod(scaled.__wrapped__), "put @staticmethod above @tilegen.jit"),
        (len, "decorate a function that def defines"),
        (3, "tilegen.jit is given 3"),
    ],
)
def test_what_is_no_function_is_refused(value, sentence):
    with pytest.raises(CallError, match=sentence):
        tilegen.jit(value)


def test_equal_parameters_of_other_types_are_others(host):
    @tilegen.jit(target="sm_80")
    def filled(A, value=0):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = 5 if value is True else 6 if isinstance(value, float) else 7
        return B

    a = normal(3)
    assert [float(filled(a, value=value)[0]) for value in (1, 1.0, True)] == [7, 6, 5]


def test_an_output_of_another_shape_is_refused():
    with pytest.raises(ArgumentError, match="argument D: expected shape"):
        sum_and_difference(normal(3, 64), normal(3, 64), out=(normal(3, 63), normal(3, 64)))
    with pytest.raises(ArgumentError, match=r"expected 2 arrays \(D, S\), got 1"):
        sum_and_difference(normal(3, 64), normal(3, 64), out=normal(3, 64))


# ------------------------------------------------------------------------------------------- GPU arrays


def test_shapes_are_compiled_in_and_kept(machine):
    framework, driver = machine
    kernel = tilegen.jit(sum_and_difference.__wrapped__)
    a, b = gpu((5, 130), "float32"), gpu((5, 130), "float32")
    _, total = kernel(a, b)
    assert isinstance(total, GpuArray) and total.values.shape == (5, 130) and framework.allocations == 2
    assert driver.launches[-1][1][:3] == (3, 5, 1)
    kernel(a, b)
    kernel(gpu((5, 130), "float32"), b)
    assert len(kernel._texts.emissions) == 1 and len(kernel._calls) == 1
    kernel(gpu((6, 130), "float32"), gpu((6, 130), "float32"))
    kernel(a, b, block=32)
    assert len(kernel._texts.emissions) == 3
    assert all(emission.target.name == "sm_80" for emission in kernel._texts.emissions.values())
    out = kernel(a, b, out=(gpu((5, 130), "float32"), gpu((5, 130), "float32")))
    assert isinstance(out, tuple) and framework.allocations == 2 + 2 + 2 + 2 + 2


def test_dynamic_extents_share_one_text(machine):
    _, driver = machine
    kernel = tilegen.jit(dynamic=("M",))(open_rows.__wrapped__)
    for rows in (5, 6, 1000):
        kernel(gpu((rows, 128), "float32"), gpu((rows, 128), "float32"))
        assert driver.launches[-1][1][:3] == (2, rows, 1)
    assert len(kernel._texts.emissions) == 1
    (emission,) = kernel._texts.emissions.values()
    assert emission.manifest.symbols == ("M",)
    both = tilegen.jit(dynamic="M, N")(open_rows.__wrapped__)
    both(gpu((5, 128), "float32"), gpu((5, 128), "float32"))
    both(gpu((6, 64), "float32"), gpu((6, 64), "float32"))
    assert [emission.manifest.symbols for emission in both._texts.emissions.values()] == [("M", "N")]
    with pytest.raises(CallError, match=r"dynamic names Q, but the open extents of .* are M, N"):
        tilegen.jit(dynamic=("Q",))(open_rows.__wrapped__)(gpu((5, 128), "float32"), gpu((5, 128), "float32"))


def test_other_ways_to_pass_arguments(machine):
    _, driver = machine
    kernel = tilegen.jit(sum_and_difference.__wrapped__)
    a, b = gpu((5, 130), "float32"), gpu((5, 130), "float32")
    driver.sizes = [8, 8, 8, 8]
    kernel(a, b, block=32)
    kernel(a, b, 32)
    kernel(B=b, A=a, block=32)
    kernel(a, B=b, block=32)
    pointers = {tuple(parameters[:2]) for _, _, _, parameters in driver.launches}
    assert len(pointers) == 1 and len(kernel._texts.emissions) == 1
    assert all(launch[1][0] == 5 for launch in driver.launches)


def test_scalars_are_launch_arguments(machine):
    _, driver = machine
    kernel = tilegen.jit(scaled.__wrapped__)
    a = gpu((100,), "float32")
    driver.sizes = [8, 8, 4]
    for factor in (2.0, -0.5):
        kernel(a, factor)
        assert struct.unpack("<f", driver.launches[-1][3][2])[0] == factor
    assert len(kernel._calls) == 1


def test_overlapping_gpu_arrays_are_refused(machine):
    _, driver = machine
    kernel = tilegen.jit(sum_and_difference.__wrapped__)
    a, b, c = (gpu((5, 64), "float32") for _ in "abc")
    kernel(a, b, out=(c, gpu((5, 64), "float32")))
    launches = len(driver.launches)
    with pytest.raises(ArgumentError, match="argument S: expected memory that D does not use"):
        kernel(a, b, out=(c, c))
    assert len(driver.launches) == launches


def test_lazy_programs_on_gpu_arrays(machine):
    _, driver = machine
    program = tilegen.compile(lazy_add(200), out_idx=-1)
    result = program(gpu((200,), "float32"), gpu((200,), "float32"))
    assert isinstance(result, GpuArray) and result.values.shape == (200,)
    assert driver.launches[-1][1][:6] == (4, 1, 1, 64, 1, 1)


def test_mixed_memory_is_refused(machine):
    with pytest.raises(ArgumentError, match="argument B: expected an array in GPU memory"):
        tilegen.jit(sum_and_difference.__wrapped__)(gpu((5, 64), "float32"), normal(5, 64))


def test_a_broken_assumption_gets_a_text_of_its_own(machine, monkeypatch):
    """With K open, the sm_90a text loads by TMA and assumes K % 8 == 0; K = 61 is compiled in and guarded instead."""
    monkeypatch.setattr("tilegen.cold_call.compute_capability", lambda device: "9.0")
    kernel = tilegen.jit(dynamic=("K",))(matmul_relu.__wrapped__)
    kernel(gpu((128, 64)), gpu((64, 128)))
    kernel(gpu((128, 192)), gpu((192, 128)))
    assert [emission.manifest.symbols for emission in kernel._texts.emissions.values()] == [("K",)]
    kernel(gpu((128, 61)), gpu((61, 128)))
    assert [emission.manifest.symbols for emission in kernel._texts.emissions.values()] == [("K",), ()]


# ------------------------------------------------------------------------------------------- compile


def test_compile_specialises_an_eager_program(host):
    """TileLang's idiom: extents and parameters by keyword, then a function of the arrays."""
    kernel = matmul_relu.compile(M=64, N=96, K=48, block_M=64, block_N=32, block_K=16)
    assert kernel is matmul_relu.compile(K=48, N=96, M=64, block_M=64, block_N=32, block_K=16)
    a, b = normal(64, 48).astype(np.float16), normal(48, 96).astype(np.float16)
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(kernel(a, b).astype(np.float32), expected, atol=2e-2)
    assert "kBlockM = 64" in kernel.get_kernel_source()
    assert kernel.get_kernel_source() == matmul_relu.get_kernel_source(
        M=64, N=96, K=48, block_M=64, block_N=32, block_K=16
    )
    assert kernel.emission.manifest.symbols == () and kernel.emission.target.name == "sm_90a"
    np.testing.assert_array_equal(kernel(B=b, A=a), kernel(a, b))
    np.testing.assert_array_equal(kernel(a, B=b), kernel(a, b))
    with pytest.raises(CallError, match="has no parameter 'X'"):
        kernel(a, X=b)
    with pytest.raises(ArgumentError, match="argument A: expected shape"):
        kernel(normal(32, 48).astype(np.float16), b)


def test_compile_leaves_open_what_is_not_given(host):
    kernel = scaled.compile(M=T.dynamic("M"), block=32)
    assert kernel.emission.manifest.symbols == ("M",)
    a = normal(77)
    np.testing.assert_array_equal(kernel(a, 2.0), a * 2)
    np.testing.assert_array_equal(kernel(a, factor=3.0), a * 3)
    fixed = scaled.compile(factor=2.0, M=77)
    np.testing.assert_array_equal(fixed(a), a * 2)
    with pytest.raises(CallError, match=r"takes arrays only, but is given 4\.0 as well"):
        fixed(a, 4.0)


def test_compile_takes_specs_arrays_and_a_factorys_arguments(host):
    a = normal(50)
    np.testing.assert_array_equal(scaled.compile(T.Tensor((50,), T.float32))(a, 2.0), a * 2)
    np.testing.assert_array_equal(scaled.compile(a)(a, 2.0), a * 2)
    assert lazy_factory.compile(200, block_N=32) is lazy_factory(200, block_N=32)
    assert "kBlockN = 32" in lazy_factory.get_kernel_source(200, block_N=32)


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ({"blok": 32}, "scaled has no extent blok; it has M; its parameters are factor, block"),
        ({"M": 2.5}, "no parameter 'M', and 2.5 is no extent"),
        ({"M": -1}, "-1 is not an extent"),
    ],
)
def test_compile_says_what_it_does_not_know(fixed, sentence):
    with pytest.raises(TilegenError) as caught:
        scaled.compile(**fixed)
    assert sentence in str(caught.value)
