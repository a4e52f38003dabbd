"""Names that programs written for TileLang import from its package and that mean little or nothing here."""

from __future__ import annotations

from tilegen.errors import TilegenError


class ForeignNameError(TilegenError, ImportError):
    """A name of TileLang's package that tilegen has no equivalent of; the message says what to write instead."""


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class PassConfigKey(metaclass=_Keys):
    """Keys of `pass_configs`, an option that is accepted with a warning: each attribute is its own name."""


_REMEDIES = {
    "AutoTuner": "decorate the @tilegen.jit function with @tilegen.autotune(configs=[…])",
    "Fragment": "tilegen infers which thread holds which element; leave the layout out",
    "JITKernel": "the type of a compiled program is tilegen.CompiledProgram",
    "Layout": "shared tiles take row_major or swizzled of tilegen.operations; leave others out",
    "disable_cache": "set the environment variable TILEGEN_CACHE=0",
    "enable_cache": "delete the line: compiled kernels are kept unless the environment has TILEGEN_CACHE=0",
    "lower": "kernel.emit(target=…) gives the text, its launcher and its manifest",
    "make_linear_layout": "row_major(shape, dtype) of tilegen.operations is the plain layout of a shared tile",
    "next_power_of_2": "write 1 << (n - 1).bit_length()",
    "par_compile": "compile in a loop: [kernel.compile(**config) for config in configs]",
    "register_cuda_postproc": "edit the emitted text and run it by tilegen.emulate.run, or save and compile it",
    "register_hip_postproc": "edit the emitted text and run it by tilegen.emulate.run, or save and compile it",
    "set_autotune_inputs": "kernels are timed on random arrays; @tilegen.autotune(supply_type=…) says which",
    "set_log_level": "delete the line: tilegen logs nothing",
    "testing": "compare with numpy.testing.assert_allclose or torch.testing.assert_close",
    "transform": "tilegen has no passes to configure; PassConfigKey is tilegen.PassConfigKey",
    "utils": "TensorSupplyType is tilegen.TensorSupplyType; for the rest use torch or NumPy",
}


def refuse_foreign(module: str, name: str) -> None:
    """Raises ForeignNameError where `name` is one of TileLang's that has a remedy here."""
    if name in _REMEDIES:
        raise ForeignNameError(f"{module} has no '{name}', which is TileLang's\n  remedy: {_REMEDIES[name]}")
