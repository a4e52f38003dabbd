"""A compiled kernel: its resources, and calls on GPU arrays of any framework."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

from tilegen.calls.arguments import (
    Apart,
    allocated,
    arrays_apart,
    check_apart,
    check_count,
    check_outputs,
    scratch,
    supplied,
)
from tilegen.calls.arrays import ArrayFacts, Framework, facts_of, framework_of, numpy_dtype
from tilegen.calls.binding import bind_shapes
from tilegen.calls.scalars import Scalar, as_number, whole_numbers
from tilegen.errors import ArgumentError
from tilegen.manifest import Manifest
from tilegen.runtime.compilation import Backend, Image, compile_image, for_capability
from tilegen.runtime.device_api import cuda_api
from tilegen.runtime.launch import Launcher
from tilegen.runtime.loading import CurrentDevice, LoadedKernel, load
from tilegen.runtime.parameters import bind_call
from tilegen.runtime.profiler import Profiler, TensorSupplyType
from tilegen.target import Target

_CALL_LIMIT = 4096
_Prepared = TypeVar("_Prepared")


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """Everything about a call but its addresses: `run` is what a warm call costs.

    `order` says, for each of the kernel's tensors, where its address is found among the call's arrays followed by the
    allocated ones and the scratch memory.
    """

    launcher: Launcher
    framework: Framework
    device: int
    made: tuple[Callable[[], Any], ...]  # each allocates an output
    scratch: tuple[tuple[tuple[int, ...], str, bool], ...]  # the last: whether it rests at 0
    order: tuple[int, ...]
    results: tuple[int, ...]
    apart: tuple[Apart, ...]
    current: CurrentDevice
    kept: dict[int, list[Any]] = field(default_factory=dict)  # scratch of streams that callers name
    captured: list[list[Any]] = field(default_factory=list)  # scratch of launches that went into graphs
    resting: dict[tuple[int, int], Any] = field(default_factory=dict)  # by stream and place in `scratch`

    def run(
        self,
        arrays: Sequence[Any],
        pointers: list[int],
        out: Sequence[Any],
        scalars: Sequence[Scalar],
        stream: int | None,
    ) -> Any:
        """Allocates what is missing, launches, and returns the outputs.

        Raises:
            ArgumentError: arrays that share memory with one that the kernel writes.
            DeviceError: what the driver reports.
        """
        if self.apart:
            check_apart(self.apart, pointers)
        if self.current.elsewhere(self.device):
            with self.current.on(self.device):
                out = self._enqueue(arrays, pointers, out, scalars, stream)
        else:
            out = self._enqueue(arrays, pointers, out, scalars, stream)
        results = self.results
        if len(results) == 1:
            position = results[0]
            return arrays[position] if position < len(arrays) else out[position - len(arrays)]
        if not results:
            return None
        every = (*arrays, *out)
        return tuple(every[position] for position in results)

    def _enqueue(
        self,
        arrays: Sequence[Any],
        pointers: list[int],
        out: Sequence[Any],
        scalars: Sequence[Scalar],
        stream: int | None,
    ) -> Sequence[Any]:
        framework = self.framework
        if not out and self.made:
            out = [make() for make in self.made]
            pointers += map(framework.address, out)
        handle = framework.stream(self.device) if stream is None else stream
        spare: Sequence[Any] = ()
        if self.scratch:
            spare = self._spare((*arrays, *out)[0], handle, named=stream is not None)
            pointers = [*pointers, *map(framework.address, spare)]
        self.launcher.launch([pointers[position] for position in self.order], handle, scalars)
        return out

    def _spare(self, like: Any, stream: int, named: bool) -> Sequence[Any]:
        """Scratch memory for one launch. The framework may hand it out again as soon as the launch is enqueued on its
        own current stream. On a stream that the caller names that would be too early, so that each of those keeps its
        own; and a graph keeps what it was captured with."""
        captured = self.launcher.captures(stream)
        if named and not captured and stream in self.kept:
            return self.kept[stream]
        made = [
            self._at_rest(place, like, stream, captured)
            if rests
            else self.framework.maker(shape, dtype, like)()
            for place, (shape, dtype, rests) in enumerate(self.scratch)
        ]
        if captured:
            self.captured.append(made)
        elif named:
            self.kept[stream] = made
        return made

    def _at_rest(self, place: int, like: Any, stream: int, captured: bool) -> Any:
        """Scratch memory that every launch finds and leaves at 0: a stream keeps its own, and its launches follow each
        other; a graph sets its own to 0 in every replay."""
        found = None if captured else self.resting.get((stream, place))
        if found is None:
            shape, dtype, _ = self.scratch[place]
            found = self.framework.maker(shape, dtype, like)()
            size = prod(shape) * numpy_dtype(dtype).itemsize
            self.launcher.clear(self.framework.address(found), size, stream)
            if not captured:
                self.resting[stream, place] = found
        return found


_CURRENT = CurrentDevice()


def as_outputs(out: Any) -> Sequence[Any]:
    """The `out` of a call as a sequence: nothing, one array, or several."""
    return () if out is None else out if isinstance(out, (tuple, list)) else (out,)


def remember(calls: dict[Any, _Prepared], lookup: Any, prepared: _Prepared) -> None:
    """Keeps a prepared call; all are forgotten when there are too many."""
    if len(calls) >= _CALL_LIMIT:
        calls.clear()
    calls[lookup] = prepared


def probe_all(arrays: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[int], list[Hashable]]:
    """The addresses of a call's arrays, and what decides which prepared call fits them."""
    pointers: list[int] = []
    key: list[Hashable] = []
    for array in (*arrays, *outputs) if outputs else arrays:
        pointer, part = framework_of(array).probe(array)
        pointers.append(pointer)
        key.append(part)
    return pointers, key


class CompiledKernel:
    """An emitted kernel, compiled. Loads on a device when it is first launched there.

    `registers` a thread, `spills` (bytes on CUDA, registers on HIP) and `shared_bytes` of a block (static and dynamic)
    are known without a GPU.
    """

    def __init__(
        self,
        source: str,
        manifest: Manifest,
        target: Target,
        backend: Backend | None = None,
        lazy: bool = False,
    ) -> None:
        self.source = source
        self.manifest = manifest
        self.target = target
        self._backend = backend
        self._images: dict[Target, Image] = {}
        self._loaded: dict[int, LoadedKernel] = {}
        self._calls: dict[Any, PreparedCall] = {}
        self._lock = threading.RLock()
        self._supplied = supplied(manifest)
        self._allocated = allocated(manifest)
        self._public = sorted((*self._supplied, *self._allocated))
        self._scratch = scratch(manifest)
        self._scalar_names = tuple(scalar.name for scalar in manifest.scalars)
        self._keywords = tuple(scalar.keyword for scalar in manifest.scalars)
        if not lazy:
            self._compile(target)

    @property
    def name(self) -> str:
        return self.manifest.kernel

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self._compile(self.target).registers

    @property
    def spills(self) -> int:
        """What the compiler spilled: bytes (CUDA) or registers (HIP); 0 is the aim."""
        return self._compile(self.target).spills

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, static and dynamic."""
        if self.manifest.language == "hip":
            return max(self._compile(self.target).static_shared_bytes, self.manifest.shared_bytes)
        return self._compile(self.target).static_shared_bytes + self.manifest.shared_bytes

    @property
    def log(self) -> str:
        """What the compiler said."""
        return self._compile(self.target).log

    @property
    def compiler(self) -> str:
        return self._compile(self.target).compiler

    @property
    def binary(self) -> bytes:
        """The cubin or code object."""
        return self._compile(self.target).binary

    def get_kernel_source(self) -> str:
        """The emitted text (TileLang's name for it)."""
        return self.source

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """Times this kernel and compares it with a reference, on random arrays."""
        return Profiler(self, supply=tensor_supply_type)

    def __call__(self, *arrays: Any, out: Any = None, stream: int | None = None, **scalars: Scalar) -> Any:
        """Runs the kernel on its inputs; outputs are allocated by the first array's framework, or are `out` (a tuple
        where there are several). Asynchronous, on the framework's current stream unless `stream` (a handle) is given.

        Raises:
            ArgumentError: arrays or scalars that break the contract.
            DeviceError: what the driver reports.
        """
        return self.call(arrays, out, stream, scalars)

    def launch(self, *arrays: Any, stream: int | None = None, **scalars: Scalar) -> None:
        """Runs the kernel on all the program's tensors, outputs last as it declares them; allocates nothing but scratch
        memory, where the kernel wants some.

        Raises:
            As calling it.
        """
        check_count(self.manifest, self._public, len(arrays))
        inputs = [arrays[position] for position in self._supplied]
        self.call(inputs, tuple(arrays[position] for position in self._allocated), stream, scalars)

    def call(self, arrays: Sequence[Any], out: Any, stream: int | None, scalars: Mapping[str, Scalar]) -> Any:
        """`__call__` with its arguments in hand."""
        outputs = as_outputs(out)
        pointers, key = probe_all(arrays, outputs)
        values = self.scalar_values(scalars)
        lookup = (len(arrays), *key, whole_numbers(values))
        prepared = self._calls.get(lookup)
        if prepared is None:
            prepared = self.prepare(arrays, outputs, values)
            remember(self._calls, lookup, prepared)
        return prepared.run(arrays, pointers, outputs, values, stream)

    def scalar_values(self, scalars: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
        """The kernel's scalars in its order.

        Raises:
            ArgumentError: one that is missing or unknown.
        """
        if not scalars and not self._keywords:
            return ()
        unknown = [name for name in scalars if name not in self._keywords]
        if unknown:
            known = ", ".join(self._keywords) or "none"
            raise ArgumentError(
                unknown[0], f"one of the kernel's scalars ({known})", "another name", "leave it out"
            )
        missing = [name for name in self._keywords if name not in scalars]
        if missing:
            raise ArgumentError(missing[0], "a number", "nothing", f"pass {missing[0]}=…")
        return tuple(as_number(name, scalars[name]) for name in self._keywords)

    def prepare(
        self, arrays: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Scalar]
    ) -> PreparedCall:
        """The cold path of a call: checks the contract, loads the kernel and packs its parameters.

        Raises:
            As calling the kernel.
        """
        with self._lock:
            return self._bind(arrays, outputs, dict(zip(self._scalar_names, scalars, strict=True)))

    def _bind(
        self, arrays: Sequence[Any], outputs: Sequence[Any], scalars: Mapping[str, Scalar]
    ) -> PreparedCall:
        manifest = self.manifest
        facts = self._facts(arrays, outputs)
        shapes = bind_shapes(manifest, facts, scalars)
        device = next(iter(facts.values())).device_index
        loaded = self._load(device)
        sizes = prod(manifest.cluster), prod(manifest.block), manifest.shared_bytes
        call = bind_call(
            manifest,
            shapes,
            scalars,
            loaded.multiprocessors,
            lambda: loaded.driver.resident_clusters(loaded.function, *sizes),
        )
        count = len(self._supplied)
        place = {position: index for index, position in enumerate(self._supplied)}
        place |= {position: count + i for i, position in enumerate((*self._allocated, *self._scratch))}
        names = {tensor.name: position for position, tensor in enumerate(manifest.tensors)}
        like = (*arrays, *outputs)[0]
        framework = framework_of(like)
        return PreparedCall(
            launcher=Launcher(manifest.kernel, loaded.function, call, loaded.driver),
            framework=framework,
            device=device,
            made=tuple(
                framework.maker(shapes.tensors[p], manifest.tensors[p].dtype, like) for p in self._allocated
            ),
            scratch=tuple(
                (shapes.tensors[p], manifest.tensors[p].dtype, manifest.tensors[p].rests)
                for p in self._scratch
            ),
            order=tuple(place[position] for position in range(len(manifest.tensors))),
            results=tuple(place[names[name]] for name in manifest.outputs),
            apart=arrays_apart(manifest, facts, place),
            current=_CURRENT,
        )

    def _facts(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> dict[int, ArrayFacts]:
        """What is known of a call's arrays, by their position among the kernel's tensors.

        Raises:
            ArgumentError: too few or too many, none at all, or one in host memory.
        """
        manifest = self.manifest
        check_count(manifest, self._supplied, len(arrays))
        check_outputs(manifest, self._allocated, len(outputs))
        facts: dict[int, ArrayFacts] = {}
        given = (*self._supplied, *(self._allocated if outputs else ()))
        for position, array in zip(given, (*arrays, *outputs), strict=True):
            name = manifest.tensors[position].name
            facts[position] = facts_of(array, name)
            if not facts[position].on_gpu:
                raise ArgumentError(
                    name,
                    "an array in GPU memory",
                    f"a {facts[position].framework} array in host memory",
                    "move it to the GPU, or call the @tilegen.jit function, which emulates host arrays",
                )
        if not facts:
            raise ArgumentError("list", "at least one array", "none", "pass out=, or inputs")
        return facts

    def _load(self, device: int) -> LoadedKernel:
        if device not in self._loaded:
            dynamic = self.manifest.shared_bytes if self.manifest.language == "cuda" else 0
            unasked = self.target.limits.static_shared_bytes
            image = self._image_for(device)
            self._loaded[device] = load(image, self.manifest.kernel, dynamic, device, unasked)
        return self._loaded[device]

    def _image_for(self, device: int) -> Image:
        """The image, compiled anew where the device is of a later architecture than the target."""
        if self.target.language == "hip":
            return self._compile(self.target)
        return self._compile(for_capability(self.target, cuda_api().compute_capability(device)))

    def _compile(self, target: Target) -> Image:
        if target not in self._images:
            self._images[target] = compile_image(self.source, self.manifest.kernel, target, self._backend)
        return self._images[target]
