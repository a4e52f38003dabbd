"""The tables of a target's description as data, and how each is read."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen._target_schema import Table, TargetError


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
    schedulers_per_multiprocessor: int  # each with its own share of the warps and of the registers
    shared_bytes_per_block: int
    static_shared_bytes: int
    shared_bytes_per_multiprocessor: int
    reserved_shared_bytes: int  # of each block, taken by the system
    banks: int
    bank_bytes: int
    cache_line_bytes: int
    named_barriers: int
    cluster_blocks: int  # 1: no clusters
    cluster_reach: int  # blocks of the largest clusters that fill every multiprocessor
    grid: tuple[int, ...]
    grid_threads: int  # along an axis, blocks times threads; 0: no limit

    @property
    def warpgroup_size(self) -> int:
        """Threads of a warpgroup, 0 where there are none."""
        return self.warp_size * self.warps_per_warpgroup


@dataclass(frozen=True, slots=True)
class Device:
    """A typical product of the target, for occupancy and roofline estimates; rates are dense peaks a second.

    `panel_rows` and `resident_blocks` are measured: the most rows of tiles that run side by side to any gain (0: the
    hardware's order of tiles stays), and the most blocks of a kernel with a producer that share a multiprocessor.
    """

    product: str
    multiprocessors: int
    dies: int
    l2_bytes: int
    clock_hertz: float
    dram_bytes_per_second: float
    shared_bytes_per_cycle: int
    panel_rows: int
    resident_blocks: int
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
    l2_promotion_bytes: int  # what L2 reads at once from memory: 0 (as asked), 64, 128 or 256
    swizzles: tuple[TmaSwizzle, ...]

    def swizzle(self, span: int) -> TmaSwizzle:
        for swizzle in self.swizzles:
            if swizzle.span == span:
                return swizzle
        spans = ", ".join(str(swizzle.span) for swizzle in self.swizzles)
        raise TargetError(f"a tensor map has no swizzle of {span} bytes: its spans are {spans}")


@dataclass(frozen=True, slots=True)
class WgmmaLimits:
    """What the warpgroup's matrix instructions ask for."""

    registers_beside: int  # of a thread, that ptxas wants beside an instruction's operands


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


def read_limits(table: Table) -> Limits:
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
        schedulers_per_multiprocessor=table.integer("schedulers_per_multiprocessor", 1),
        shared_bytes_per_block=table.integer("shared_bytes_per_block", 1),
        static_shared_bytes=table.integer("static_shared_bytes", 1),
        shared_bytes_per_multiprocessor=table.integer("shared_bytes_per_multiprocessor", 1),
        reserved_shared_bytes=table.integer("reserved_shared_bytes"),
        banks=table.integer("banks", 1),
        bank_bytes=table.integer("bank_bytes", 1),
        cache_line_bytes=table.integer("cache_line_bytes", 1),
        named_barriers=table.integer("named_barriers", 1),
        cluster_blocks=table.integer("cluster_blocks", 1),
        cluster_reach=table.integer("cluster_reach", 1),
        grid=table.integers("grid", 3),
        grid_threads=table.integer("grid_threads"),
    )
    table.finish()
    return limits


def read_device(table: Table) -> Device:
    device = Device(
        product=table.text("product"),
        multiprocessors=table.integer("multiprocessors", 1),
        dies=table.integer("dies", 1),
        l2_bytes=table.integer("l2_bytes", 1),
        clock_hertz=table.number("clock_hertz"),
        dram_bytes_per_second=table.number("dram_bytes_per_second"),
        shared_bytes_per_cycle=table.integer("shared_bytes_per_cycle", 1),
        panel_rows=table.integer("panel_rows"),
        resident_blocks=table.integer("resident_blocks", 1),
        matrix_flops=table.numbers("matrix_flops"),
        vector_flops=table.numbers("vector_flops"),
    )
    table.finish()
    return device


def read_compile(table: Table) -> CompileFlags:
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


def read_tma(table: Table) -> TmaLimits:
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
        l2_promotion_bytes=table.one_of("l2_promotion_bytes", (0, 64, 128, 256)),
        swizzles=tuple(swizzles),
    )
    table.finish()
    return limits


def read_wgmma(table: Table) -> WgmmaLimits:
    limits = WgmmaLimits(table.integer("registers_beside"))
    table.finish()
    return limits


def read_setmaxnreg(table: Table) -> RegisterReallocation:
    counts = RegisterReallocation(
        table.integer("minimum", 1), table.integer("maximum", 1), table.integer("step", 1)
    )
    table.finish()
    return counts


def read_masks(source: Table) -> tuple[tuple[str, int], ...]:
    return tuple((name, value) for name, value in source.scalars("schedule_masks") if isinstance(value, int))


def _rate(product: str, engine: str, rates: tuple[tuple[str, float], ...], dtype: str) -> float:
    for name, rate in rates:
        if name == dtype:
            return rate
    raise TargetError(f"no {engine} rate of {dtype} is known for {product}")
