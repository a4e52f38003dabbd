"""Compiled kernels on disk, by the digest of what went into them.

`TILEGEN_CACHE_DIR` moves the cache, `TILEGEN_CACHE=0` switches it off; so they do for the emulator's programs. Entries
appear by an atomic rename, so that another process sees a whole file or none; a lock file a digest keeps two processes
from compiling the same text.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tilegen._resources import cache_root

_DIGEST_LENGTH = 32


def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None when the cache is switched off."""
    root = cache_root()
    return None if root is None else root / "kernels"


def digest(parts: Iterable[str]) -> str:
    """A name for everything that decides a compiled kernel: text, target, compiler and its version, options."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:_DIGEST_LENGTH]


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a whole file under its final name at once: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def cached(
    name: str,
    make: Callable[[], bytes],
    folder: Path | None,
    whole: Callable[[bytes], bool] = lambda data: True,
) -> bytes:
    """The bytes under `name`, made and kept if they are not there, or not `whole`. Without a folder they are made anew.

    A cache that cannot be written (read-only home, full disk), or that something damaged, costs time, never the result.
    """
    if folder is None:
        return make()
    path = folder / name
    found = _read(path)
    if found is not None and whole(found):
        return found
    with _lock(path):
        found = _read(path)
        if found is not None and whole(found):
            return found
        data = make()
        with contextlib.suppress(OSError):
            write_atomically(path, data)
        return data


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds the entry's lock file, or nothing where the folder cannot be written."""
    from filelock import FileLock

    lock = FileLock(str(path) + ".lock")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()  # nothing where it is not held


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
