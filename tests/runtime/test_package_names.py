"""Names that TileLang's programs take from the package."""

import numpy as np
import pytest
from small_programs import lazy_add, matmul_relu, scaled

import tilegen
import tilegen.language as T
from tilegen.building import CallError
from tilegen.errors import DeviceError, TilegenError
from tilegen.foreign import ForeignNameError
from tilegen.runtime.profiler import ProfileError, Profiler, TensorSupplyType, random_array


def test_names_that_have_a_meaning():
    from tilegen.autotuner import autotune
    from tilegen.profiler import do_bench

    assert tilegen.cdiv is T.ceildiv and tilegen.cdiv(7, 2) == 4
    assert tilegen.autotune is autotune and tilegen.do_bench is do_bench
    assert tilegen.TensorSupplyType is TensorSupplyType and tilegen.Profiler is Profiler
    assert tilegen.PassConfigKey.TL_DISABLE_TMA_LOWER == "TL_DISABLE_TMA_LOWER"
    with pytest.warns(UserWarning, match="no 'pass_configs'"):
        tilegen.jit(pass_configs={tilegen.PassConfigKey.TL_ENABLE_FAST_MATH: True})


def test_cdiv_is_a_word():
    @tilegen.jit(target="sm_80")
    def ones(A, block: int = 32):
        M = T.const("M")
        A: T.Tensor((M,), T.float32)
        with T.Kernel(tilegen.cdiv(M, block), threads=32) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] = 1.0

    assert ones.emit(T.Tensor((100,), T.float32)).manifest.grid[0] == "4"


def test_other_names_say_what_to_write():
    with pytest.raises(ForeignNameError, match="compile in a loop"):
        from tilegen import par_compile  # noqa: F401
    with pytest.raises(ForeignNameError, match=r"@tilegen\.autotune"):
        from tilegen.autotuner import AutoTuner  # noqa: F401
    with pytest.raises(ForeignNameError, match="row_major"):
        from tilegen.layout import make_linear_layout  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'speed'"):
        from tilegen import speed  # noqa: F401


@pytest.mark.parametrize("supply", list(TensorSupplyType))
def test_supply_types_say_what_random_arrays_hold(supply):
    made = random_array(np.random.default_rng(0), (64,), np.dtype(np.float32), supply)
    assert made.dtype == np.float32
    match supply.name:
        case "Zero" | "One":
            assert (made == (supply.name == "One")).all()
        case "Integer":
            assert set(np.unique(made)) == {-2, -1, 0, 1, 2}
        case "Uniform":
            assert np.abs(made).max() <= 1 and made.std() > 0.4
        case _:
            assert np.abs(made).max() > 1 and 0.7 < made.std() < 1.3


def test_profilers_take_the_supply_and_refuse_what_they_do_not_know():
    program = tilegen.compile(lazy_add(64), out_idx=-1, target="sm_80")
    profiler = program.get_profiler(tensor_supply_type=tilegen.TensorSupplyType.Zero)
    with pytest.raises(
        ProfileError, match="backend is neither an option nor an extent of lazy_add; it has no open"
    ):
        profiler.do_bench(backend="cupti")
    with pytest.raises(ProfileError, match=r"remedy: delete N=…"):
        profiler.do_bench(input_tensors=[], N=4)


# ------------------------------------------------------------------------------------------- autotune

CONFIGS = [{"block": 64}, {"block": 32}, {"block": 128}]


@pytest.fixture
def times(monkeypatch):
    """Milliseconds by a kernel's number of blocks; what was timed is appended to the list."""
    timed = []

    def do_bench(self, warmup, rep):
        blocks = int(self._kernel.manifest.grid[0])
        timed.append((blocks, warmup, rep))
        return abs(blocks - 8) + 0.25

    monkeypatch.setattr("tilegen.runtime.devices.present_device", lambda: None)
    monkeypatch.setattr(Profiler, "do_bench", do_bench)
    return timed


def test_the_fastest_configuration_is_used_and_kept(times, require_tool):
    require_tool("host_compiler")
    tuned = tilegen.autotune(configs=CONFIGS, warmup=3, rep=20)(scaled)
    a = np.arange(256, dtype=np.float32)
    np.testing.assert_array_equal(tuned(a, 2.0), a * 2)
    assert tuned.config == {"block": 32} and tuned.latency == 0.25
    assert times == [(4, 3, 20), (8, 3, 20), (2, 3, 20)]
    tuned(a + 1, 2.0)
    assert len(times) == 3
    tuned(a[:128], 2.0)
    assert len(times) == 6


def test_given_parameters_are_not_tuned(times, require_tool):
    require_tool("host_compiler")
    tuned = tilegen.autotune(configs=lambda: CONFIGS)(scaled)
    a = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(tuned(a, 2.0, block=16), a * 2)
    np.testing.assert_array_equal(tuned(a, 2.0, 16), a * 2)
    assert times == [] and tuned.config is None


def test_factories_are_tuned(times):
    seen = []

    def configs(N, dtype="float32"):
        seen.append(N)
        return [{"block_N": 64}, {"block_N": 16}]

    @tilegen.jit(out_idx=[-1])
    def own(N, block_N=64):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block_N), threads=32) as bx:
                for i in T.Parallel(block_N):
                    B[bx * block_N + i] = A[bx * block_N + i]

        return main

    tuned = tilegen.autotune(configs=configs)(own.for_target("sm_80"))
    program = tuned(128)
    assert tuned.config == {"block_N": 16} and seen == [128]
    assert program is tuned(128, block_N=16)


def test_configurations_that_do_not_fit_are_named(times):
    configs = [{"block_M": 64, "threads": 100}, {"block_M": 64, "threads": 128}]
    tuned = tilegen.autotune(configs=configs)(matmul_relu.for_target("sm_80"))
    fastest = tuned._fastest
    with pytest.warns(UserWarning, match=r"not timed with \{'block_M': 64, 'threads': 100\}"):
        config, _ = fastest(configs, [T.Tensor((64, 64), T.float16), T.Tensor((64, 64), T.float16)], {})
    assert config == configs[1]
    with pytest.raises(TilegenError, match="no configuration of matmul_relu runs"):
        fastest(configs[:1], [T.Tensor((64, 64), T.float16), T.Tensor((64, 64), T.float16)], {})


def test_without_a_gpu_the_remedy_names_a_configuration(monkeypatch):
    def no_gpu(*arguments, **keywords):
        raise DeviceError("there is no GPU")

    monkeypatch.setattr(Profiler, "do_bench", no_gpu)
    tuned = tilegen.autotune(configs=CONFIGS)(scaled.for_target("sm_80"))
    with pytest.raises(DeviceError, match=r"cannot be tuned: there is no GPU\n  remedy: .* such as block=64"):
        tuned(np.zeros(64, np.float32), 2.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tilegen.autotune(scaled), "needs the configurations"),
        (lambda: tilegen.autotune(configs=CONFIGS, speed=3), "has no option 'speed'"),
        (lambda: tilegen.autotune(configs=CONFIGS)(lazy_add), "above @tilegen.jit"),
        (lambda: tilegen.autotune(configs=[{"blok": 2}])(scaled)(np.zeros(4)), "has no parameter 'blok'"),
        (lambda: tilegen.autotune(configs=[])(scaled)(np.zeros(4)), "has no configuration"),
    ],
)
def test_wrong_uses_are_refused(make, sentence):
    with pytest.raises(CallError) as caught:
        make()
    assert sentence in str(caught.value)


def test_options_of_tilelang_are_warned_of():
    with pytest.warns(UserWarning, match="no 'timeout'"):
        tilegen.autotune(configs=CONFIGS, timeout=60)
