"""`@tilegen.autotune`: times a program's configurations on the GPU and keeps the fastest."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.building import CallError, hashable, parameter_names
from tilegen.calls.arrays import is_array
from tilegen.errors import DeviceError, TilegenError
from tilegen.foreign import refuse_foreign
from tilegen.jit_kernel import JitKernel
from tilegen.program import CompiledProgram
from tilegen.runtime.profiler import TensorSupplyType

__all__ = ["TunedKernel", "autotune"]

Configs = Sequence[Mapping[str, Any]] | Callable[..., Sequence[Mapping[str, Any]]]
# How TileLang makes and compares its runs; what is timed does not depend on it.
_FOREIGN_OPTIONS = ("timeout", "cache_input_tensors", "skip_check", "max_mismatched_ratio")


@dataclass(frozen=True, slots=True)
class _Measuring:
    """How a configuration is timed: milliseconds before and while, what the random arrays hold, and a program that its
    results are compared with, within (relative, absolute) tolerances."""

    warmup: float
    rep: float
    supply_type: TensorSupplyType
    reference: Callable[..., Any] | None
    tolerances: tuple[float, float]


class TunedKernel:
    """A tile program with the configurations to choose from: a dictionary of parameters each.

    A call times all of them on random arrays of its shapes, once for each set of shapes and arguments, and uses the
    fastest. A call that gives one of the tuned parameters itself times nothing. `config` and `latency` (milliseconds)
    are those of the last choice.
    """

    def __init__(self, kernel: JitKernel, configs: Configs, measuring: _Measuring) -> None:
        self._kernel = kernel
        self._configs = configs
        self._measuring = measuring
        self._chosen: dict[Any, tuple[dict[str, Any], float]] = {}
        self.config: dict[str, Any] | None = None
        self.latency: float | None = None
        self.__name__ = kernel.__name__
        self.__doc__ = kernel.__doc__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(
            self._kernel, name
        )  # emit, compile, for_target and the like take a configuration as always

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the program (or gives a factory's program) in its fastest configuration.

        Raises:
            TilegenError: no configuration can be made or timed.
        """
        configs = self._configurations(arguments, keywords)
        named = {*keywords, *parameter_names(self._kernel.__wrapped__)[: len(arguments)]}
        if any(name in named for config in configs for name in config):
            return self._kernel(*arguments, **keywords)
        key = (tuple(map(_described, arguments)), hashable({k: _described(v) for k, v in keywords.items()}))
        if key not in self._chosen:
            self._chosen[key] = self._fastest(configs, arguments, keywords)
        self.config, self.latency = self._chosen[key]
        return self._kernel(*arguments, **keywords, **self.config)

    def _configurations(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        configs = self._configs
        if callable(configs):
            takes = inspect.signature(configs).parameters
            named = {name: value for name, value in keywords.items() if name in takes}
            configs = configs(*arguments, **named) if takes else configs()
        if not configs:
            raise CallError(
                f"{self.__name__} has no configuration to tune\n  remedy: configs=[dict(block_M=64), …]"
            )
        names = parameter_names(self._kernel.__wrapped__)
        for name in (name for config in configs for name in config):
            if name not in names:
                raise CallError(
                    f"{self.__name__} has no parameter '{name}', which configs give; it has {', '.join(names)}"
                )
        return configs

    def _fastest(
        self, configs: Sequence[Mapping[str, Any]], arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], float]:
        timed: list[tuple[dict[str, Any], float]] = []
        refused: list[tuple[Mapping[str, Any], TilegenError]] = []
        given = {name: value for name, value in keywords.items() if name != "out"}
        for config in configs:
            try:
                timed.append((dict(config), self._time(self._kernel.compile(*arguments, **given, **config))))
            except DeviceError as error:
                raise DeviceError(
                    f"{self.__name__} cannot be tuned: {error}\n  remedy: give its parameters, such as "
                    f"{', '.join(f'{name}={value!r}' for name, value in config.items())}"
                ) from error
            except TilegenError as error:
                refused.append((config, error))
        if not timed:
            raise TilegenError(f"no configuration of {self.__name__} runs; the first: {refused[0][1]}")
        for config, reasons in refused:
            reason = str(reasons).splitlines()[0]
            warnings.warn(f"{self.__name__} is not timed with {dict(config)}: {reason}", stacklevel=3)
        return min(timed, key=lambda choice: choice[1])

    def _time(self, program: CompiledProgram) -> float:
        how = self._measuring
        profiler = program.get_profiler(how.supply_type)
        if how.reference is not None:
            profiler.assert_allclose(how.reference, *how.tolerances)
        time: float = profiler.do_bench(warmup=how.warmup, rep=how.rep)
        return time


def _described(value: Any) -> Any:
    """An argument as what it is kept by: an array by its kind, not its memory."""
    return (str(value.dtype), tuple(value.shape)) if is_array(value) else value


def autotune(
    configs: Configs | None = None,
    warmup: float = 25.0,
    rep: float = 100.0,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    **options: Any,
) -> Callable[[JitKernel], TunedKernel]:
    """Decorates a `@tilegen.jit` function: its calls use the fastest of these configurations. Needs a GPU.

    Args:
        configs: dictionaries of parameters, or a function of the call's arguments (or of none) that gives them.
        warmup, rep: milliseconds to spend before and while measuring each one.
        supply_type: what the random arrays hold.
        ref_prog: each configuration is compared with it on these arrays, within `rtol` and `atol`.
        options: TileLang's own (`timeout`, …) are accepted with a warning.

    Raises:
        CallError: no configurations, an unknown option, or a function that is not a `@tilegen.jit` one.
    """
    for name in options:
        if name not in _FOREIGN_OPTIONS:
            raise CallError(f"tilegen.autotune has no option '{name}'\n  remedy: delete it")
        warnings.warn(f"tilegen has no '{name}': the option changes nothing", stacklevel=2)
    if configs is None or isinstance(configs, JitKernel):
        raise CallError("tilegen.autotune needs the configurations\n  remedy: @tilegen.autotune(configs=[…])")
    found = configs
    measuring = _Measuring(warmup, rep, supply_type, ref_prog, (rtol, atol))

    def decorate(kernel: JitKernel) -> TunedKernel:
        if not isinstance(kernel, JitKernel):
            raise CallError(
                f"tilegen.autotune decorates what tilegen.jit made, not {kernel!r}\n"
                "  remedy: write @tilegen.autotune(…) above @tilegen.jit"
            )
        return TunedKernel(kernel, found, measuring)

    return decorate


def __getattr__(name: str) -> Any:
    refuse_foreign("tilegen.autotuner", name)
    raise AttributeError(f"module 'tilegen.autotuner' has no attribute '{name}'")
