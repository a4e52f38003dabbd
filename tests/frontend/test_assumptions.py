"""T.assume: checked at generation time where extents are known, else stated, checked and relied upon."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.errors import ArgumentError
from tilegen.frontend import parse
from tilegen.ir.printer import to_text


def shared_heads(X, Y, block: int = 128):
    N, H, G = T.const("N, H, G")
    X: T.Tensor((H, N), T.float32)
    Y: T.Tensor((G, N), T.float32)
    Z = T.empty((H, N), T.float32)
    T.assume(H % G == 0 and G <= 64)
    with T.Kernel(T.ceildiv(N, block), H, threads=128) as (bx, h):
        for i in T.Parallel(block):
            Z[h, bx * block + i] = X[h, bx * block + i] * Y[h // (H // G), bx * block + i]
    return Z


def ones(heads, length=128):
    return np.ones((heads, length), np.float32)


def test_what_is_known_is_checked_at_the_line():
    spec = T.Tensor((4, 128), T.float32)
    assert "assume" not in to_text(parse(shared_heads, {"X": spec, "Y": T.Tensor((2, 128), T.float32)}))
    with pytest.raises(ProgramError) as refused:
        parse(shared_heads, {"X": spec, "Y": T.Tensor((3, 128), T.float32)})
    assert refused.value.message == "H % G == 0 and G <= 64 does not hold: G = 3, H = 4"
    assert refused.value.location.text == "T.assume(H % G == 0 and G <= 64)"


def test_what_is_open_is_the_launchers_contract():
    assert "  assume G > 0 and (H % G == 0 and G <= 64)" in to_text(parse(shared_heads))
    emission = tilegen.jit(shared_heads).emit(target="sm_80")
    assert "//            Requires H % G == 0 and G <= 64.\n" in emission.source
    assert "G <= 0 || H % G != 0 || G > 64" in emission.source
    (requirement,) = [r for r in emission.manifest.requirements if "G" in r.condition]
    assert requirement.text == "H % G == 0 and G <= 64"


@pytest.mark.parametrize("groups", [0, 3])
def test_a_call_with_open_extents_is_refused_before_the_launch(require_tool, groups):
    require_tool("host_compiler")
    lazily = tilegen.jit(shared_heads).emit(
        T.Tensor(("H", "N"), T.float32), T.Tensor(("G", "N"), T.float32), target="sm_80"
    )
    kernel = tilegen.jit(dynamic="N, H, G", target="sm_80")(shared_heads)
    assert kernel(ones(4), ones(2)).shape == (4, 128)
    with pytest.raises((ProgramError, ArgumentError), match=r"H % G == 0"):
        kernel(ones(4), ones(groups))
    assert lazily.manifest.symbols == ("N", "H", "G")


def columns(X, block: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32, (T.dynamic("pitch"), 1))
    Y = T.empty((M, N), T.float32)
    T.assume(T.dynamic("pitch") % 4 == 0)
    with T.Kernel(T.ceildiv(N, block), M, threads=32) as (bx, by):
        tile = T.alloc_fragment((block,), T.float32)
        T.copy(X[by, bx * block], tile)
        T.copy(tile, Y[by, bx * block])
    return Y


def test_divisibility_widens_accesses():
    program = parse(columns, dims={"N": 256})
    (assumption,) = program.assumptions
    assert assumption.text == "T.dynamic('pitch') % 4 == 0"
    source = tilegen.jit(columns).emit(target="sm_80", dims={"N": 256}).source
    assert "= *reinterpret_cast<const float4*>(&X[" in source


REFUSED = [
    ("for k in T.serial(N): T.assume(N % k == 0)", "stands in a loop or an if of the kernel"),
    ("T.assume(bx < N)", "bx is only known to the kernel"),
    ("T.assume(X[0] > 0)", "T.assume takes comparisons of integers"),
    ("T.assume(N % -2 == 0)", "positive numbers"),
    ("T.assume(X)", "is a comparison"),
    ('T.assume("N % 8 == 0")', "is a comparison"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_what_a_launcher_cannot_check_is_refused(line, message, tmp_path):
    text = f"""
import tilegen.language as T
def program(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(N, threads=32) as bx:
        {line}
        Y[bx] = X[bx]
    return Y
"""
    path = tmp_path / "refused.py"
    path.write_text(text)
    scope = {}
    exec(compile(text, str(path), "exec"), scope)
    with pytest.raises(ProgramError, match=message):
        parse(scope["program"])
