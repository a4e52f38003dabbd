"""GEMM schedules: the small space that the search walks, and the model that ranks it and picks the default.

The model knows the target's rates and the tile's shape, no problem sizes: there is no table of shapes anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilegen.target import Target, load_target

_HALF = 2  # bytes of an fp16 or bf16 element
_BARRIERS = 1024  # bytes kept for barriers and alignment
_STEP = 64  # columns of K that the model counts by
_MOST_STAGES = 6
_SPLITS = (2, 4, 8)
# Tiles whose rows are no whole 64s, which wgmma computes of exchanged operands: for numbers of tiles that fill waves.
_EXCHANGED = (
    *((rows, 256, 256) for rows in (96, 112, 144, 160, 176)),
    *((rows, 192, 384) for rows in (112, 144, 160, 176)),
    *((rows, 128, 256) for rows in (144, 160, 176, 208, 224, 240)),
)
_LOW = 64  # rows of a tile that has few of them
_STREAMED = 3  # stages that keep memory busy
_L2_BYTES_PER_CYCLE = 68  # of one multiprocessor's port
_LATENCY = 1200  # cycles from a TMA load to its bytes
_EXCHANGED_COST = 1.06  # of products of exchanged operands, which read B's tile more often
_EPILOGUE = 1200  # cycles in which a block's tensor cores wait for its output
_UNSTAGED = (
    9000  # the same where the output does not leave through shared memory: measured at 128 x 256 tiles
)
_BARRIER = (
    90  # cycles in which a barrier of all threads stops the tensor cores, once a tile of K, without TMA
)
_SUM = 2500  # cycles in which blocks that share the k of a tile count each other
_LEFT_PER_CYCLE = 7  # bytes of its part that each of them writes, all at once: fitted to parts of 8 to 128 KB
_TAKEN_PER_CYCLE = 70  # bytes of all parts that the last of them reads
_START = 1500  # cycles from a block's launch to its first product
_CLUSTER = 1.02  # blocks that share loads wait for each other: measured on the H200, at 8192 and 4096 cubed
_SHALLOW = 0.12  # what a ring of one stage costs in waits, as a part of the products; deeper rings in proportion less
# What it costs L2 to give a row of a tile that begins inside a line: two requests, and with clusters no neighbour's are
# merged with them; inside a sector, they never are, and five sectors arrive instead of four. Fitted to 20 shapes on
# the H200.
_LINE, _SECTOR = 128, 32  # bytes
_SPLIT_LINE, _SPLIT_LINE_CLUSTER, _SPLIT_SECTOR = 1.1, 1.8, 2.0
_SPLIT_ARRIVING = 1.2
_HALVES, _QUARTERS = 1.5, 2.0  # more requests for a tile's row in pieces of half or a quarter of a line
_AGAIN = 0.15  # what a row or column of tiles more costs of an operand's bytes, which L2 gives again: measured with 128
_AGAIN_MOST = 2.0  # rows of A in one and two rows of tiles
_BUSY = 100 * 1024  # bytes on their way to a multiprocessor that keep memory busy
_CROWDED = 0.03  # what as many again cost, which wait for each other: measured with 16 rows of A
_UNEVEN_MOST = 1.3  # what a last wave that does not load everywhere costs at most
_HIDDEN = (
    0.2  # what products, loads, and reads by ldmatrix cost although a slower one of them runs beside them
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Parameters of `kernels.matmul`; `cluster` counts blocks along M that share a tile of B, or along N one of A,
    `panel` rows of tiles, `split` blocks that share the k of a tile."""

    block_M: int
    block_N: int
    block_K: int
    num_stages: int
    threads: int
    persistent: bool = False
    cluster: int = 1
    panel: int = 8
    split: int = 1
    along: Literal["M", "N"] = "M"

    def parameters(self) -> dict[str, Any]:
        """As keyword arguments of `kernels.matmul`."""
        return {
            "block_M": self.block_M,
            "block_N": self.block_N,
            "block_K": self.block_K,
            "num_stages": self.num_stages,
            "threads": self.threads,
            "persistent": self.persistent,
            "cluster_dims": (1, self.cluster) if self.along == "M" else (self.cluster, 1),
            "panel": self.panel,
            "split_K": self.split,
        }

    def __str__(self) -> str:
        tile = f"{self.block_M}x{self.block_N}x{self.block_K}"
        kind = "persistent" if self.persistent else "grid"
        share = f" k{self.split}" if self.split > 1 else ""
        cluster = f"c{self.cluster}{'n' if self.along == 'N' else ''}"
        return f"{tile} s{self.num_stages} t{self.threads} {kind} {cluster} p{self.panel}{share}"

    @staticmethod
    def parse(text: str) -> Schedule:
        """Reads what `str` writes.

        Raises:
            ValueError: for other text.
        """
        pattern = r"(\d+)x(\d+)x(\d+) s(\d+) t(\d+) (persistent|grid) c(\d+)(n?) p(\d+)(?: k(\d+))?"
        match = re.fullmatch(pattern, text)
        if match is None:
            raise ValueError(f"'{text}' is no schedule")
        block_m, block_n, block_k, stages, threads = (int(number) for number in match.groups()[:5])
        persistent = match[6] == "persistent"
        along: Literal["M", "N"] = "N" if match[8] else "M"
        cluster, panel, split = int(match[7]), int(match[9]), int(match[10] or 1)
        return Schedule(block_m, block_n, block_k, stages, threads, persistent, cluster, panel, split, along)

    @property
    def stage_bytes(self) -> int:
        return (self.block_M + self.block_N) * self.block_K * _HALF

    @property
    def accumulators(self) -> int:
        """Registers a thread holds of the output tile."""
        return self.block_M * self.block_N // self.threads


@dataclass(frozen=True, slots=True)
class Problem:
    """A product's sizes, and which operands are stored transposed."""

    M: int
    N: int
    K: int
    transpose_A: bool = False
    transpose_B: bool = False

    @property
    def rows(self) -> tuple[int, int]:
        """Elements of a row of A and of B, as they are stored."""
        return self.M if self.transpose_A else self.K, self.K if self.transpose_B else self.N


def search_space(problem: Problem, target_name: str, limit: int = 24) -> tuple[Schedule, ...]:
    """The schedules that the model likes best, best first."""
    target = load_target(target_name)
    fitting = (schedule for schedule in _all(target) if _fits(problem, schedule, target))
    ranked = sorted(fitting, key=lambda schedule: predicted_cycles(problem, schedule, target))
    return tuple(ranked[:limit])


def _fits(problem: Problem, schedule: Schedule, target: Target) -> bool:
    """Whether clusters find as many tiles beside each other, and blocks that share the k of a tile run at once and have
    some."""
    rows, columns = -(-problem.M // schedule.block_M), -(-problem.N // schedule.block_N)
    together = rows * columns * schedule.split <= target.device.multiprocessors
    steps = -(-problem.K // schedule.block_K)
    if schedule.cluster > (rows if schedule.along == "M" else columns):
        return False
    return schedule.split == 1 or (together and steps >= 4 * schedule.split)


def default_schedule(problem: Problem, target_name: str) -> Schedule:
    """The schedule that runs without a search: the model's first."""
    return search_space(problem, target_name, 1)[0]


def _all(target: Target) -> Iterator[Schedule]:
    yield from _hopper(target) if target.has("wgmma") else _ampere(target)


def _hopper(target: Target) -> Iterator[Schedule]:
    """Tiles of warpgroups of 64 rows each or two times 64, and lower ones by mma.sync for few rows; as deep a ring as
    shared memory holds with a staged output beside it, or without; low tiles, which wait for memory alone, also with
    three stages: fewer bytes under way come faster (H200)."""
    tiles = (
        (128, 256, 256), (256, 128, 256), (128, 192, 256), (128, 128, 256), (128, 224, 256), (128, 160, 256),
        (256, 160, 256), (192, 128, 384), (192, 160, 384), (192, 192, 384),
        (64, 256, 128), (64, 224, 128), (64, 192, 128), (64, 128, 128), (128, 128, 128), (64, 64, 128),
        (16, 256, 128), (16, 128, 128), (32, 128, 128),
    )  # fmt: skip
    for block_m, block_n, threads in (*tiles, *_EXCHANGED):
        for block_k in (64,) if block_m % _STEP and block_m > _STEP else (64, 128):
            first = Schedule(block_m, block_n, block_k, 2, threads)
            staged = block_m * block_n * _HALF
            depths = {_depth(first, target, staged), _depth(first, target, 0)}
            if block_m <= _LOW:
                depths.add(min(_STREAMED, *depths))
            for stages in sorted(depths):
                if stages < 2:
                    continue
                deep = replace(first, num_stages=stages)
                yield deep
                for split in _SPLITS:
                    yield replace(deep, split=split)
                yield replace(deep, persistent=True)
                yield replace(deep, persistent=True, cluster=2)
                yield replace(deep, persistent=True, cluster=2, along="N")


def _ampere(target: Target) -> Iterator[Schedule]:
    tiles = (
        (128, 256, 256), (256, 128, 256), (128, 128, 128), (128, 128, 256), (128, 64, 128), (64, 128, 128),
        (64, 256, 128), (64, 64, 128),
    )  # fmt: skip
    for block_m, block_n, threads in tiles:
        for block_k in (32, 64):
            first = Schedule(block_m, block_n, block_k, 2, threads)
            deepest = _depth(first, target, 0)
            for stages in range(2, min(deepest, 5) + 1):
                yield replace(first, num_stages=stages)


def _depth(schedule: Schedule, target: Target, staged: int) -> int:
    """Stages that fit beside a staged output of so many bytes."""
    free = target.limits.shared_bytes_per_block - _BARRIERS - staged
    return max(0, min(free // schedule.stage_bytes, _MOST_STAGES))


def predicted_cycles(problem: Problem, schedule: Schedule, target: Target) -> float:
    """How long the model thinks a launch takes.

    Blocks come in waves, each block's steps run at the pace of the slowest of tensor cores, shared memory and loads;
    what memory must deliver in all bounds the launch from below. A part-filled last wave costs half of what it wastes,
    for the card's power goes to the others.
    """
    device = target.device
    resident = _resident(schedule, target)
    tiles_m, tiles_n = -(-problem.M // schedule.block_M), -(-problem.N // schedule.block_N)
    line = tiles_m if schedule.along == "M" else tiles_n
    tiles = -(-line // schedule.cluster) * schedule.cluster * (tiles_m * tiles_n // line) * schedule.split
    slots = device.multiprocessors // schedule.cluster * schedule.cluster * resident
    waves = (tiles / slots + -(-tiles // slots)) / 2 if tiles > slots else 1.0
    step, rate = _step(problem, schedule, target, resident, min(tiles, device.multiprocessors))
    ending = _EPILOGUE if _staged(schedule, target) or not target.has("tma") else _UNSTAGED
    beside = _EPILOGUE / 2 if schedule.persistent else _START  # what the next tile's loads do not hide
    steps = -(-problem.K // (schedule.block_K * schedule.split)) * (schedule.block_K / _STEP)
    compute = waves * (steps * step + (ending + beside) / resident) + _START
    again_a, again_b = (min(1 + _AGAIN * (other - 1), _AGAIN_MOST) for other in (tiles_n, tiles_m))
    moved = (problem.K * (problem.N * again_b + problem.M * again_a) + problem.M * problem.N) * _HALF
    dram = device.dram_bytes_per_second / device.clock_hertz
    uneven = min(waves * slots / tiles, _UNEVEN_MOST) if tiles > slots else 1.0
    under_way = (
        schedule.num_stages * schedule.stage_bytes * min(resident, -(-tiles // device.multiprocessors))
    )
    crowded = 1 + _CROWDED * max(0.0, under_way / _BUSY - 1)
    memory = moved / min(dram, min(tiles, slots) * rate) * uneven * crowded
    total = max(compute, memory + ending + _START) + 0.05 * compute
    return total * (_CLUSTER if schedule.cluster > 1 else 1.0) + _summing(schedule)


def _summing(schedule: Schedule) -> float:
    """Cycles that the last block of those that share a tile's k takes for the sums."""
    if schedule.split == 1:
        return 0.0
    part = schedule.block_M * schedule.block_N * 4
    return _SUM + part / _LEFT_PER_CYCLE + schedule.split * part / _TAKEN_PER_CYCLE


def _step(
    problem: Problem, schedule: Schedule, target: Target, resident: int, active: int
) -> tuple[float, float]:
    """Cycles that a multiprocessor takes for 64 columns of K of each resident block, a block's share, where so many
    are active; and the bytes a cycle that a block loads. Loads that hide behind products still cost a part of their
    time."""
    limits, device = target.limits, target.device
    flops = device.matrix_flops_per_second("float16") / device.multiprocessors / device.clock_hertz
    products = 2 * schedule.block_M * schedule.block_N * _STEP / flops
    if _is_exchanged(schedule, target):
        products *= _EXCHANGED_COST
    in_flight = (schedule.num_stages - 1.5) * schedule.stage_bytes
    rate = min(_L2_BYTES_PER_CYCLE / resident, in_flight / _LATENCY)
    loads = _loaded_rows(problem, schedule, active / device.multiprocessors) * _STEP * _HALF / rate
    reads = _shared_rows(schedule, target) * _STEP * _HALF / (limits.banks * limits.bank_bytes)
    waits = _SHALLOW / schedule.num_stages * products * resident
    beside = [products * resident, loads]
    if not target.has("tma"):
        waits += _BARRIER * _STEP / schedule.block_K / resident  # another block computes meanwhile
        beside.append(reads * resident)
    slowest = max(*beside, reads * resident)
    busy = slowest + _HIDDEN * (sum(beside) - max(beside)) + waits
    # Where all wait for memory, a stage is not under way only while it is multiplied.
    landing = (
        schedule.stage_bytes * device.multiprocessors * device.clock_hertz / device.dram_bytes_per_second
    )
    multiplied = min(1.0, products * schedule.block_K / _STEP / landing)
    streaming = (schedule.num_stages - 0.5 - multiplied) * schedule.stage_bytes / _LATENCY
    return busy, min(_L2_BYTES_PER_CYCLE / resident, streaming)


def _loaded_rows(problem: Problem, schedule: Schedule, active: float) -> float:
    """Rows of both tiles that a step's loads cost: those that L2 gives, or those that arrive, whichever are more. L2
    answers all multiprocessors, of which a part are active; what a cluster shares, each of its blocks receives."""
    pitches = [row * _HALF for row in problem.rows]
    a, b = (_given(pitch, schedule.cluster > 1) for pitch in pitches)
    given_a = a * schedule.block_M * (_pieces(schedule.block_M) if problem.transpose_A else 1.0)
    given_b = b * schedule.block_N * (1.0 if problem.transpose_B else _pieces(schedule.block_N))
    if schedule.along == "M":
        given_b /= schedule.cluster
    else:
        given_a /= schedule.cluster
    given = (given_a + given_b) * (active if a > 1 or b > 1 else 1.0)
    arriving = sum(
        rows * (_SPLIT_ARRIVING if pitch % _SECTOR else 1.0)
        for rows, pitch in zip((schedule.block_M, schedule.block_N), pitches, strict=True)
    )
    zeros = max(0, schedule.block_M - problem.M)  # rows that TMA fills take twice as long: measured
    return max(given, arriving + zeros)


def _pieces(columns: int) -> float:
    """What it costs L2 that a box of TMA brings less than a line of each row of a tile."""
    return 1.0 if columns % _STEP == 0 else _HALVES if columns % (_STEP // 2) == 0 else _QUARTERS


def _given(pitch: int, clustered: bool) -> float:
    """What a tile's row costs L2, where a tensor's rows are so many bytes apart."""
    if pitch % _LINE == 0:
        return 1.0
    if pitch % _SECTOR == 0:
        return _SPLIT_LINE_CLUSTER if clustered else _SPLIT_LINE
    return _SPLIT_SECTOR


def _shared_rows(schedule: Schedule, target: Target) -> int:
    """Rows of both tiles that pass through shared memory's port in a step: those that tensor cores or ldmatrix read, a
    row as often as warps need it, and where threads store them, those that cp.async writes."""
    m, n = schedule.block_M, schedule.block_N
    if _is_exchanged(schedule, target):
        return n + n // _STEP * m
    if target.has("wgmma"):
        return m + max(1, schedule.threads // 128) * n
    warps = schedule.threads // target.limits.warp_size
    along_m = [w for w in range(1, warps + 1) if warps % w == 0 and m % (16 * w) == 0]
    return min(m * (warps // w) + n * w for w in along_m) + m + n


def _is_exchanged(schedule: Schedule, target: Target) -> bool:
    """Whether wgmma computes the transposed tile."""
    return target.has("wgmma") and schedule.block_M > _STEP and schedule.block_M % _STEP != 0


def _staged(schedule: Schedule, target: Target) -> bool:
    """Whether the output leaves through a tile in shared memory."""
    output = schedule.block_M * schedule.block_N * _HALF
    return _depth(schedule, target, output) >= schedule.num_stages


def _resident(schedule: Schedule, target: Target) -> int:
    """Blocks that a multiprocessor holds, at most two."""
    limits = target.limits
    shared = schedule.num_stages * schedule.stage_bytes + _BARRIERS + limits.reserved_shared_bytes
    threads = schedule.threads + (limits.warps_per_warpgroup * limits.warp_size if target.has("tma") else 0)
    registers = (schedule.accumulators + 48) * threads
    fits_shared = 2 * shared <= limits.shared_bytes_per_multiprocessor
    return 2 if fits_shared and 2 * registers <= limits.registers_per_multiprocessor else 1
