"""What the server of the children imports once, before it forks them (see `isolation`).

Nothing here may touch a GPU: a CUDA context does not survive a fork. CuPy is left to the children.
"""

from __future__ import annotations

import contextlib

import numpy  # noqa: F401

with contextlib.suppress(ImportError):
    import torch  # noqa: F401
with contextlib.suppress(ImportError):
    import triton  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
with contextlib.suppress(ImportError):
    import tilegen.jit_kernel  # noqa: F401
