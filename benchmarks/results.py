"""What a benchmark leaves: a JSON file with the circumstances, and a compact table."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tilegen
from benchmarks.isolation import Limits, run_isolated
from tilegen.errors import TilegenError
from tilegen.runtime.disk_cache import write_atomically

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "torch",
    "triton",
    "tilelang",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "numpy",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
)


class NoDevice(TilegenError):
    """There is no GPU that torch can use."""


def require_device(limits: Limits) -> dict[str, Any]:
    """The circumstances, asked for in a child.

    Raises:
        NoDevice: when there is no usable GPU.
    """
    outcome = run_isolated(circumstances, (), limits)
    if outcome.status != "done":
        raise NoDevice(f"the GPU cannot be used: {outcome.message}")
    facts: dict[str, Any] = outcome.value
    if facts["device"] == "none":
        raise NoDevice("torch finds no GPU here\n  remedy: run the benchmarks on a machine with one")
    return facts


def circumstances(progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """The device, the driver and everybody's versions. Touches the GPU: call it in a child."""
    import torch

    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tilegen": tilegen.__version__,
        "packages": _versions(),
        "cuda": torch.version.cuda,
        "device": "none",
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "device": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
            "driver": _driver(),
        }
    return facts


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (said.stdout.splitlines() or ["unknown"])[0].strip()


class Report:
    """A benchmark's results, written to its JSON file after every case, so that a run that is cut off leaves them."""

    def __init__(
        self, benchmark: str, folder: Path, facts: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        device = "".join(c if c.isalnum() else "_" for c in str(facts.get("device", "none")).lower())
        self.path = folder / f"{benchmark}-{device}-{facts.get('date', 'undated')}.json"
        self._document: dict[str, Any] = {
            "benchmark": benchmark,
            "circumstances": dict(facts),
            "options": dict(options),
            "cases": [],
        }
        self.write()

    @property
    def cases(self) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = self._document["cases"]
        return cases

    def add(self, case: Mapping[str, Any]) -> None:
        self.cases.append(dict(case))
        self.write()

    def note(self, key: str, value: Any) -> None:
        """Adds an entry beside the cases."""
        self._document[key] = value
        self.write()

    def write(self) -> None:
        write_atomically(self.path, (json.dumps(self._document, indent=1) + "\n").encode())


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first is left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    lines = []
    for row in [headings, *rows]:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def ratio_cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
