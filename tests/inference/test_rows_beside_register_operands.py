"""Gemms that share rows with an A operand in registers keep whole rows in a wave: attention needs no exchange."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilegen.language as T
from tilegen.cli.loading import load_kernel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "attention.py"


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("threads", [128, 256])
def test_attention_takes_no_shared_memory_for_exchanges(target: str, threads: int) -> None:
    heads = T.Tensor((1, 70, 2, 128), T.float16)
    keys = T.Tensor((1, 90, 1, 128), T.float16)
    emission = load_kernel(str(EXAMPLE)).emit(
        heads, keys, keys, target=target, block_M=64, block_N=64, num_stages=1, threads=threads
    )
    assert emission.manifest.shared_bytes == 3 * 64 * 128 * 2, (
        "Q, K, V; the strips that stage O lie over K and V"
    )
