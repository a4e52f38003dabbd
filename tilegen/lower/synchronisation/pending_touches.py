"""What threads have done to shared buffers and tensors since the last barrier, and why they must meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Access, Loop
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.traversal import free_vars, substitute
from tilegen.ir.walk import subexpressions
from tilegen.lower.synchronisation.tensor_touches import TensorTouches

Touch = tuple[Fragment, tuple[Expr, ...]] | None
"""Which thread touches which element: the partition of the loop and the indices over its variables, called by their
position; None where that is not known, or where several threads touch an element."""
Touches = dict[str, tuple[Touch, ...]]  # by buffer
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier: what threads have `written` and `read` by then, which is why they must meet; with `fence` their stores
    become visible to tensor cores, too."""

    fence: bool = False
    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    def joined(self, other: Meeting | None) -> Meeting:
        """With the reasons of another one."""
        if other is None:
            return self
        written = tuple(dict.fromkeys((*other.written, *self.written)))
        return Meeting(self.fence, written, tuple(dict.fromkeys((*other.read, *self.read))))


@dataclass(slots=True)
class Pending:
    """How shared buffers and tensors were touched since the last barrier; `unfenced` are those that threads wrote since
    the last barrier with a proxy fence."""

    written: Touches = field(default_factory=dict)
    read: Touches = field(default_factory=dict)
    unfenced: dict[str, None] = field(default_factory=dict)
    tensors: TensorTouches = field(default_factory=dict)

    @property
    def touched(self) -> bool:
        return bool(self.written or self.read or self.unfenced or self.tensors)

    def copy(self) -> Pending:
        return Pending(dict(self.written), dict(self.read), dict(self.unfenced), dict(self.tensors))

    def join(self, other: Pending) -> None:
        join_touches(self.written, other.written)
        join_touches(self.read, other.read)
        self.unfenced.update(other.unfenced)
        join_touches(self.tensors, other.tensors)

    def clear(self, fenced: bool = False) -> None:
        self.written.clear()
        self.read.clear()
        self.tensors.clear()
        if fenced:
            self.unfenced.clear()


def join_touches(into: dict[str, tuple[T, ...]], more: dict[str, tuple[T, ...]]) -> None:
    """Adds touches to those that are known, by buffer."""
    for name, touches in more.items():
        into[name] = tuple(dict.fromkeys((*into.get(name, ()), *touches)))


def buffers_met(earlier: Touches, *now: Touches) -> tuple[str, ...]:
    """The buffers of which some thread may touch an element that another one touched."""
    found = (
        name
        for touched in now
        for name, touches in touched.items()
        if any(one is None or one != other for one in touches for other in earlier.get(name, ()))
    )
    return tuple(dict.fromkeys(found))


def touch_of(loop: Loop, partition: Fragment, access: Access) -> Touch:
    """How the threads of a partition touch a buffer by one access of their loop."""
    if partition.replication > 1:
        return None
    places = {name: Var(f"%{axis}", role="parallel") for axis, name in enumerate(loop.names)}
    indices = tuple(substitute(index, places) for index in access.indices)
    known = all(name.startswith("%") for index in indices for name in free_vars(index))
    plain = not any(isinstance(part, Load) for index in indices for part in subexpressions(index))
    return (partition, indices) if known and plain else None
