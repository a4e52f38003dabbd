"""FlashAttention forward beside cuDNN and FlashAttention-2 (both through torch):  python -m benchmarks.attention

The kernel is examples/attention.py: `kernel(Q, K, V, causal=…)` on tensors [batch, sequence, heads, head dimension],
which returns the output, or the output and the log-sum-exp. Its `schedules`, if it lists any, are searched.

The bars are about launches that alternate, as the peers' numbers were taken: at the power limit a card that has settled
on one competitor runs each at clocks of its own (README.md).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks import own
from benchmarks.compiling import Variant
from benchmarks.contest import OWN, Candidates, Contest, Options, hold
from benchmarks.correctness import Block, Output, Tolerance, judge
from benchmarks.isolation import Progress
from benchmarks.measure import CudaTimer, Run
from benchmarks.program import benchmark_main

BASELINE = "cuDNN"
_ROWS = 512  # queries of a head that the reference computes at a time
_HEADS = 6  # heads that are compared where all would take too long
# P is rounded to 16 bits before it meets V, so that elements are off by more than the output's own rounding.
_TOLERANCES = {
    "float16": Tolerance(norm=1e-3, relative=2.0**-9, absolute=4e-3),
    "bfloat16": Tolerance(norm=8e-3, relative=2.0**-6, absolute=3e-2),
}


@dataclass(frozen=True, slots=True)
class AttentionCase:
    batch: int
    heads: int
    key_heads: int
    length: int
    dimension: int
    causal: bool
    bar: float
    dtype: str = "float16"

    @property
    def name(self) -> str:
        heads = f"H{self.heads}" if self.heads == self.key_heads else f"H{self.heads}/{self.key_heads}"
        mask = "causal" if self.causal else "full"
        return f"B{self.batch} {heads} S{self.length} D{self.dimension} {mask}"

    @property
    def flops(self) -> int:
        whole = 4 * self.batch * self.heads * self.length**2 * self.dimension
        return whole // 2 if self.causal else whole


CASES = (
    AttentionCase(4, 32, 32, 4096, 128, False, 1.08),
    AttentionCase(4, 32, 32, 4096, 128, True, 1.17),
    AttentionCase(1, 32, 32, 16384, 128, True, 1.24),
    AttentionCase(8, 32, 32, 2048, 64, True, 1.07),
    AttentionCase(4, 32, 8, 4096, 128, True, 1.18),
)

# What the search tries beside the example's own schedule; words that the kernel does not know are left out.
SCHEDULES = tuple(
    {
        "block_M": block_m,
        "block_N": block_n,
        "threads": 2 * block_m,
        "hold_Q": held,
        "persistent": persistent,
    }
    for block_m, block_n, held, persistent in (
        (128, 128, True, True),
        (128, 128, False, True),
        (128, 128, False, False),
        (128, 160, False, True),
        (128, 176, False, True),
        (192, 128, False, True),
    )
)


def run_case(progress: Progress, case: AttentionCase, options: Options) -> dict[str, Any]:
    """Measures one case on the GPU; returns its entry for the results file."""
    import torch

    progress("inputs")
    generator = torch.Generator("cuda").manual_seed(0)
    dtype = getattr(torch, case.dtype)

    def tensor(heads: int) -> Any:
        shape = (case.batch, case.length, heads, case.dimension)
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype)

    q, k, v = tensor(case.heads), tensor(case.key_heads), tensor(case.key_heads)
    output = Output(q.shape, dtype, "cuda")
    blocks = reference(q, k, v, case.causal)
    competitors = {
        BASELINE: _sdpa("CUDNN_ATTENTION", q, k, v, case),
        "FlashAttention-2": _sdpa("FLASH_ATTENTION", q, k, v, case),
        OWN: own.candidates(
            "attention", (q, k, v), output, {"causal": case.causal}, options.backend, SCHEDULES
        ),
    }
    contest = Contest(
        case=case.name,
        bar=case.bar,
        baseline=BASELINE,
        competitors={name: found for name, found in competitors.items() if found},
        check=lambda name, run: judge(run, output, blocks, _TOLERANCES[case.dtype]),
        work=case.flops,
        unit="teraflops",
        judged="alternating",
    )
    return hold(contest, options, CudaTimer(), progress)


def reference(q: Any, k: Any, v: Any, causal: bool, seed: int = 0) -> list[Block]:
    """Attention in float64 of some heads, all queries of short sequences, else blocks from both ends and between."""
    import torch

    batch, length, heads, dimension = q.shape
    keys, groups = k.shape[1], heads // k.shape[2]
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(batch * heads, generator=generator)[:_HEADS].tolist()
    starts = list(range(0, length, _ROWS))
    if length > 4 * _ROWS:
        starts = sorted({0, _ROWS, length // 2 // _ROWS * _ROWS, (length - 1) // _ROWS * _ROWS})
    blocks = []
    for b, h in ((index // heads, index % heads) for index in chosen):
        left, right = k[b, :, h // groups].double(), v[b, :, h // groups].double()
        for start in starts:
            rows = slice(start, min(start + _ROWS, length))
            scores = q[b, rows, h].double() @ left.T / math.sqrt(dimension)
            if causal:
                queries = torch.arange(rows.start, rows.stop, device=q.device)
                hidden = torch.arange(keys, device=q.device)[None, :] > queries[:, None]
                scores.masked_fill_(hidden, -math.inf)
            blocks.append(Block((b, rows, h), torch.softmax(scores, -1) @ right))
    return blocks


def _sdpa(backend: str, q: Any, k: Any, v: Any, case: AttentionCase) -> Candidates:
    """torch's SDPA on one backend; for grouped heads also on keys and values that were repeated beforehand."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = getattr(SDPBackend, backend)
    grouped = case.heads != case.key_heads
    call: Any = torch.nn.functional.scaled_dot_product_attention

    def making(keys: Any, values: Any, group: bool) -> Run:
        heads_first = tuple(tensor.transpose(1, 2) for tensor in (q, keys, values))
        options = {"is_causal": case.causal} | ({"enable_gqa": True} if group else {})

        def run() -> Any:
            with sdpa_kernel(chosen):
                return call(*heads_first, **options).transpose(1, 2)

        run()
        return run

    found: dict[str, Any] = {"as given": lambda: making(k, v, grouped)}
    if grouped:
        times = case.heads // case.key_heads
        found["repeated"] = lambda: making(
            k.repeat_interleave(times, 2), v.repeat_interleave(times, 2), False
        )
    return found


def kernel_variants() -> list[Variant]:
    """The kernels that the cases ask for, to be compiled ahead; none where the example is missing."""
    import tilegen.language as T

    try:
        module = own.example("attention")
    except own.ExampleMissing:
        return []
    found: dict[Variant, None] = {}
    for case in CASES:
        queries = (case.batch, case.length, case.heads, case.dimension)
        keys = (case.batch, case.length, case.key_heads, case.dimension)
        specs = tuple(T.Tensor(shape, case.dtype) for shape in (queries, keys, keys))
        kernel = own.kernel_of("attention")
        for schedule in own.variants(module, kernel, SCHEDULES):
            typed = own.element_type(kernel, case.dtype)
            parameters = (("causal", case.causal), *typed.items(), *schedule.items())
            found[Variant(str(own.EXAMPLES / "attention.py"), specs, "sm_90a", parameters)] = None
    return list(found)


def main() -> int:
    return benchmark_main("attention", CASES, run_case, __doc__)


if __name__ == "__main__":
    sys.exit(main())
