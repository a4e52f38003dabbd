"""The configuration section: constants in use, shared storage, static assertions; host constants apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilegen.emit.lines import Line
from tilegen.emit.printer import fits
from tilegen.emit.shared_storage import shared_lines
from tilegen.errors import TilegenError
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import Literal
from tilegen.model.kernel import Constant, KernelModel
from tilegen.model.shared_layout import shared_layout

# A name of the program like it ends in an underscore; what is named after that, such as kData__window, has two.
_CONSTANT_NAME = re.compile(r"\bk[A-Z](?!\w*__)\w*(?<!_)\b")
_LOCAL_DEFINITION = re.compile(
    r"\b(?:int|bool|unsigned|float|double|size_t|typename|class|auto|[iu]\d+)\s+(k[A-Z]\w*)"
)


class UndefinedName(TilegenError):
    """The text names a constant that the kernel model does not define."""


class Constants:
    """The constants of a file: which of them the device text uses, which the host alone."""

    def __init__(self, model: KernelModel) -> None:
        """Raises:
        SharedLayoutError: members of shared storage contradict one another or the stated size.
        """
        self._model = model
        self._known = {constant.name: constant for constant in model.constants}
        if len(self._known) != len(model.constants):
            raise TilegenError(f"kernel {model.name} defines a constant twice")
        if "kThreads" not in self._known:
            self._known["kThreads"] = Constant("kThreads", Literal(model.launch.block))

    def check(self, text: str) -> None:
        """Raises:
        UndefinedName: for a constant of `text` that is defined neither in the model nor in the text itself.
        """
        local = set(_LOCAL_DEFINITION.findall(text))
        for name in dict.fromkeys(_CONSTANT_NAME.findall(_code(text))):
            if name not in self._known and name not in local and name not in ("kSharedBytes",):
                raise UndefinedName(f"kernel {self._model.name} uses {name}, which nothing defines")

    def needed(self, text: str) -> set[str]:
        """Names of the model's constants that `text` uses, directly or through other constants."""
        pending = [name for name in _CONSTANT_NAME.findall(_code(text)) if name in self._known]
        needed: set[str] = set()
        while pending:
            name = pending.pop()
            if name in needed:
                continue
            needed.add(name)
            value = expression_text(self._known[name].value)
            pending += [inner for inner in _CONSTANT_NAME.findall(value) if inner in self._known]
        return needed

    def lines(self, names: Iterable[str]) -> list[Line]:
        """Their definitions in the model's order."""
        wanted = set(names)
        groups: list[list[Constant]] = []
        for constant in (constant for name, constant in self._known.items() if name in wanted):
            if groups and _share_line([*groups[-1], constant]):
                groups[-1].append(constant)
            else:
                groups.append([constant])
        return [line for group in groups for line in _definition(group)]


def _share_line(constants: Sequence[Constant]) -> bool:
    alike = len({(constant.type_name, constant.comment) for constant in constants}) == 1
    marked = all(constant.shares_line for constant in constants)
    return alike and marked and fits(_declaration(constants), constants[0].comment, 0)


def _declaration(constants: Sequence[Constant]) -> str:
    values = [f"{constant.name} = {expression_text(constant.value)}" for constant in constants]
    return f"constexpr {constants[0].type_name} {', '.join(values)};"


def _definition(constants: Sequence[Constant]) -> list[Line]:
    code, comment = _declaration(constants), constants[0].comment
    if comment and not fits(code, comment, 0):
        return [Line("", comment), Line(code)]
    return [Line(code, comment)]


def storage_lines(model: KernelModel, uses_shared_bytes: bool) -> list[Line]:
    """Shared storage, its size, and the assertions.

    Raises:
        TilegenError: when the members take other than the bytes that the launch states.
    """
    lines = shared_lines(model.shared)
    asserts = [(expression_text(entry.condition), entry.message) for entry in model.asserts]
    if model.shared:
        layout = shared_layout(model.shared)
        if layout.size != model.launch.shared_bytes:
            raise TilegenError(
                f"kernel {model.name} states {model.launch.shared_bytes} bytes of shared memory, but its members "
                f"take {layout.size}"
            )
        size = "sizeof(SharedStorage)"
        if uses_shared_bytes:
            lines += [Line(), Line(f"constexpr int kSharedBytes = {size};")]
            size = "kSharedBytes"  # so that the device-only compilation, without the launcher, uses it too
        asserts.insert(0, (f"{size} == {layout.size}", "the shared memory that the header above states"))
    if asserts and not (model.shared and uses_shared_bytes):
        lines.append(Line())
    return lines + [Line(f'static_assert({condition}, "{message}");') for condition, message in asserts]


def _code(text: str) -> str:
    return re.sub(r"//.*", "", text)
