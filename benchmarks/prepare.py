"""Compiles the benchmarks' kernels ahead of time, in parallel, into tilegen's disk cache.

    python -m benchmarks.prepare --out DIR

makes a folder that a machine with a GPU uses as TILEGEN_CACHE_DIR (`python -m benchmarks --cache DIR`). With nvcc, the
default here, the names in the cache depend on the emitted text, the target, the options and tilegen's version, not on
the machine; with NVRTC they also depend on the version of its wheel. `prepared.json` says which compiler it was, so
that the benchmarks ask for the same one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.attention import kernel_variants
from benchmarks.cases import acceptance_cases
from benchmarks.compiling import compile_all, gemm_variants, summary, write_note
from benchmarks.isolation import Deadline


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prepare", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to use as TILEGEN_CACHE_DIR")
    parser.add_argument("--backend", default="nvcc", choices=("nvcc", "nvrtc"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--search", type=int, default=16, help="schedules a case")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds")
    parser.add_argument("--limit-mib", type=float, default=60.0, help="warn when the folder is larger")
    options = parser.parse_args(arguments)
    os.environ["TILEGEN_CACHE_DIR"] = str(options.out.resolve())
    write_note(options.out, options.backend)
    variants = gemm_variants(acceptance_cases(), options.search) + kernel_variants()
    results, left = compile_all(variants, options.backend, options.jobs, Deadline(options.budget))
    print(summary(results, left))
    size = folder_bytes(options.out) / (1 << 20)
    print(f"{options.out} holds {size:.1f} MiB" + (" (too large)" if size > options.limit_mib else ""))
    return 1 if left or size > options.limit_mib else 0


if __name__ == "__main__":
    sys.exit(main())
