"""The CUDA primitives: their texts, their twins in the emulator, and that both compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tilegen._resources import templates_root
from tilegen.emit.primitives import (
    Primitive,
    UnknownPrimitive,
    close_over_requirements,
    primitive_rules,
    render_primitives,
)
from tilegen.emulate.programs import build
from tilegen.model.primitive_names import int4_function
from tilegen.target import load_target
from tilegen.toolchain.cuda import compile_cuda

_RULES = {rule.name: rule for rule in primitive_rules("cuda")}
_MATRIX_COLUMNS = (8, 40, 96, 256)
_FIXED = {  # of wgmma with fixed majors; a file has an instruction in one form
    "SS": {16: "K, K", 48: "K, MN", 104: "MN, K", 248: "MN, MN"},
    "RS": {16: "K", 248: "MN"},
}

# How a kernel uses each primitive; `g` is a float pointer, `s` shared storage, `map` a tensor map.
_USES = {
    "shared_address": "g[0] = shared_address(&s);",
    "shared_storage": "g[1] = shared_storage().x;",
    "mbarrier_init": "mbarrier_init(s.b, 1);",
    "mbarrier_arrive": "mbarrier_arrive(s.b);",
    "mbarrier_arrive_expect_tx": "mbarrier_arrive_expect_tx(s.b, 16);",
    "mbarrier_arrive_cluster": "mbarrier_arrive_cluster(s.b, 1);",
    "mbarrier_wait": "mbarrier_wait(s.b, 0); mbarrier_wait(s.b, 1);",
    "fence_barrier_init": "fence_barrier_init();",
    "cluster_rank": "g[2] = cluster_rank();",
    "cluster_sync": "cluster_sync();",
    "prefetch_tensor_map": "prefetch_tensor_map(map);",
    "tma_store_commit": "tma_store_commit();",
    "tma_store_wait_read": "tma_store_wait_read();",
    "tma_store_wait": "tma_store_wait();",
    "fence_proxy_async": "fence_proxy_async();",
    "cp_async_commit": "cp_async_commit();",
    "cp_async_wait": "cp_async_wait<1>();",
    "warpgroup_arrive": "warpgroup_arrive();",
    "warpgroup_commit": "warpgroup_commit();",
    "warpgroup_wait": "warpgroup_wait<0>();",
    "major": "g[3] = int(Major::MN);",
    "register_release": "register_release<40>();",
    "register_acquire": "register_acquire<232>();",
    "named_barrier_sync": "named_barrier_sync(1, 128);",
    "named_barrier_arrive": "named_barrier_arrive(2, 128);",
    "exp2_approx": "g[4] = exp2_approx(g[5]);",
    "count_in": "u32 counter = n; g[8] = count_in(counter, 3);",
    "lop3": "g[6] = lop3<0xEA>(n, 2, 3);",
    "byte_permute": "g[7] = byte_permute(n, 2, 0x3210);",
}


def _every_primitive() -> list[Primitive]:
    """Each rule with all its parameters; of wgmma's n, a few."""
    found = [
        Primitive.of("wgmma_fixed", n=n, a=a, d="f32", source=source, majors=majors)
        for source, forms in _FIXED.items()
        for n, majors in forms.items()
        for a in ("f16", "bf16")
    ]
    for rule in _RULES.values():
        if rule.name == "wgmma_fixed":
            continue
        names = [name for name, _ in rule.choices]
        for values in itertools.product(*(choices for _, choices in rule.choices)):
            if rule.name != "wgmma" or values[0] in _MATRIX_COLUMNS:
                found.append(Primitive(rule.name, tuple(zip(names, values, strict=True))))
    return found


def _use(primitive: Primitive) -> str:
    """A statement that calls the primitive."""
    values = primitive.values()
    zeros = ", ".join("0" * int(values.get("rank", 0)))
    suffix = f"x{values.get('count')}" + ("_trans" if values.get("transpose") else "")
    hint = f"_{values['hint']}" if values.get("hint") else ""
    kind = {"f16": "F16", "bf16": "BF16"}.get(str(values.get("a")), "")
    match primitive.name:
        case "tma_load":
            tail = "_multicast(&s, map, {}, s.b, 3);" if values["multicast"] else "(&s, map, {}, s.b);"
            return f"tma_load_{values['rank']}d{hint}" + tail.format(zeros)
        case "tma_store" | "tma_reduce_add":
            return f"{primitive.name}_{values['rank']}d{hint}(map, &s, {zeros});"
        case "cp_async":
            name = f"SM80_CP_ASYNC_{str(values['variant']).upper()}{hint.upper()}"
            if values["variant"] == "cachealways_zfill":
                return f"{name}<4>::copy(&s, g, n > 0); {name}<8>::copy(&s, g, n > 0);"
            return f"{name}::copy(&s, g{', n > 0' if values['variant'] == 'cacheglobal_zfill' else ''});"
        case "load_hint" | "store_hint":
            vector = values["vector"]
            address = f"reinterpret_cast<{vector}*>(g)"
            inside = ", n > 0" if values.get("guarded") else ""
            loaded = f"{vector} v = load{hint}({address}{inside}); g[14] = reinterpret_cast<float&>(v);"
            return (
                f"{{ {loaded} }}"
                if primitive.name == "load_hint"
                else f"store{hint}({address}, {vector}{{}});"
            )
        case "ldmatrix":
            return f"{{ u32 r[{values['count']}]; ldmatrix_{suffix}(r, &s); g[8] = r[0]; }}"
        case "stmatrix":
            return f"{{ u32 r[{values['count']}] = {{}}; stmatrix_{suffix}(&s, r); }}"
        case "mma_sync":
            return (
                f"{{ float d[4] = {{}}; u32 a[4] = {{}}, b[2] = {{}}; "
                f"SM80_16x8x16_F32{kind}{kind}F32_TN::fma(d, a, b); g[9] = d[0]; }}"
            )
        case "descriptor":
            return f"g[10] = descriptor_sw{values['swizzle']}(&s, 16, 1024);"
        case "wgmma_run" | "wgmma_operands":
            return ";"  # macros of the instructions' texts
        case "wgmma_fixed":
            name = f"SM90_64x{values['n']}x16_F32{kind}{kind}_{values['source']}"
            a, operand = ("", "n") if values["source"] == "SS" else ("u32 a[4] = {}; ", "a")
            registers = int(values["n"]) // 2
            return f"{{ float d[{registers}] = {{}}; {a}{name}::fma(d, {operand}, n, n > 0); g[13] = d[0]; }}"
        case "wgmma":
            name = f"SM90_64x{values['n']}x16_F32{kind}{kind}_{values['source']}"
            registers = int(values["n"]) // 2
            if values["source"] == "SS":
                return (
                    f"{{ float d[{registers}] = {{}}; {name}<Major::K, Major::MN>::fma(d, n, n, n > 0); "
                    f"{name}<Major::MN, Major::K>::fma(d, n, n, true); g[11] = d[0]; }}"
                )
            return (
                f"{{ float d[{registers}] = {{}}; u32 a[4] = {{}}; {name}<Major::K>::fma(d, a, n, n > 0); "
                f"{name}<Major::MN>::fma(d, a, n, true); g[12] = d[0]; }}"
            )
        case "atomic_add":
            return {
                "f32": "reduce_add(g, 1.0f);",
                "f16x2": "reduce_add(reinterpret_cast<half2*>(g), half2(1.0f, 2.0f));",
                "bf16x2": "reduce_add(reinterpret_cast<__nv_bfloat162*>(g), __nv_bfloat162(1.0f, 2.0f));",
                "f32x2": "reduce_add_v2(g, make_float2(1.0f, 2.0f));",
                "f32x4": "reduce_add_v4(g, make_float4(1.0f, 2.0f, 3.0f, 4.0f));",
            }[str(values["type"])]
        case "atomic_extreme":
            pointer = {"f32": "float", "f16": "half", "bf16": "__nv_bfloat16"}[str(values["type"])]
            return f"atomic_{values['op']}(reinterpret_cast<{pointer}*>(g), {pointer}(1.0f));"
        case "int4_pair":
            pair = "half2" if values["type"] == "f16" else "__nv_bfloat162"
            return f"*reinterpret_cast<{pair}*>(g) = {int4_function(pair, values['apart'])}<8>(n, 8);"
        case name:
            return _USES[name]


def _file() -> str:
    """A file with every primitive, each used by a kernel of which nothing is meant to run."""
    banner = "// " + 40 * "-"
    uses = "\n".join(f"  {_use(primitive)}" for primitive in _every_primitive())
    return f"""#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {{

{banner} device types

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;
using u64 = unsigned long long;

{banner} configuration

struct SharedStorage {{
  float x;
  u64 b;
}};

{banner} device primitives

{render_primitives(_every_primitive(), "cuda")}
}}  // namespace

{banner} kernel

extern "C" __global__ void every(const __grid_constant__ CUtensorMap map, float* g, int n) {{
  SharedStorage& s = shared_storage();
{uses}
}}
"""


def test_every_rule_has_a_text_and_a_twin() -> None:
    texts = {path.stem for path in (templates_root() / "cuda" / "primitives").glob("*.cuh")}
    twins = {path.stem for path in (templates_root() / "emulator" / "primitives" / "cuda").glob("*.hpp")}
    assert texts == set(_RULES)
    assert twins == set(_RULES)


@pytest.mark.parametrize("dialect", ["cuda", "emulator"])
def test_texts_keep_to_the_house_style(dialect: str) -> None:
    for primitive in _every_primitive():
        text = render_primitives([primitive], "cuda" if dialect == "cuda" else "emulator")
        assert text.isascii() and "\t" not in text and "\n\n\n" not in text
        assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())
        assert dialect == "emulator" or "asm" not in text or "PTX ISA" in text


def test_requirements_come_first_and_once() -> None:
    wanted = [Primitive.of("wgmma", n=64, a="f16", d="f32", source="SS"), Primitive("mbarrier_init")]
    closed = close_over_requirements([*wanted, *wanted], "cuda")
    names = [primitive.name for primitive in closed]
    assert names == ["shared_address", "mbarrier_init", "wgmma_run", "wgmma_operands", "major", "wgmma"]
    assert render_primitives(wanted, "cuda") == render_primitives(reversed(wanted), "cuda")


def test_parameters_are_checked() -> None:
    with pytest.raises(UnknownPrimitive, match="no cuda primitive named tma_laod"):
        render_primitives([Primitive("tma_laod")], "cuda")
    with pytest.raises(UnknownPrimitive, match="rank=6"):
        render_primitives([Primitive.of("tma_store", rank=6, hint="")], "cuda")
    with pytest.raises(UnknownPrimitive, match="takes the parameters rank, multicast, hint, not rank"):
        render_primitives([Primitive.of("tma_load", rank=2)], "cuda")
    with pytest.raises(UnknownPrimitive, match="RS operands has no majors K, MN"):
        render_primitives(
            [Primitive.of("wgmma_fixed", n=64, a="f16", d="f32", source="RS", majors="K, MN")], "cuda"
        )


def test_every_primitive_compiles_for_the_device(require_tool: Callable[[str], None]) -> None:
    require_tool("nvcc")
    source = "#pragma nv_diag_suppress 177\n" + _file()  # of a primitive's requirements, one use is enough
    compile_cuda(source, load_target("sm_90a"), "nvcc")


def test_every_twin_compiles_for_the_host(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    primitives = [[primitive.name, primitive.values()] for primitive in _every_primitive()]
    facts = {"kernel": "every", "target": "sm_90a", "language": "cuda", "primitives": primitives}
    assert build(_file(), facts).is_file()
