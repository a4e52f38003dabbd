"""Targets: what a GPU is and can do, read from `targets/*.toml`. Ask for a capability, never for a name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tilegen._resources import targets_root
from tilegen._target_schema import Table, TargetError, read_toml
from tilegen.atoms import (
    AtomicAtom,
    CopyAtom,
    MmaAtom,
    SharedPhase,
    read_atomic,
    read_copy_atom,
    read_mma_atoms,
    read_shared_phase,
)

__all__ = [
    "CompileFlags",
    "Device",
    "Limits",
    "RegisterReallocation",
    "Target",
    "TargetError",
    "TmaLimits",
    "TmaSwizzle",
    "load_target",
    "read_target",
    "target_for_device",
    "target_names",
]

Language = Literal["cuda", "hip"]
_CAPABILITIES = "capabilities.toml"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one block, one thread and one multiprocessor (compute unit) may use; bytes and 32-bit registers."""

    threads_per_block: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    warp_size: int
    warps_per_warpgroup: int  # 0: the target has no warpgroups
    registers_per_thread: int
    accumulation_registers_per_thread: int  # part of registers_per_thread that only accumulates
    registers_per_multiprocessor: int
    register_granularity: int
    shared_bytes_per_block: int
    static_shared_bytes: int
    shared_bytes_per_multiprocessor: int
    reserved_shared_bytes: int  # of each block, taken by the system
    banks: int
    bank_bytes: int
    named_barriers: int
    cluster_blocks: int  # 1: no clusters
    grid: tuple[int, ...]
    grid_threads: int  # along an axis, blocks times threads; 0: no limit

    @property
    def warpgroup_size(self) -> int:
        """Threads of a warpgroup, 0 where there are none."""
        return self.warp_size * self.warps_per_warpgroup


@dataclass(frozen=True, slots=True)
class Device:
    """A typical product of the target, for occupancy and roofline estimates; rates are dense peaks a second."""

    product: str
    multiprocessors: int
    dies: int
    l2_bytes: int
    clock_hertz: float
    dram_bytes_per_second: float
    shared_bytes_per_cycle: int
    matrix_flops: tuple[tuple[str, float], ...]
    vector_flops: tuple[tuple[str, float], ...]

    def matrix_flops_per_second(self, dtype: str) -> float:
        return _rate(self.product, "matrix", self.matrix_flops, dtype)

    def vector_flops_per_second(self, dtype: str) -> float:
        return _rate(self.product, "vector", self.vector_flops, dtype)


@dataclass(frozen=True, slots=True)
class TmaSwizzle:
    """A tensor map's swizzle: `span` bytes a box row, alignment of the tile, (bits, base, shift) on byte offsets."""

    span: int
    alignment: int
    pattern: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TmaLimits:
    """What a tiled tensor map may describe (CUDA Driver API, cuTensorMapEncodeTiled); bytes and elements."""

    rank: int
    box_extent: int
    box_row_multiple_bytes: int
    place_multiple_bytes: int  # of a box's first element along the innermost axis
    stores_before: (
        bool  # whether a box that is stored may begin at a negative index, as one that is loaded may
    )
    global_alignment: int
    global_stride_multiple: int
    global_stride_limit: int
    global_extent_limit: int
    descriptor_bytes: int
    descriptor_alignment: int
    swizzles: tuple[TmaSwizzle, ...]

    def swizzle(self, span: int) -> TmaSwizzle:
        for swizzle in self.swizzles:
            if swizzle.span == span:
                return swizzle
        spans = ", ".join(str(swizzle.span) for swizzle in self.swizzles)
        raise TargetError(f"a tensor map has no swizzle of {span} bytes: its spans are {spans}")


@dataclass(frozen=True, slots=True)
class RegisterReallocation:
    """The counts that `setmaxnreg` accepts."""

    minimum: int
    maximum: int
    step: int


@dataclass(frozen=True, slots=True)
class CompileFlags:
    """Command-line options for this target, by compiler; empty for compilers of the other language."""

    nvcc: tuple[str, ...]
    nvrtc: tuple[str, ...]
    hipcc: tuple[str, ...]
    hiprtc: tuple[str, ...]
    minimum_nvcc: str
    minimum_clang: str
    oclc_isa_version: int  # the number that ROCm's device library calls this architecture by


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture. `name` is what users write, `architecture` what compilers call it."""

    name: str
    language: Language
    architecture: str
    devices: tuple[str, ...]
    capabilities: tuple[str, ...]
    vocabulary: tuple[str, ...]
    limits: Limits
    device: Device
    compile: CompileFlags
    mma_atoms: tuple[MmaAtom, ...]
    copy_atoms: tuple[CopyAtom, ...]
    atomics: tuple[AtomicAtom, ...]
    phases: tuple[SharedPhase, ...]
    tma: TmaLimits | None
    setmaxnreg: RegisterReallocation | None
    schedule_masks: tuple[tuple[str, int], ...]

    def has(self, capability: str) -> bool:
        """Whether the target offers `capability`, a key of `targets/capabilities.toml`.

        Raises:
            TargetError: when no target could offer it: the name is not in the vocabulary.
        """
        if capability not in self.vocabulary:
            known = ", ".join(self.vocabulary)
            raise TargetError(f"no capability is called '{capability}'; there are {known}")
        return capability in self.capabilities

    def mma(self, name: str) -> MmaAtom:
        """The matrix instruction of this name.

        Raises:
            TargetError: when the target has none.
        """
        for atom in self.mma_atoms:
            if atom.name == name:
                return atom
        raise TargetError(f"{self.name} has no matrix instruction '{name}'")

    def mma_atoms_for(self, a: str, b: str, c: str) -> tuple[MmaAtom, ...]:
        """The matrix instructions for these element types of A, B and the accumulator, in the file's order."""
        wanted = (a, b, c)
        return tuple(atom for atom in self.mma_atoms if (atom.a.dtype, atom.b.dtype, atom.c.dtype) == wanted)

    def copies(self, kind: str) -> tuple[CopyAtom, ...]:
        """The copy instructions of one kind ("cp_async", "ldmatrix", "buffer_load", …); empty where there are none."""
        return tuple(atom for atom in self.copy_atoms if atom.kind == kind)

    def shared_phases(self, access: str, width: int) -> tuple[tuple[int, ...], ...]:
        """Groups of lanes whose addresses meet the banks in the same cycle.

        `access` is "load", "store", "ldmatrix" or "stmatrix"; `width` the bytes of one lane (under 4: as 4).

        Raises:
            TargetError: when the target has no such access.
        """
        for phase in self.phases:
            if access in phase.accesses and phase.width == max(width, self.limits.bank_bytes):
                return phase.groups
        raise TargetError(f"{self.name} has no shared-memory {access} of {width} bytes a lane")

    def schedule_mask(self, kind: str) -> int:
        """The `sched_group_barrier` mask of a kind of instruction ("mfma", "ds_read", …)."""
        for name, mask in self.schedule_masks:
            if name == kind:
                return mask
        raise TargetError(f"{self.name} has no scheduling mask for '{kind}'")


def target_names() -> tuple[str, ...]:
    """The names that `load_target` knows, sorted."""
    return tuple(sorted(path.stem for path in targets_root().glob("*.toml") if path.name != _CAPABILITIES))


@cache
def load_target(name: str) -> Target:
    """The target called `name`.

    Raises:
        TargetError: when there is none, or its description breaks the schema.
    """
    if name not in target_names():
        raise TargetError(f"no target is called '{name}'; there are {', '.join(target_names())}")
    return read_target(targets_root() / f"{name}.toml", targets_root())


def target_for_device(identifier: str) -> Target:
    """The target for a device's compute capability ("9.0") or architecture name ("gfx942:sramecc+").

    Raises:
        TargetError: when no target is made for that device.
    """
    key = identifier.split(":")[0]
    for name in target_names():
        target = load_target(name)
        if key in target.devices:
            return target
    raise TargetError(
        f"no target is made for the device '{identifier}'; there are {', '.join(target_names())}"
    )


def read_target(path: Path, root: Path) -> Target:
    """Reads one description; `root` holds the atom files and the vocabulary that it refers to.

    Raises:
        TargetError: naming file, table, key and what is expected there.
    """
    vocabulary = tuple(read_toml(root / _CAPABILITIES))
    top = Table(path.name, "", read_toml(path))
    limits = _read_limits(top.table("limits"))
    families = [Table(file, "", read_toml(root / file)) for file in top.texts("atoms")]
    sources = [top, *families]
    target = Target(
        name=top.text("name"),
        language="cuda" if top.choice("language", ("cuda", "hip")) == "cuda" else "hip",
        architecture=top.text("architecture"),
        devices=top.texts("devices"),
        capabilities=top.texts("capabilities"),
        vocabulary=vocabulary,
        limits=limits,
        device=_read_device(top.table("device")),
        compile=_read_compile(top.table("compile")),
        mma_atoms=tuple(a for s in sources for entry in s.tables("mma") for a in read_mma_atoms(entry)),
        copy_atoms=tuple(read_copy_atom(entry) for s in sources for entry in s.tables("copy")),
        atomics=tuple(read_atomic(entry) for s in sources for entry in s.tables("atomic")),
        phases=tuple(
            read_shared_phase(entry, limits.warp_size) for s in sources for entry in s.tables("shared_phase")
        ),
        tma=next((_read_tma(s.table("tma")) for s in sources if s.has("tma")), None),
        setmaxnreg=_read_setmaxnreg(top.table("setmaxnreg")) if top.has("setmaxnreg") else None,
        schedule_masks=tuple(m for s in sources if s.has("schedule_masks") for m in _read_masks(s)),
    )
    for source in sources:
        source.finish()
    _check(top, target)
    return target


def _check(top: Table, target: Target) -> None:
    for capability in target.capabilities:
        if capability not in target.vocabulary:
            raise top.error("capabilities", f"names from {_CAPABILITIES}", capability)
    needs = [(atom.name, atom.capability) for atom in target.mma_atoms]
    needs += [(atom.name, atom.capability) for atom in target.copy_atoms if atom.capability]
    for name, capability in needs:
        if capability not in target.capabilities:
            raise top.error("capabilities", f"'{capability}', which atom {name} needs", target.capabilities)


def _read_limits(table: Table) -> Limits:
    limits = Limits(
        threads_per_block=table.integer("threads_per_block", 1),
        threads_per_multiprocessor=table.integer("threads_per_multiprocessor", 1),
        blocks_per_multiprocessor=table.integer("blocks_per_multiprocessor", 1),
        warp_size=table.integer("warp_size", 1),
        warps_per_warpgroup=table.integer("warps_per_warpgroup"),
        registers_per_thread=table.integer("registers_per_thread", 1),
        accumulation_registers_per_thread=table.integer("accumulation_registers_per_thread"),
        registers_per_multiprocessor=table.integer("registers_per_multiprocessor", 1),
        register_granularity=table.integer("register_granularity", 1),
        shared_bytes_per_block=table.integer("shared_bytes_per_block", 1),
        static_shared_bytes=table.integer("static_shared_bytes", 1),
        shared_bytes_per_multiprocessor=table.integer("shared_bytes_per_multiprocessor", 1),
        reserved_shared_bytes=table.integer("reserved_shared_bytes"),
        banks=table.integer("banks", 1),
        bank_bytes=table.integer("bank_bytes", 1),
        named_barriers=table.integer("named_barriers", 1),
        cluster_blocks=table.integer("cluster_blocks", 1),
        grid=table.integers("grid", 3),
        grid_threads=table.integer("grid_threads"),
    )
    table.finish()
    return limits


def _read_device(table: Table) -> Device:
    device = Device(
        product=table.text("product"),
        multiprocessors=table.integer("multiprocessors", 1),
        dies=table.integer("dies", 1),
        l2_bytes=table.integer("l2_bytes", 1),
        clock_hertz=table.number("clock_hertz"),
        dram_bytes_per_second=table.number("dram_bytes_per_second"),
        shared_bytes_per_cycle=table.integer("shared_bytes_per_cycle", 1),
        matrix_flops=table.numbers("matrix_flops"),
        vector_flops=table.numbers("vector_flops"),
    )
    table.finish()
    return device


def _read_compile(table: Table) -> CompileFlags:
    flags = CompileFlags(
        nvcc=table.texts("nvcc", ()),
        nvrtc=table.texts("nvrtc", ()),
        hipcc=table.texts("hipcc", ()),
        hiprtc=table.texts("hiprtc", ()),
        minimum_nvcc=table.text("minimum_nvcc", ""),
        minimum_clang=table.text("minimum_clang", ""),
        oclc_isa_version=table.integer("oclc_isa_version") if table.has("oclc_isa_version") else 0,
    )
    table.finish()
    return flags


def _read_tma(table: Table) -> TmaLimits:
    swizzles = []
    for entry in table.tables("swizzles"):
        swizzles.append(
            TmaSwizzle(entry.integer("span"), entry.integer("alignment", 1), entry.integers("pattern", 3))
        )
        entry.finish()
    limits = TmaLimits(
        rank=table.integer("rank", 1),
        box_extent=table.integer("box_extent", 1),
        box_row_multiple_bytes=table.integer("box_row_multiple_bytes", 1),
        place_multiple_bytes=table.integer("place_multiple_bytes", 1),
        stores_before=table.flag("stores_before"),
        global_alignment=table.integer("global_alignment", 1),
        global_stride_multiple=table.integer("global_stride_multiple", 1),
        global_stride_limit=table.integer("global_stride_limit", 1),
        global_extent_limit=table.integer("global_extent_limit", 1),
        descriptor_bytes=table.integer("descriptor_bytes", 1),
        descriptor_alignment=table.integer("descriptor_alignment", 1),
        swizzles=tuple(swizzles),
    )
    table.finish()
    return limits


def _read_setmaxnreg(table: Table) -> RegisterReallocation:
    counts = RegisterReallocation(
        table.integer("minimum", 1), table.integer("maximum", 1), table.integer("step", 1)
    )
    table.finish()
    return counts


def _read_masks(source: Table) -> tuple[tuple[str, int], ...]:
    return tuple((name, value) for name, value in source.scalars("schedule_masks") if isinstance(value, int))


def _rate(product: str, engine: str, rates: tuple[tuple[str, float], ...], dtype: str) -> float:
    for name, rate in rates:
        if name == dtype:
            return rate
    raise TargetError(f"no {engine} rate of {dtype} is known for {product}")
