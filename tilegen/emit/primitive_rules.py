"""What a device primitive is: a name, its parameters, and the rule that says which parameters it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tilegen.errors import TilegenError

Value = str | int | bool


class UnknownPrimitive(TilegenError):
    """A primitive that no rule describes, or parameters that its rule does not allow."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A device primitive as a kernel asks for it; `parameters` is a mapping or pairs, kept sorted by name."""

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        given: Mapping[str, Value] | Iterable[tuple[str, Value]] = self.parameters
        pairs = given.items() if isinstance(given, Mapping) else given
        object.__setattr__(self, "parameters", tuple(sorted((str(name), value) for name, value in pairs)))

    @classmethod
    def of(cls, name: str, **parameters: Value) -> Primitive:
        """Primitive.of("wgmma", n=256, a="f16", d="f32", source="SS")"""
        return cls(name, tuple(parameters.items()))

    def values(self) -> dict[str, Value]:
        return dict(self.parameters)


Values = Mapping[str, Value]


def _nothing_required(values: Values) -> tuple[Primitive, ...]:
    return ()


def _nothing_added(values: Values) -> Mapping[str, object]:
    return {}


@dataclass(frozen=True, slots=True)
class Rule:
    """How a primitive of one language is written.

    choices   the values that each parameter may take
    requires  the primitives that its text uses
    context   what its template needs beside the parameters: operand lists, derived names
    family    what the ISA's document calls the instructions, and where: primitives of a family stand below it
    """

    name: str
    choices: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    requires: Callable[[Values], tuple[Primitive, ...]] = _nothing_required
    context: Callable[[Values], Mapping[str, object]] = _nothing_added
    family: str = ""

    def check(self, primitive: Primitive) -> None:
        """Raises UnknownPrimitive unless the parameters are those that the rule names, with values it allows."""
        values = primitive.values()
        allowed = dict(self.choices)
        if values.keys() != allowed.keys():
            expected = ", ".join(allowed) or "none"
            found = ", ".join(values) or "none"
            raise UnknownPrimitive(f"primitive {self.name} takes the parameters {expected}, not {found}")
        for name, value in values.items():
            if value not in allowed[name] or type(value) is not type(allowed[name][0]):
                options = ", ".join(map(repr, allowed[name]))
                raise UnknownPrimitive(f"primitive {self.name}: {name}={value!r} is none of {options}")


def requiring(*names: str) -> Callable[[Values], tuple[Primitive, ...]]:
    """The `requires` of a rule whose text uses these primitives, none of which has parameters."""
    primitives = tuple(Primitive(name) for name in names)
    return lambda values: primitives
