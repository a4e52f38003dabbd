"""The manifest beside an emitted file: grid, block, shared memory, parameters and contract, as versioned JSON.

The launcher is printed from the same facts; the runtime and the emulator read this file alone. Every formula is
text of `tilegen.formula` over the manifest's symbols and scalars (grid formulas also over `multiprocessors`, and over
`clusters`, those of the kernel's that the device runs at once).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tilegen.errors import TilegenError

VERSION = 1

TensorRole = Literal["input", "output", "inout", "scratch"]


class ManifestError(TilegenError):
    """JSON that is not a manifest of this version."""


@dataclass(frozen=True, slots=True)
class TensorMapParameter:
    """A TMA descriptor, passed by value. Extents and box count elements, fastest dimension first; strides count
    bytes and belong to dimensions 1 and up; `swizzle` is in bytes, 0 for none."""

    name: str
    tensor: str
    dtype: str
    rank: int
    extents: tuple[str, ...]
    strides_bytes: tuple[str, ...]
    box: tuple[int, ...]
    swizzle: int
    oob: Literal["zero"] = "zero"
    kind: Literal["tensor_map"] = "tensor_map"


@dataclass(frozen=True, slots=True)
class PointerParameter:
    name: str
    tensor: str
    dtype: str
    access: Literal["read", "write", "readwrite"]
    kind: Literal["pointer"] = "pointer"


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A kernel parameter whose value is a formula."""

    name: str
    dtype: str
    value: str
    kind: Literal["scalar"] = "scalar"


Parameter = TensorMapParameter | PointerParameter | ScalarParameter


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the launcher. Strides count elements; None is row-major. `alignment` is in bytes; a `zeroed`
    tensor is set to 0 on the stream before the launch. `scratch` is memory that no other launch uses at the same time;
    its contents mean nothing to the caller, but that it `rests` at 0 where the kernel asks for it: before the first
    launch, and again after each."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    strides: tuple[str, ...] | None
    role: TensorRole
    alignment: int
    zeroed: bool = False
    rests: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """`argument` is what the program calls it, where the text, which wants `name` otherwise, has another name."""

    name: str
    dtype: str
    argument: str = ""

    @property
    def keyword(self) -> str:
        """What a call's argument is called."""
        return self.argument or self.name


@dataclass(frozen=True, slots=True)
class Requirement:
    """`condition` must hold; `text` says so to a person."""

    condition: str
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    line: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a caller of the kernel must know. `block` and `cluster` count threads and blocks, `shared_bytes` is
    the dynamic shared memory of a block (on HIP: the static LDS that the kernel declares). `called` has the program's
    own names of those symbols that the text names otherwise."""

    kernel: str
    target: str
    language: Literal["cuda", "hip"]
    wave_size: int
    parameters: tuple[Parameter, ...]
    tensors: tuple[Tensor, ...]
    symbols: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    outputs: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    grid: tuple[str, str, str]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    source: Source
    primitives: tuple[tuple[str, Mapping[str, str | int | bool]], ...] = ()
    registers: Mapping[str, int] = field(default_factory=dict)
    parameters_of_generation: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    tilegen: str = ""
    version: int = VERSION

    def to_json(self) -> str:
        """The manifest as JSON with sorted structure: the same manifest gives the same text."""
        values = dataclasses.asdict(self)
        if not self.called:
            del values["called"]
        order = ("version", "tilegen", *(name for name in values if name not in ("version", "tilegen")))
        return json.dumps({name: values[name] for name in order}, indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Reads what `to_json` wrote.

        Raises:
            ManifestError: for other JSON, or a manifest of another version.
        """
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ManifestError(f"the manifest is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ManifestError("the manifest is not a JSON object")
        if values.get("version") != VERSION:
            raise ManifestError(
                f"the manifest has version {values.get('version')}, this tilegen reads {VERSION}; emit the kernel again"
            )
        try:
            return _manifest(values)
        except (KeyError, TypeError, ValueError) as error:
            raise ManifestError(f"the manifest lacks or garbles a field: {error}") from error

    def tensor(self, name: str) -> Tensor:
        """The launcher's tensor of this name.

        Raises:
            ManifestError: when there is none.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise ManifestError(f"kernel {self.kernel} has no tensor named {name}")


_PARAMETERS: dict[str, type[TensorMapParameter] | type[PointerParameter] | type[ScalarParameter]] = {
    "tensor_map": TensorMapParameter,
    "pointer": PointerParameter,
    "scalar": ScalarParameter,
}


def _manifest(values: dict[str, Any]) -> Manifest:
    fields = dict(values)
    fields["parameters"] = tuple(
        _PARAMETERS[entry["kind"]](**_frozen(entry)) for entry in values["parameters"]
    )
    fields["tensors"] = tuple(Tensor(**_frozen(entry)) for entry in values["tensors"])
    fields["scalars"] = tuple(Scalar(**entry) for entry in values["scalars"])
    fields["requirements"] = tuple(Requirement(**entry) for entry in values["requirements"])
    fields["primitives"] = tuple((name, dict(parameters)) for name, parameters in values["primitives"])
    fields["source"] = Source(**values["source"])
    for name in ("symbols", "outputs", "grid", "block", "cluster"):
        fields[name] = tuple(values[name])
    return Manifest(**fields)


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    """JSON arrays become tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
