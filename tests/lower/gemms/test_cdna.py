"""Emitted CDNA files under the real compiler: no spill, wide accesses in the main loop, text that says what it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.driver import generate
from tilegen.frontend import parse
from tilegen.target import load_target
from tilegen.toolchain import build_hip, compile_hip

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "matmul.py"
BLOCKS = [
    (128, 128, 32, 128),
    (128, 128, 32, 256),
    (256, 128, 64, 256),
    (256, 256, 64, 512),
    (256, 256, 64, 256),
    (64, 64, 32, 128),
    (128, 256, 64, 128),
    (256, 128, 64, 128),
]


def emitted(target: str, blocks: tuple[int, int, int, int], size: int | str = 4096) -> Any:
    block_m, block_n, block_k, threads = blocks
    m, n, k = (size, size, size) if isinstance(size, int) else ("M", "N", "K")
    return load_kernel(str(EXAMPLE)).emit(
        T.Tensor((m, k), T.float16),
        T.Tensor((k, n), T.float16),
        target=target,
        block_M=block_m,
        block_N=block_n,
        block_K=block_k,
        threads=threads,
    )


def main_loop(assembly: str) -> str:
    """The innermost loop that holds matrix instructions, of clang's listing."""
    blocks = re.split(r"(?m)^(\.LBB\d+_\d+):", assembly)
    for label, body in zip(blocks[1::2], blocks[2::2], strict=True):
        if re.search(rf"s_cbranch_\w+ {re.escape(label)}\b", body) and "v_mfma" in body:
            return body
    raise AssertionError("no loop with matrix instructions")


@pytest.mark.parametrize("size", [4096, "open"])
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_the_compiler_spills_nothing(
    require_tool: Callable[[str], None], target: str, blocks: tuple[int, int, int, int], size: int | str
) -> None:
    require_tool("hip_gfx950" if target == "gfx950" else "hip")
    result = compile_hip(emitted(target, blocks, size).source, load_target(target))
    assert result.spills == 0
    assert result.kernels[0].stack_bytes == 0
    loop = main_loop(result.assembly)
    assert "ds_read_b128" in loop or "ds_read2_b64" not in loop
    narrow = re.findall(
        r"\b(?:ds_read_(?!b128)\w+|buffer_load_(?!dwordx4)\w+|global_load_\w+|flat_\w+|scratch_\w+)", loop
    )
    assert narrow == []
    assert "s_waitcnt vmcnt(0)" not in loop.split("s_barrier")[0].rsplit("v_mfma", 1)[-1]


def test_operands_run_ahead_only_where_registers_hold_them() -> None:
    """Half of the registers are accumulators: two sets of operands beside a transposed tile would spill."""
    tight = emitted("gfx942", (128, 256, 64, 128)).source
    assert "operands are read where they are multiplied: a step ahead, a thread needs about" in tight
    assert "read_operands" not in tight
    assert "read_operands" in emitted("gfx942", (128, 256, 32, 128)).source


def test_only_accumulators_that_outlive_their_loop_are_held_behind_it() -> None:
    tensor = T.Tensor((1, 1024, 2, 128), T.float16)
    attention = load_kernel(f"{EXAMPLE.parent / 'attention.py'}:attention")
    text = attention.emit(tensor, tensor, tensor, target="gfx942").source
    assert text.count("hold_accumulators(O_local[") == 1 and "hold_accumulators(S[" not in text


def test_exponentials_are_one_instruction_each(require_tool: Callable[[str], None]) -> None:
    """The library's exp2f compares, selects and adds around each, for results below the normal numbers."""
    require_tool("hip")
    tensor = T.Tensor((1, 1024, 2, 128), T.float16)
    attention = load_kernel(f"{EXAMPLE.parent / 'attention.py'}:attention").emit(
        tensor, tensor, tensor, target="gfx942"
    )
    assembly = compile_hip(attention.source, load_target("gfx942")).assembly
    exponentials = len(re.findall(r"\bv_exp_f32", assembly))
    assert exponentials >= 32
    assert len(re.findall(r"\bv_cndmask_b32", assembly)) < exponentials / 2


def test_the_launcher_requires_that_windows_reach_their_rows() -> None:
    """Offsets of 2 GiB and more mean "outside" to a buffer window."""
    requirements = {r.text: r.condition for r in emitted("gfx942", BLOCKS[0], "open").manifest.requirements}
    assert requirements["128 rows of A span less than 2 GiB"] == f"K <= {(2**31 - 1) // (128 * 2)}"
    assert requirements["32 rows of B span less than 2 GiB"] == f"N <= {(2**31 - 1) // (32 * 2)}"


def test_a_window_of_one_row_is_one_row() -> None:
    def scaled(X, S):  # type: ignore[no-untyped-def]
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float16)
        S: T.Tensor((M, N), T.float16)
        Y = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, 64), M, threads=64) as (bx, by):
            s = T.alloc_shared((1, 64), T.float16)
            T.copy(S[by, bx * 64], s)
            for j in T.Parallel(64):
                Y[by, bx * 64 + j] = X[by, bx * 64 + j] * s[0, 63 - j]
        return Y

    tensor = T.Tensor(("M", "N"), T.float16)
    files = generate(parse(scaled, {"X": tensor, "S": tensor}, {}), "gfx942")
    assert "Requires a row of S spans less than 2 GiB." in files.source


def test_the_host_pass_compiles(require_tool: Callable[[str], None]) -> None:
    require_tool("hip")
    build_hip(emitted("gfx942", BLOCKS[2], "open").source, load_target("gfx942"))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_text_is_short_and_says_what_it_does(target: str) -> None:
    source = emitted(target, BLOCKS[2], "open").source
    lines = source.splitlines()
    assert len(lines) <= 420
    assert max(map(len, lines)) <= 120
    for statement in ("T.copy(A[", "T.copy(B[", "T.gemm(", "T.clear(", "T.copy(C_local"):
        assert sum(statement in line for line in lines) == 1
    table = [line for line in lines if re.match(r"// [ABC]_(shared|staging) ", line)]
    assert len(table) == 3
    assert all(line.rstrip().endswith(" 0") for line in table if "Sw<" in line and "o (" in line)
    assert "tile k + 2 global -> registers" in source


@pytest.mark.parametrize(("depth", "wide"), [(65504, True), (64512, False)])
def test_an_offset_of_a_tile_past_the_end_is_no_overflow(depth: int, wide: bool) -> None:
    """The last iterations load two tiles further: B has less than 2^31 elements, and these begin behind it."""
    kernel = load_kernel(str(EXAMPLE))
    a, b = T.Tensor((128, depth), T.float16), T.Tensor((depth, 32768), T.float16)
    text = kernel.emit(a, b, target="gfx942").source
    assert ("&B[i64(k * kBlockK) * kN + bx * kBlockN]" in text) == wide
    assert "&A[by * kBlockM * kK + k * kBlockK]" in text


def test_a_pipeline_says_what_its_hints_spread_and_where_its_loads_end() -> None:
    text = emitted("gfx942", (128, 128, 32, 128)).source
    assert (
        "// Prologue: the first tile to LDS, the second to registers. Loads run on past the last tile:"
        in text
    )
    assert "schedule<12, 1, 1, 1, 1>();  // 6 LDS reads, 12 LDS writes and 8 loads among 16 MFMAs" in text
    direct = emitted("gfx950", (128, 128, 32, 128)).source
    assert "tile k + 1 global -> LDS (A_shared), tile k + 2 global -> registers (B_shared)," in direct
    attention = load_kernel(str(EXAMPLE.with_name("attention.py")))
    text = attention.emit(target="gfx942", dims={"D": 128}).source
    moved = text[text.index("// every wave has read tile j") :]
    assert re.match(r".*\n\n +// Tile j \+ 1 to LDS, tile j \+ 2 to registers\n +store_K", moved)


@pytest.mark.parametrize("num_stages", [0, 1])
def test_without_a_pipeline_the_output_is_staged_over_the_operands_too(
    require_tool: Callable[[str], None], num_stages: int
) -> None:
    require_tool("host_compiler")
    emission = load_kernel(str(EXAMPLE)).emit(
        T.Tensor((256, 128), T.float16),
        T.Tensor((128, 128), T.float16),
        target="gfx942",
        block_M=256,
        block_N=128,
        block_K=64,
        threads=256,
        num_stages=num_stages,
    )
    assert emission.manifest.shared_bytes == 256 * 64 * 2 + 64 * 128 * 2
    assert "lies over A_shared and B_shared" in emission.source
    rng = np.random.default_rng(num_stages)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((256, 128), (128, 128)))
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    found = emission.emulate(a, b, schedule="random", asynchronous="lazy", seed=num_stages)
    assert np.linalg.norm(found - expected) <= 1e-3 * np.linalg.norm(expected)
