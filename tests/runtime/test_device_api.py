"""The driver calls against a stand-in for libcuda that is compiled here: what arrives in C is what was meant."""

import contextlib
import ctypes
import shutil
import subprocess
import types

import pytest

from tilegen.errors import DeviceError
from tilegen.runtime import device_api, loading, profiler
from tilegen.runtime.compilation import Image
from tilegen.runtime.device_api import CudaApi, FunctionAttributes
from tilegen.runtime.launch import BoundCall, Launcher, PointerSlot, ScalarSlot, TensorMapSlot
from tilegen.runtime.tensor_map import TensorMapRecipe
from tilegen.target import load_target

LIBRARY = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static char said[4096];
extern "C" {
const char* what_was_said() { return said; }
int cuInit(unsigned flags) { return flags; }
int cuGetErrorName(int error, const char** name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return 0;
}
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (device > 1) return 101;
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
  return 0;
}
struct Attribute { int id; char pad[4]; unsigned x, y, z; char rest[52]; };  // CUlaunchAttribute of 72 bytes
struct Config {                                                              // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
};
int cuOccupancyMaxActiveClusters(int* clusters, void* function, const Config* config) {
  const Attribute& shape = config->attributes[0];
  sprintf(said, "clusters of %p %u %u %u grid %u block %u shared %u id %d count %u bytes %zu", function, shape.x,
          shape.y, shape.z, config->grid[0], config->block[0], config->shared, shape.id, config->count,
          sizeof(Attribute));
  *clusters = config->shared > 200000 ? 0 : 32;
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  *value = (int)(intptr_t)function + attribute;
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  sprintf(said, "set %d of %p to %d", attribute, function, value);
  return value > 232448 ? 1 : 0;
}
int cuMemsetD8Async(uint64_t pointer, unsigned char value, size_t count, void* stream) {
  sprintf(said, "memset %lx %d %zu %p", (unsigned long)pointer, value, count, stream);
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream == (void*)5;
  return stream == (void*)6 ? 906 : 0;
}
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                           int swizzle, int promotion, int fill) {
  uint64_t words[16] = {(uint64_t)type, rank, (uint64_t)address, extents[0], extents[1], strides[0], box[0], box[1],
                        steps[0], (uint64_t)interleave, (uint64_t)swizzle, (uint64_t)promotion, (uint64_t)fill};
  memcpy(map, words, 128);
  return (uintptr_t)map % 64 != 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
  uint64_t map[16], pointer;
  float scale;
  memcpy(map, parameters[0], 128);
  memcpy(&pointer, parameters[1], 8);
  memcpy(&scale, parameters[2], 4);
  sprintf(said, "launch %p %u %u %u %u %u %u %u %p map %lx %lu pointer %lx scale %g extra %d", function, gx, gy, gz, bx,
          by, bz, shared, stream, (unsigned long)map[2], (unsigned long)map[3], (unsigned long)pointer, scale,
          extra != nullptr);
  return gx > 100 ? 700 : 0;
}
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory, require_tool):
    require_tool("host_compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(LIBRARY)
    compiler = next(name for name in ("c++", "g++", "clang++") if shutil.which(name))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "libdriver.so", "driver.cpp"], cwd=folder, check=True)
    return str(folder / "libdriver.so")


@pytest.fixture
def api(library, monkeypatch):
    monkeypatch.setattr(device_api, "_CUDA_LIBRARIES", (library,))
    return CudaApi()


@pytest.fixture
def said(library):
    handle = ctypes.CDLL(library)
    handle.what_was_said.restype = ctypes.c_char_p
    return lambda: handle.what_was_said().decode()


def test_queries(api):
    assert api.device_count() == 2 and api.multiprocessors(1) == 132 and api.compute_capability(0) == (9, 0)
    assert api.function_attributes(100) == FunctionAttributes(104, 103, 101, 100)
    with pytest.raises(DeviceError, match=r"reading a device's attributes failed: CUDA_ERROR \(101\)"):
        api.multiprocessors(7)


def test_clusters_that_run_at_once(api, said):
    assert api.resident_clusters(0xABC, 4, 384, 98304) == 32
    assert said() == "clusters of 0xabc 4 1 1 grid 4 block 384 shared 98304 id 4 count 1 bytes 72"
    with pytest.raises(DeviceError, match="the device runs no cluster of 8 such blocks"):
        api.resident_clusters(0xABC, 8, 384, 227000)


def test_memset_and_limits(api, said):
    api.memset_async(0x7F0012345678, 0, 1 << 33, 0x55)
    assert said() == f"memset 7f0012345678 0 {1 << 33} 0x55"
    api.set_dynamic_shared_limit(0xABCD, 214016)
    assert said() == "set 8 of 0xabcd to 214016"
    with pytest.raises(DeviceError, match="raising the shared-memory limit to 300000 bytes"):
        api.set_dynamic_shared_limit(0xABCD, 300000)


def test_whether_a_stream_captures(api):
    """A stream that cannot be asked (906: the legacy stream beside a capture) does not."""
    assert [api.is_capturing(stream) for stream in (4, 5, 6)] == [False, True, False]


def test_a_launch_with_every_kind_of_parameter(api, said):
    tma = load_target("sm_90a").tma
    recipe = TensorMapRecipe("A", "float16", (520, 1000), (1040,), (64, 128), 128, tma)
    scale = bytes(ctypes.c_float(0.5))
    slots = (TensorMapSlot(1, recipe), PointerSlot(0), ScalarSlot(scale))
    launcher = Launcher("k", 0xF00, BoundCall((7, 2, 1), (384, 1, 1), 214016, slots), api)
    for base in (0x7F0000001000, 0x7F0000002000):
        launcher.launch((base + 0x40, base), 0x77)
        expected = f"launch 0xf00 7 2 1 384 1 1 214016 0x77 map {base:x} 520 pointer {base + 0x40:x} scale 0.5 extra 0"
        assert said() == expected
    with pytest.raises(DeviceError, match=r"launching k failed: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        Launcher("k", 1, BoundCall((101, 1, 1), (1, 1, 1), 0, slots), api).launch((0x40, 0x1000), 0)


def test_a_missing_library_or_call_says_what_to_do(monkeypatch, library, tmp_path):
    monkeypatch.setattr(device_api, "_CUDA_LIBRARIES", ("libabsent-driver.so.9",))
    with pytest.raises(DeviceError, match=r"driver library is not there .*\n  remedy: install the GPU"):
        CudaApi()
    with pytest.raises(DeviceError, match=r"the installed driver has no hipModuleLaunchKernel"):
        monkeypatch.setattr(device_api, "_HIP_LIBRARIES", (library,))
        device_api.HipApi()


# ------------------------------------------------------------------------------------------- loading


def stand_in_cupy(record):
    class Kernel:
        kernel = types.SimpleNamespace(ptr=0x100)

    class RawModule:
        def __init__(self, path):
            with open(path, "rb") as file:
                record.append(file.read())

        def get_function(self, name):
            record.append(name)
            return Kernel()

    @contextlib.contextmanager
    def device(index):
        record.append(index)
        yield

    class CUDADriverError(RuntimeError):
        pass

    driver = types.SimpleNamespace(CUDADriverError=CUDADriverError)
    runtime = types.SimpleNamespace(is_hip=False)
    return types.SimpleNamespace(
        RawModule=RawModule, cuda=types.SimpleNamespace(Device=device, driver=driver, runtime=runtime)
    )


def test_loading_raises_the_shared_limit_only_where_it_must(monkeypatch, api, said):
    record = []
    cupy = stand_in_cupy(record)
    monkeypatch.setattr(loading, "import_cupy", lambda: cupy)
    monkeypatch.setattr(loading, "cuda_api", lambda: api)
    image = Image(b"image", ".cubin", "NVRTC", 32, 0, 0, "")
    api.memset_async(1, 2, 3, 4)
    loaded = loading.load(image, "k", 1024, 1, 49152)
    assert record == [1, b"image", "k"] and (loaded.function, loaded.multiprocessors) == (0x100, 132)
    assert said().startswith("memset")
    loading.load(image, "k", 214016, 0, 49152)
    assert said() == "set 8 of 0x100 to 214016"


@pytest.mark.parametrize("count, sentence", [(0, "none is found"), (None, "driver is too old")])
def test_timing_needs_a_gpu(monkeypatch, count, sentence):
    class CUDARuntimeError(Exception):
        pass

    def devices():
        if count is None:
            raise CUDARuntimeError("the driver is too old")
        return count

    runtime = types.SimpleNamespace(getDeviceCount=devices, CUDARuntimeError=CUDARuntimeError)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(profiler, "import_cupy", lambda: cupy)
    with pytest.raises(DeviceError, match=f"a GPU is needed here: .*{sentence}"):
        profiler.do_bench(lambda: None)


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(
        DeviceError, match=r"CuPy is not installed .*\n  remedy: pip install 'tilegen\[cuda13\]'"
    ):
        loading.import_cupy()
