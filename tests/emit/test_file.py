"""Whole files: they compile under every compiler without a warning, are fixed points, and say only what is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from clang_format_tool import clang_format
from hip_model import hip_model
from matmul_model import matmul_model, n, op

from tilegen.emit.configuration import UndefinedName
from tilegen.emit.file import render
from tilegen.emit.header import render_header
from tilegen.errors import TilegenError
from tilegen.ir.types import bfloat16, float32
from tilegen.model import build as c
from tilegen.model.expressions import Literal
from tilegen.model.kernel import Constant, KernelModel, TensorMap
from tilegen.model.statements import AssignC, Comment, Declare, Expression
from tilegen.target import load_target
from tilegen.toolchain import build_cuda, build_hip, compile_cuda, compile_hip

MODELS = {"cuda": matmul_model, "hip": hip_model}
SECTIONS = ["configuration", "device primitives", "device helpers", "kernel", "host"]


@pytest.mark.parametrize("language", MODELS)
def test_the_text_is_a_fixed_point(language: str, require_tool: Callable[[str], None]) -> None:
    model = MODELS[language]()
    for text in (render(model), render_header(model)):
        assert clang_format(require_tool, text) == text
        assert max(map(len, text.split("\n"))) <= 120
        assert text.endswith("\n") and not text.endswith("\n\n") and "\n\n\n" not in text


def test_nvcc_and_nvrtc_take_the_file(require_tool: Callable[[str], None]) -> None:
    text = render(matmul_model())
    target = load_target("sm_90a")
    require_tool("nvcc")
    assert build_cuda(text, target).kernels[0].spills == 0
    require_tool("nvrtc")
    compile_cuda(text, target)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_clang_takes_the_file(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("hip")
    text = render(hip_model(target))
    assert compile_hip(text, load_target(target)).kernel("scaled_transpose").spills == 0
    build_hip(text, load_target(target))


@pytest.mark.parametrize("language", ["cuda", "hip"])
def test_sections_stand_in_order(language: str) -> None:
    text = render(MODELS[language]())
    found = [line.rpartition("- ")[2] for line in text.split("\n") if line.startswith("// ------")]
    expected = SECTIONS if language == "cuda" else [title for title in SECTIONS if title != "device helpers"]
    assert found == expected
    kernel = text[text.index("- kernel\n") : text.index("- host\n")]
    for word in ("_Float16", "ext_vector_type", "asm", "__builtin_amdgcn"):
        assert word not in kernel


def test_the_hopper_gemm_is_as_short_as_the_one_written_by_hand() -> None:
    assert len(render(matmul_model()).split("\n")) <= 420


def test_only_what_is_used_is_there() -> None:
    text = render(matmul_model())
    assert "kUnused" not in text
    assert "exp2_approx" not in text and "infinity" not in text
    assert "__nv_bfloat16" not in text and "u16" not in text


def with_statements(model: KernelModel, *statements: object) -> KernelModel:
    return replace(model, body=(*model.body, *statements))  # type: ignore[arg-type]


def test_helpers_and_primitives_of_scalar_expressions_come_by_themselves(
    require_tool: Callable[[str], None],
) -> None:
    value = c.call("fmaxf", c.call("exp2_approx", Literal(1.5, "float")), Literal(float("-inf"), "float"))
    model = with_statements(
        matmul_model(),
        Declare("float", "total", value),
        AssignC(n("total"), c.call("floor_div", c.expr(7), c.expr(-2)), op="+="),
        Expression(c.call("reinterpret_use", "total")),
    )
    text = render(model)
    assert "ex2.approx" in text and "float infinity()" in text and "floor_div(Integer a" in text
    assert clang_format(require_tool, text) == text


def test_constants_of_the_host_alone_stay_out_of_device_code() -> None:
    model = matmul_model()
    launch = replace(model.launch, grid=(op(n("kWaves"), "*", "multiprocessors"), Literal(1), Literal(1)))
    text = render(replace(model, launch=launch, constants=(*model.constants, Constant("kWaves", Literal(2)))))
    assert text.index("kWaves = 2") > text.index("#ifndef __CUDACC_RTC__", text.index("- host"))


def test_constants_of_a_kind_share_a_line() -> None:
    """Of one type and comment, as many as 120 columns hold."""
    model = matmul_model()
    names = [f"kExtent{number}" for number in range(8)]
    kinds = [Constant(name, Literal(1024), comment="of a shape", shares_line=True) for name in names]
    apart = [Constant("kOther", Literal(1.5, "float"), "float", "of a shape", shares_line=True)]
    use = Expression(c.call("use", "kOther", *names))
    text = render(with_statements(replace(model, constants=(*model.constants, *kinds, *apart)), use))
    first, second = (", ".join(f"{name} = 1024" for name in part) for part in (names[:5], names[5:]))
    assert re.search(f"constexpr int {first};  // of a shape\nconstexpr int {second}; +// of a shape", text)
    assert re.search("constexpr float kOther = 1.5f; +// of a shape", text)


def test_an_undefined_constant_is_an_error() -> None:
    with pytest.raises(UndefinedName, match="kNowhere"):
        render(with_statements(matmul_model(), Expression(c.call("f", "kNowhere"))))
    render(with_statements(matmul_model(), Comment("kNowhere is only spoken of")))


def test_misstated_shared_memory_is_an_error() -> None:
    model = matmul_model()
    with pytest.raises(TilegenError, match="states 1000 bytes of shared memory, but its members take 214016"):
        render(replace(model, launch=replace(model.launch, shared_bytes=1000)))


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    program = "import test_file as t; print(*(t.render(f()) for f in t.MODELS.values()), sep='', end='')"
    here = Path(__file__).parent
    expected = "".join(render(make()) for make in MODELS.values())
    for seed in ("0", "1", "12345"):
        path = os.pathsep.join([str(here), str(here.parents[1])])
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert run.returncode == 0, run.stderr
        assert run.stdout == expected


# --------------------------------------------------------------------------------------------- launcher


def host(model: KernelModel) -> str:
    text = render(model)
    return text[text.index("- host\n") :]


def test_the_launcher_checks_the_contract() -> None:
    text = host(matmul_model())
    assert "if (M < 0 || N < 0 || K < 0 || K % 8 != 0 || N % 8 != 0) return cudaErrorInvalidValue;" in text
    assert "(u64(A) | u64(B) | u64(C)) % 16 != 0) return cudaErrorInvalidValue;" in text
    assert "if (tiles == 0) return cudaSuccess;" in text
    assert "extent == 0" in text  # K == 0 launches, with no map of A and B
    assert "exit" not in text and "assert(" not in text
    transpose = host(hip_model())
    assert "if (M < 0 || N < 0 || u64(M) * u64(N) > 2147483647) return hipErrorInvalidValue;" in transpose
    assert "if (blocks_x == 0 || blocks_y == 0) return hipSuccess;" in transpose
    assert (
        "if (blocks_y > 0xFFFF) return hipErrorInvalidValue;" in transpose
    )  # along x there are never too many
    assert "dim3(u32(blocks_x), u32(blocks_y))" in transpose
    assert "reinterpret_cast" not in transpose  # the alignment of an element goes without saying


def test_constant_grids_need_no_check(require_tool: Callable[[str], None]) -> None:
    model = launcher_model()
    launch = replace(model.launch, grid=(Literal(64), Literal(2), Literal(1)), uses_multiprocessors=False)
    text = render(replace(model, launch=launch))
    assert "matmul_relu<<<dim3(64, 2), kThreads, kSharedBytes, stream>>>" in text
    assert "blocks" not in host(replace(model, launch=launch)) and "tiles ==" not in text
    require_tool("nvcc")
    build_cuda(text, load_target("sm_90a"))


def test_a_rounded_grid_has_a_name(require_tool: Callable[[str], None]) -> None:
    """Blocks that clusters do not divide: in the launch's brackets, clang-format would take * for a template's."""
    model = launcher_model()
    rounded = op(op(op(63, "+", 1), "/", 2), "*", 2)
    launch = replace(model.launch, grid=(op(3, "*", rounded), Literal(1), Literal(1)))
    text = render(replace(model, launch=replace(launch, uses_multiprocessors=False)))
    assert "const u32 blocks = 3 * ((63 + 1) / 2 * 2);" in text and "matmul_relu<<<blocks, kThreads" in text
    assert clang_format(require_tool, text) == text
    require_tool("nvcc")
    build_cuda(text, load_target("sm_90a"))


def launcher_model() -> KernelModel:
    """The contract of the GEMM around a kernel that compiles in no time."""
    storage = Declare("SharedStorage", "shared", c.call("shared_storage"), reference=True)
    touch = AssignC(c.index(c.member("shared", "full"), 0), Literal(0))
    return replace(
        matmul_model(),
        body=(storage, touch),
        primitives=(("shared_storage", ()),),
        helpers=(),
        helper_values=(),
    )


def changed_map(model: KernelModel, position: int, **changes: object) -> KernelModel:
    parameters = list(model.parameters)
    entry = parameters[position]
    assert isinstance(entry, TensorMap)
    parameters[position] = replace(entry, **changes)  # type: ignore[arg-type]
    return replace(model, parameters=tuple(parameters))


@pytest.mark.parametrize("kind", ["type", "swizzle", "rank", "rank 1"])
def test_one_encoder_serves_all_maps(kind: str, require_tool: Callable[[str], None]) -> None:
    model = launcher_model()
    match kind:
        case "type":
            tensors = (*model.tensors[:2], replace(model.tensors[2], dtype=bfloat16))
            model = replace(changed_map(model, 2, dtype=bfloat16), tensors=tensors)
            expected = "CUtensorMapDataType type"
        case "swizzle":
            model = changed_map(model, 2, swizzle=0)
            expected = "CU_TENSOR_MAP_SWIZZLE_NONE"
        case "rank":
            extents = (n("K"), n("M"), Literal(1))
            strides = (op(2, "*", "K"), op(op(2, "*", "K"), "*", "M"))
            model = changed_map(
                model, 0, extents=extents, strides=strides, box=(n("kBlockK"), n("kBlockM"), Literal(1))
            )
            expected = "template <int kRank>"
        case _:
            for position in range(3):
                model = changed_map(model, position, extents=(n("K"),), strides=(), box=(n("kBlockK"),))
            expected = "const cuuint64_t (&extents)[1]"
    text = render(model)
    assert expected in text
    assert text.count("static cudaError_t encode_map(") == 1
    assert clang_format(require_tool, text) == text
    require_tool("nvcc")
    build_cuda(text, load_target("sm_90a"))


def test_zeroed_outputs_clusters_and_small_shared_memory(require_tool: Callable[[str], None]) -> None:
    model = launcher_model()
    tensors = (*model.tensors[:2], replace(model.tensors[2], dtype=float32, zeroed=True))
    launch = replace(model.launch, cluster=(2, 1, 1))
    model = replace(changed_map(model, 2, dtype=float32), tensors=tensors, launch=launch)
    text = render(model)
    assert "cudaMemsetAsync(C, 0, sizeof(*C) * u64(M) * u64(N), stream)" in text
    assert "__cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)" in text
    assert clang_format(require_tool, text) == text
    require_tool("nvcc")
    build_cuda(text, load_target("sm_90a"))


def test_the_header_serves_host_code(require_tool: Callable[[str], None], tmp_path: Path) -> None:
    text = render_header(matmul_model())
    assert text.count("TILEGEN_MATMUL_RELU_SM_90A_H") == 3
    require_tool("nvcc")
    user = '#include "kernel.h"\n#include "kernel.h"\ncudaError_t (*launch)(const half*, const half*, half*, int, int, '
    user += "int, cudaStream_t) = matmul_relu_launch;\n"
    (tmp_path / "kernel.h").write_text(text)
    (tmp_path / "user.cpp").write_text(user)
    from tilegen.toolchain import find_tools

    nvcc = find_tools().need_nvcc().path
    command = [nvcc, "-std=c++17", "-Xcompiler", "-Wall,-Wextra,-Werror", "-c", "user.cpp", "-o", "user.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
