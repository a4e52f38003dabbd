"""Targets: what a GPU is and can do, read from `targets/*.toml`. Ask for a capability, never for a name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tilegen._resources import targets_root
from tilegen._target_schema import Table, TargetError, read_toml
from tilegen._target_tables import (
    CompileFlags,
    Device,
    Limits,
    RegisterReallocation,
    TmaLimits,
    TmaSwizzle,
    WgmmaLimits,
    read_compile,
    read_device,
    read_limits,
    read_masks,
    read_setmaxnreg,
    read_tma,
    read_wgmma,
)
from tilegen.atoms import (
    AtomicAtom,
    CopyAtom,
    MmaAtom,
    SharedPhase,
    read_atomic,
    read_copy_atom,
    read_mma_atoms,
    read_shared_phase,
)

__all__ = [
    "CompileFlags",
    "Device",
    "Limits",
    "RegisterReallocation",
    "Target",
    "TargetError",
    "TmaLimits",
    "TmaSwizzle",
    "WgmmaLimits",
    "load_target",
    "read_target",
    "target_for_device",
    "target_names",
]

Language = Literal["cuda", "hip"]
_CAPABILITIES = "capabilities.toml"


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture. `name` is what users write, `architecture` what compilers call it."""

    name: str
    language: Language
    architecture: str
    devices: tuple[str, ...]
    capabilities: tuple[str, ...]
    vocabulary: tuple[str, ...]
    limits: Limits
    device: Device
    compile: CompileFlags
    mma_atoms: tuple[MmaAtom, ...]
    copy_atoms: tuple[CopyAtom, ...]
    atomics: tuple[AtomicAtom, ...]
    phases: tuple[SharedPhase, ...]
    tma: TmaLimits | None
    wgmma: WgmmaLimits | None
    setmaxnreg: RegisterReallocation | None
    schedule_masks: tuple[tuple[str, int], ...]

    def has(self, capability: str) -> bool:
        """Whether the target offers `capability`, a key of `targets/capabilities.toml`.

        Raises:
            TargetError: when no target could offer it: the name is not in the vocabulary.
        """
        if capability not in self.vocabulary:
            known = ", ".join(self.vocabulary)
            raise TargetError(f"no capability is called '{capability}'; there are {known}")
        return capability in self.capabilities

    def mma(self, name: str) -> MmaAtom:
        """The matrix instruction of this name.

        Raises:
            TargetError: when the target has none.
        """
        for atom in self.mma_atoms:
            if atom.name == name:
                return atom
        raise TargetError(f"{self.name} has no matrix instruction '{name}'")

    def mma_atoms_for(self, a: str, b: str, c: str) -> tuple[MmaAtom, ...]:
        """The matrix instructions for these element types of A, B and the accumulator, in the file's order."""
        wanted = (a, b, c)
        return tuple(atom for atom in self.mma_atoms if (atom.a.dtype, atom.b.dtype, atom.c.dtype) == wanted)

    def copies(self, kind: str) -> tuple[CopyAtom, ...]:
        """The copy instructions of one kind ("cp_async", "ldmatrix", "buffer_load", …); empty where there are none."""
        return tuple(atom for atom in self.copy_atoms if atom.kind == kind)

    def shared_phases(self, access: str, width: int) -> tuple[tuple[int, ...], ...]:
        """Groups of lanes whose addresses meet the banks in the same cycle.

        `access` is "load", "store", "ldmatrix" or "stmatrix"; `width` the bytes of one lane (under 4: as 4).

        Raises:
            TargetError: when the target has no such access.
        """
        for phase in self.phases:
            if access in phase.accesses and phase.width == max(width, self.limits.bank_bytes):
                return phase.groups
        raise TargetError(f"{self.name} has no shared-memory {access} of {width} bytes a lane")

    def schedule_mask(self, kind: str) -> int:
        """The `sched_group_barrier` mask of a kind of instruction ("mfma", "ds_read", …)."""
        for name, mask in self.schedule_masks:
            if name == kind:
                return mask
        raise TargetError(f"{self.name} has no scheduling mask for '{kind}'")


def target_names() -> tuple[str, ...]:
    """The names that `load_target` knows, sorted."""
    return tuple(sorted(path.stem for path in targets_root().glob("*.toml") if path.name != _CAPABILITIES))


@cache
def load_target(name: str) -> Target:
    """The target called `name`.

    Raises:
        TargetError: when there is none, or its description breaks the schema.
    """
    if name not in target_names():
        raise TargetError(f"no target is called '{name}'; there are {', '.join(target_names())}")
    return read_target(targets_root() / f"{name}.toml", targets_root())


def target_for_device(identifier: str) -> Target:
    """The target for a device's compute capability ("9.0") or architecture name ("gfx942:sramecc+").

    Raises:
        TargetError: when no target is made for that device.
    """
    key = identifier.split(":")[0]
    for name in target_names():
        target = load_target(name)
        if key in target.devices:
            return target
    raise TargetError(
        f"no target is made for the device '{identifier}'; there are {', '.join(target_names())}"
    )


def read_target(path: Path, root: Path) -> Target:
    """Reads one description; `root` holds the atom files and the vocabulary that it refers to.

    Raises:
        TargetError: naming file, table, key and what is expected there.
    """
    vocabulary = tuple(read_toml(root / _CAPABILITIES))
    top = Table(path.name, "", read_toml(path))
    limits = read_limits(top.table("limits"))
    families = [Table(file, "", read_toml(root / file)) for file in top.texts("atoms")]
    sources = [top, *families]
    target = Target(
        name=top.text("name"),
        language="cuda" if top.choice("language", ("cuda", "hip")) == "cuda" else "hip",
        architecture=top.text("architecture"),
        devices=top.texts("devices"),
        capabilities=top.texts("capabilities"),
        vocabulary=vocabulary,
        limits=limits,
        device=read_device(top.table("device")),
        compile=read_compile(top.table("compile")),
        mma_atoms=tuple(a for s in sources for entry in s.tables("mma") for a in read_mma_atoms(entry)),
        copy_atoms=tuple(read_copy_atom(entry) for s in sources for entry in s.tables("copy")),
        atomics=tuple(read_atomic(entry) for s in sources for entry in s.tables("atomic")),
        phases=tuple(
            read_shared_phase(entry, limits.warp_size) for s in sources for entry in s.tables("shared_phase")
        ),
        tma=next((read_tma(s.table("tma")) for s in sources if s.has("tma")), None),
        wgmma=next((read_wgmma(s.table("wgmma")) for s in sources if s.has("wgmma")), None),
        setmaxnreg=read_setmaxnreg(top.table("setmaxnreg")) if top.has("setmaxnreg") else None,
        schedule_masks=tuple(m for s in sources if s.has("schedule_masks") for m in read_masks(s)),
    )
    for source in sources:
        source.finish()
    _check(top, target)
    return target


def _check(top: Table, target: Target) -> None:
    for capability in target.capabilities:
        if capability not in target.vocabulary:
            raise top.error("capabilities", f"names from {_CAPABILITIES}", capability)
    needs = [(atom.name, atom.capability) for atom in target.mma_atoms]
    needs += [(atom.name, atom.capability) for atom in target.copy_atoms if atom.capability]
    for name, capability in needs:
        if capability not in target.capabilities:
            raise top.error("capabilities", f"'{capability}', which atom {name} needs", target.capabilities)
    tables = (("tma", target.tma), ("wgmma", target.wgmma), ("setmaxnreg", target.setmaxnreg))
    for capability, table in tables:
        if capability in target.capabilities and table is None:
            raise top.error("capabilities", f"a table [{capability}] for '{capability}'", "none")
