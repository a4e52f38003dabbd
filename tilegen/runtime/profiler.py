"""Timing on the device: medians over rounds, with the L2 cache flushed before each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy

from tilegen.calls.arrays import numpy_dtype
from tilegen.errors import TilegenError
from tilegen.formula import compile_formulas
from tilegen.runtime.loading import import_cupy, require_gpu

if TYPE_CHECKING:
    from tilegen.runtime.compiled import CompiledKernel

_FLUSH_BYTES = 256 << 20  # more than any L2 here


class TensorSupplyType(Enum):
    """What random arrays hold. Floats are standard normal (`Auto`, `Normal`, `Randn`), of -1 to 1 (`Uniform`) or
    whole numbers from -2 to 2 (`Integer`); integers are 0 to 3. `Zero` and `One` are constant."""

    Auto = "auto"
    Integer = "integer"
    Uniform = "uniform"
    Normal = "normal"
    Randn = "randn"
    Zero = "zero"
    One = "one"


class ProfileError(TilegenError):
    """A kernel that cannot be timed as asked, or a result that does not match its reference."""


def do_bench(
    function: Callable[[], Any], warmup: float = 25.0, rep: float = 100.0, flush_l2: bool = True
) -> float:
    """The median time of `function` on the device, in milliseconds.

    `function` enqueues on the current stream of CuPy (or torch, where both share one); `warmup` and `rep` are
    milliseconds to spend before and while measuring.

    Raises:
        DeviceError: no CuPy, or no GPU that it can use.
    """
    cupy = import_cupy()
    require_gpu(cupy)
    stream = cupy.cuda.get_current_stream()
    function()
    stream.synchronize()
    flush = cupy.empty(_FLUSH_BYTES, cupy.int8) if flush_l2 else None
    once = max(_time(cupy, stream, function, flush), 1e-3)
    for _ in range(max(1, int(warmup / once))):
        function()
    rounds = min(max(5, int(rep / once)), 1000)
    return median(_time(cupy, stream, function, flush) for _ in range(rounds))


def _time(cupy: Any, stream: Any, function: Callable[[], Any], flush: Any) -> float:
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    if flush is not None:
        flush.fill(0)
    start.record(stream)
    function()
    end.record(stream)
    end.synchronize()
    milliseconds: float = cupy.cuda.get_elapsed_time(start, end)
    return milliseconds


class Profiler:
    """Times one compiled kernel on random arrays, and holds it against a reference."""

    def __init__(self, kernel: CompiledKernel, seed: int = 0, supply: TensorSupplyType | None = None) -> None:
        self._kernel = kernel
        self._seed = seed
        self._supply = supply or TensorSupplyType.Auto

    def random_inputs(self, **extents: int) -> list[Any]:
        """CuPy arrays for the tensors that the caller passes; see `TensorSupplyType`.

        Raises:
            ProfileError: when an extent that is open in the kernel is not given, or one that it does not have is.
            DeviceError: no CuPy, or no GPU that it can use.
        """
        manifest = self._kernel.manifest
        values = self._extents(extents)
        cupy = import_cupy()
        require_gpu(cupy)
        generator = numpy.random.default_rng(self._seed)
        arrays = []
        from tilegen.calls.arguments import supplied

        for position in supplied(manifest):
            tensor = manifest.tensors[position]
            shape = compile_formulas(tensor.shape, tuple(values))(*values.values())
            arrays.append(
                cupy.asarray(random_array(generator, shape, numpy_dtype(tensor.dtype), self._supply))
            )
        return arrays

    def _extents(self, extents: Mapping[str, int]) -> dict[str, int]:
        """The kernel's open extents by its own names.

        Raises:
            ProfileError: unless exactly these are given.
        """
        manifest = self._kernel.manifest
        own = {manifest.called.get(symbol, symbol): symbol for symbol in manifest.symbols}
        for name in own:
            if name not in extents:
                raise ProfileError(f"the extent {name} is open: pass {name}=…")
        for name in extents:
            if name not in own:
                has = f"its open extents are {', '.join(own)}" if own else "it has no open extents"
                raise ProfileError(
                    f"{name} is neither an option nor an extent of {self._kernel.name}; {has}\n"
                    f"  remedy: delete {name}=…"
                )
        return {own[name]: value for name, value in extents.items()}

    def do_bench(
        self,
        function: Callable[..., Any] | None = None,
        warmup: float = 25.0,
        rep: float = 100.0,
        input_tensors: Sequence[Any] | None = None,
        **extents: int,
    ) -> float:
        """The median time in milliseconds of the kernel, or of `function` on the same inputs."""
        if input_tensors is not None and extents:
            raise ProfileError(f"input_tensors fix all extents\n  remedy: delete {next(iter(extents))}=…")
        inputs = list(input_tensors) if input_tensors is not None else self.random_inputs(**extents)
        timed = self._kernel if function is None else function
        return do_bench(lambda: timed(*inputs), warmup, rep)

    def assert_allclose(
        self, reference: Callable[..., Any], rtol: float = 1e-2, atol: float = 1e-2, **extents: int
    ) -> None:
        """Compares the kernel with `reference(*inputs)` on random arrays.

        Raises:
            ProfileError: naming the worst difference.
        """
        cupy = import_cupy()
        inputs = self.random_inputs(**extents)
        got, wanted = self._kernel(*inputs), reference(*inputs)
        pairs = zip(_tuple(got), _tuple(wanted), strict=True)
        for out, ref in pairs:
            if not cupy.allclose(out.astype("float32"), ref.astype("float32"), rtol=rtol, atol=atol):
                worst = float(cupy.max(cupy.abs(out.astype("float32") - ref.astype("float32"))))
                raise ProfileError(f"{self._kernel.name} differs from its reference by up to {worst:.3g}")


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def random_array(
    generator: numpy.random.Generator,
    shape: tuple[int, ...],
    dtype: numpy.dtype[Any],
    supply: TensorSupplyType = TensorSupplyType.Auto,
) -> numpy.ndarray[Any, Any]:
    """An array that holds what `TensorSupplyType` says."""
    match supply:
        case TensorSupplyType.Zero:
            return numpy.zeros(shape, dtype)
        case TensorSupplyType.One:
            return numpy.ones(shape, dtype)
    if dtype.kind in "iub":
        return generator.integers(0, 4, shape).astype(dtype)
    match supply:
        case TensorSupplyType.Integer:
            return generator.integers(-2, 3, shape).astype(dtype)
        case TensorSupplyType.Uniform:
            return generator.uniform(-1, 1, shape).astype(dtype)
        case _:
            return generator.standard_normal(shape, dtype=numpy.float32).astype(dtype)
