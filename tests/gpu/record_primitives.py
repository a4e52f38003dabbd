"""Runs every probe on the GPU and keeps the results, against which the emulator is tested without a GPU.

    python tests/gpu/record_primitives.py [--out FOLDER]

writes FOLDER/primitives.npz (tests/gpu/data by default). Each probe runs in a process of its own.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parent.parent), str(_HERE)]

import numpy as np  # noqa: E402
from probes import all_probes, on_device  # noqa: E402

from benchmarks.isolation import Limits, Progress, run_isolated  # noqa: E402
from tilegen.runtime.disk_cache import write_atomically  # noqa: E402

_LIMITS = Limits(total=60.0, silence=60.0)


def run_probe(progress: Progress, name: str) -> tuple[np.ndarray[Any, Any], bool]:
    """The probe's result on the GPU, and whether NumPy agrees."""
    probe = all_probes()[name]()
    result = on_device(probe)
    written = (
        ~np.isnan(probe.expected) if probe.expected.dtype.kind == "f" else np.ones(probe.expected.shape, bool)
    )
    return np.where(written, result, probe.expected), bool(
        np.array_equal(result[written], probe.expected[written])
    )


def compact(result: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers as int16, which compress well; NaN, which nothing wrote, as the least of them."""
    if result.dtype.name == "bfloat16":
        result = result.astype(np.float32)
    if result.dtype.kind != "f":
        return result
    whole = np.where(np.isnan(result), -32768, result)
    narrow = whole.astype(np.int16)
    return narrow if np.array_equal(narrow, whole) else result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=_HERE / "data")
    arguments = parser.parse_args()
    record: dict[str, Any] = {}
    wrong = 0
    for name in all_probes():
        outcome = run_isolated(run_probe, (name,), _LIMITS)
        if outcome.status != "done":
            print(f"{name}: {outcome.status}: {outcome.message[-600:]}", flush=True)
            wrong += 1
            continue
        result, agrees = outcome.value
        record[name] = compact(result)
        wrong += not agrees
        print(
            f"{name}: {'as NumPy says' if agrees else 'DIFFERS from NumPy'}, {outcome.seconds:.1f} s",
            flush=True,
        )
    if record:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **record)
        write_atomically(arguments.out / "primitives.npz", buffer.getvalue())
    print(f"{len(record)} probes recorded in {arguments.out}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
