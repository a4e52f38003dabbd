"""Every example on the GPU, with the files of every NVIDIA target, against its own reference."""

from __future__ import annotations

from pathlib import Path

import gpu_work
import pytest

EXAMPLES = sorted(Path(__file__).resolve().parents[2].joinpath("examples").glob("*.py"))
TARGETS = [None, "sm_80", "sm_89"]


def names(path):
    return path.stem if isinstance(path, Path) else str(path)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target or "auto")
@pytest.mark.parametrize("path", EXAMPLES, ids=names)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_ragged_example_is_right(on_gpu, path, target, seed):
    on_gpu(gpu_work.example, str(path), target, seed, True)


@pytest.mark.parametrize("path", EXAMPLES, ids=names)
def test_the_full_example_is_right(on_gpu, path):
    on_gpu(gpu_work.example, str(path), None, 2, False)


# batch, heads, key heads, queries, keys, head dimension
SAME_LENGTHS = [
    (1, 2, 2, 128, 128, 128), (2, 4, 2, 1000, 1000, 128), (1, 4, 1, 2048, 2048, 128), (1, 1, 1, 77, 77, 128),
    (3, 6, 2, 129, 129, 128), (1, 2, 1, 1, 1, 128), (1, 4, 4, 300, 300, 64), (1, 4, 4, 300, 300, 96),
    (1, 2, 2, 257, 257, 192), (1, 2, 2, 257, 257, 256),
]  # fmt: skip
OTHER_LENGTHS = [
    (1, 2, 1, 77, 1000, 128),
    (2, 4, 2, 129, 1000, 128),
    (1, 2, 2, 1, 640, 128),
    (1, 2, 2, 256, 384, 64),
]


@pytest.mark.skipif("attention" not in map(names, EXAMPLES), reason="there is no examples/attention.py")
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("cases", [SAME_LENGTHS, OTHER_LENGTHS], ids=["same lengths", "other lengths"])
def test_attention_of_ragged_lengths(on_gpu, cases, causal, target):
    on_gpu(gpu_work.attention_shapes, cases, causal, target)
