"""Timing, under the name that TileLang's programs import it from."""

from tilegen.runtime.profiler import Profiler, TensorSupplyType, do_bench

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]
