"""The kernel model of a persistent Hopper GEMM with a ReLU, built by hand: what lowering makes of the quick start."""

from __future__ import annotations

from tilegen.ir.types import float16, int32
from tilegen.model import build as c
from tilegen.model.expressions import Braces, CExpr, Literal, Name, Operation, Prefix, Reinterpret
from tilegen.model.kernel import (
    BufferRow,
    Constant,
    KernelModel,
    Launch,
    Requirement,
    ScalarParameter,
    SharedMember,
    StaticAssert,
    TensorArgument,
    TensorMap,
)
from tilegen.model.statements import (
    AssignC,
    Banner,
    Blank,
    Comment,
    CStmt,
    Declare,
    Expression,
    ForC,
    IfC,
    Return,
)
from tilegen.target import load_target

LIMITS = load_target("sm_90a").limits


def n(name: str) -> Name:
    return Name(name)


def op(left: c.Operand, operator: str, right: c.Operand) -> CExpr:
    return Operation(operator, c.expr(left), c.expr(right))


def ceil(extent: str, block: str) -> CExpr:
    return op(op(op(extent, "+", block), "-", 1), "/", block)


RING_STAGE = c.member("ring", "stage")
RING_PHASE = c.member("ring", "phase")


def barrier(name: str, stage: CExpr = RING_STAGE) -> CExpr:
    return c.index(c.member("shared", name), stage)


def tile(name: str) -> CExpr:
    return c.index(c.member("shared", name), RING_STAGE)


def do(function: str, *arguments: c.Operand, template: tuple[c.Operand, ...] = ()) -> Expression:
    return Expression(c.call(function, *arguments, template=template))


def loop(variable: str, stop: c.Operand, *body: CStmt, unroll: bool = False, comment: str = "") -> ForC:
    return ForC(variable, Literal(0), c.expr(stop), body, unroll=unroll or None, comment=comment)


def tiles_loop(*body: CStmt) -> ForC:
    condition = op("tile", "<", op("tiles_m", "*", "tiles_n"))
    return ForC(
        "tile", c.member("blockIdx", "x"), condition, body, step=c.member("gridDim", "x"), condition=condition
    )


COORDINATES = Declare(
    "auto", "", c.call("tile_coordinates", "tile", "tiles_n", "tiles_m"), structured=("bx", "by")
)


def prologue() -> tuple[CStmt, ...]:
    thread = c.member("threadIdx", "x")
    return (
        Declare("SharedStorage", "shared", c.call("shared_storage"), reference=True),
        Blank(),
        Declare(
            "int",
            "warpgroup",
            op(thread, "/", "kWarpgroup"),
            const=True,
            comment="0 produces, 1 and 2 consume",
        ),
        Declare("int", "tiles_m", ceil("M", "kBlockM"), const=True),
        Declare("int", "tiles_n", ceil("N", "kBlockN"), const=True),
        Declare("int", "k_tiles", ceil("K", "kBlockK"), const=True),
        Blank(),
        IfC(
            op(thread, "==", 0),
            (
                loop(
                    "stage",
                    "kStages",
                    do("mbarrier_init", barrier("full", n("stage")), 1),
                    do("mbarrier_init", barrier("empty", n("stage")), "kConsumers"),
                ),
                do("fence_barrier_init"),
            ),
        ),
        do("__syncthreads"),
        Blank(),
    )


def producer() -> tuple[CStmt, ...]:
    load_a = do(
        "tma_load_2d",
        tile("A_shared"),
        "A",
        op("k", "*", "kBlockK"),
        op("by", "*", "kBlockM"),
        barrier("full"),
    )
    load_b = do(
        "tma_load_2d",
        c.index(tile("B_shared"), "group"),
        "B",
        op(op("bx", "*", "kBlockN"), "+", op("group", "*", "kSwizzleColumns")),
        op("k", "*", "kBlockK"),
        barrier("full"),
    )
    k_loop = loop(
        "k",
        "k_tiles",
        do("mbarrier_wait", barrier("empty"), RING_PHASE),
        do("mbarrier_arrive_expect_tx", barrier("full"), "kStageBytes"),
        Blank(),
        Comment("matmul.py:25  T.copy(A[by * block_M, k * block_K], A_shared)"),
        load_a,
        Blank(),
        Comment("matmul.py:26  T.copy(B[k * block_K, bx * block_N], B_shared)"),
        loop("group", "kColumnGroups", load_b, unroll=True),
        do("ring.advance"),
        comment="matmul.py:24  for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3)",
    )
    walk = (
        Declare("auto", "ring", c.call("RingState<kStages>", 1), comment="every stage starts empty"),
        tiles_loop(COORDINATES, k_loop),
    )
    return (
        Banner("producer"),
        IfC(
            op("warpgroup", "==", 0),
            (
                do("register_release", template=("kProducerRegisters",)),
                IfC(op(c.member("threadIdx", "x"), "==", 0), walk),
                Return(),
            ),
        ),
        Blank(),
    )


def main_loop() -> tuple[CStmt, ...]:
    half_size = c.call("sizeof", "half")
    offset_a = op(op(8, "*", "kBlockK"), "*", half_size)
    offset_b = op(op("kBlockK", "*", "kSwizzleColumns"), "*", half_size)
    first_row = c.index(tile("A_shared"), op(64, "*", "consumer"))
    fma = do(
        "SM90_64x256x16_F32F16F16_SS<Major::K, Major::MN>::fma",
        "C_local",
        op("a", "+", op(2, "*", "kk")),
        op("b", "+", op(128, "*", "kk")),
        op(op("k", ">", 0), "||", op("kk", ">", 0)),
    )
    leader = op("thread", "==", 0)
    return (
        Comment("Main loop"),
        Declare("int", "released", Literal(0), comment="the stage whose wgmma may still read it"),
        loop(
            "k",
            "k_tiles",
            do("mbarrier_wait", barrier("full"), RING_PHASE),
            Blank(),
            Comment("matmul.py:27  T.gemm(A_shared, B_shared, C_local)"),
            Declare("u64", "a", c.call("descriptor_sw128", first_row, 0, offset_a), const=True),
            Declare("u64", "b", c.call("descriptor_sw128", tile("B_shared"), offset_b, 1024), const=True),
            do("warpgroup_arrive"),
            loop(
                "kk",
                op("kBlockK", "/", 16),
                fma,
                unroll=True,
                comment="in 16-byte units: A advances 16 columns, B 16 rows",
            ),
            do("warpgroup_commit"),
            Blank(),
            Expression(c.call("warpgroup_wait", template=(1,)), comment="the previous stage has been read"),
            IfC(op(op("k", ">", 0), "&&", leader), (do("mbarrier_arrive", barrier("empty", n("released"))),)),
            AssignC(n("released"), RING_STAGE),
            do("ring.advance"),
            comment="matmul.py:24",
        ),
        do("warpgroup_wait", template=(0,)),
        IfC(
            op(op("k_tiles", ">", 0), "&&", leader), (do("mbarrier_arrive", barrier("empty", n("released"))),)
        ),
        Blank(),
    )


def epilogue() -> tuple[CStmt, ...]:
    leader = op("thread", "==", 0)
    row = op(op(16, "*", "warp"), "+", op("lane", "%", 16))
    chunk = op(op(op(2, "*", op("j", "%", 4)), "+", op("lane", "/", 16)), "^", op("row", "%", 8))
    first = op(op(8, "*", "j"), "+", op(2, "*", "q"))
    pair = c.call("__floats2half2_rn", c.index("C_local", first), c.index("C_local", op(first, "+", 1)))
    target = c.index(c.member("shared", "C_shared"), op("j", "/", 4), "consumer", "row", op(8, "*", "chunk"))
    store = do(
        "tma_store_2d",
        "C",
        c.index(c.member("shared", "C_shared"), "group", "consumer"),
        op(op("bx", "*", "kBlockN"), "+", op("group", "*", "kSwizzleColumns")),
        op(op("by", "*", "kBlockM"), "+", op(64, "*", "consumer")),
    )
    register = c.index("C_local", "r")
    synchronise = do("named_barrier_sync", op(1, "+", "consumer"), "kWarpgroup")
    return (
        Comment("Epilogue\nmatmul.py:28  C_local[i, j] = T.max(C_local[i, j], 0)"),
        loop("r", 128, AssignC(register, c.call("fmaxf", register, Literal(0.0, "float"))), unroll=True),
        Blank(),
        Comment("matmul.py:30  T.copy(C_local, C[by * block_M, bx * block_N])"),
        IfC(
            leader,
            (
                Expression(
                    c.call("tma_store_wait_read"), comment="C_shared of the previous tile has been read"
                ),
            ),
        ),
        synchronise,
        Blank(),
        Declare("int", "row", row, const=True),
        loop(
            "j",
            op("kBlockN", "/", 16),
            Declare("u32", "fragment", dimensions=(Literal(4),)),
            loop(
                "q",
                4,
                Declare("half2", "pair", pair, const=True),
                AssignC(c.index("fragment", "q"), Reinterpret("u32", n("pair"), const=True)),
                unroll=True,
            ),
            Declare("int", "chunk", chunk, const=True, comment="8-column chunk under the 128-byte swizzle"),
            do("stmatrix_x4", Prefix("&", target), "fragment"),
            unroll=True,
            comment="one stmatrix writes 16 rows x 16 columns",
        ),
        do("fence_proxy_async"),
        synchronise,
        IfC(leader, (loop("group", "kColumnGroups", store, unroll=True), do("tma_store_commit"))),
    )


def consumers() -> tuple[CStmt, ...]:
    return (
        Banner("consumers"),
        do("register_acquire", template=("kConsumerRegisters",)),
        Declare("int", "consumer", op("warpgroup", "-", 1), const=True),
        Declare("int", "thread", op(c.member("threadIdx", "x"), "%", "kWarpgroup"), const=True),
        Declare("int", "warp", op("thread", "/", 32), const=True),
        Declare("int", "lane", op("thread", "%", 32), const=True),
        Declare(
            "float",
            "C_local",
            Braces(()),
            dimensions=(Literal(128),),
            comment="rows 64 * consumer + 16 * warp + lane / 4 (+ 8), columns 8 j + 2 (lane % 4)",
        ),
        Declare("auto", "ring", c.call("RingState<kStages>", 0)),
        Blank(),
        tiles_loop(COORDINATES, Blank(), *main_loop(), *epilogue()),
        IfC(op("thread", "==", 0), (do("tma_store_wait_read"),)),
    )


def tensor_map(
    name: str, rows: str, columns: str, box: tuple[c.Operand, c.Operand], values: tuple[int, int]
) -> TensorMap:
    return TensorMap(
        parameter=name,
        tensor=name,
        dtype=float16,
        extents=(n(columns), n(rows)),
        strides=(op(2, "*", columns),),
        box=(c.expr(box[0]), c.expr(box[1])),
        swizzle=128,
        l2_promotion=128,
        box_values=values,
    )


def matmul_model() -> KernelModel:
    divisible = "{0} % 8 == 0"
    tiles = op(ceil("M", "kBlockM"), "*", ceil("N", "kBlockN"))
    return KernelModel(
        name="matmul_relu",
        target="sm_90a",
        language="cuda",
        summary="C = max(A @ B, 0)",
        source="examples/matmul.py:12",
        digest="3f1c09a2",
        regenerate=(
            "tilegen emit examples/matmul.py:matmul_relu --target sm_90a --set block_M=128 --set block_N=256 "
            "--set block_K=64"
        ),
        parameters=(
            tensor_map("A", "M", "K", ("kBlockK", "kBlockM"), (64, 128)),
            tensor_map("B", "K", "N", ("kSwizzleColumns", "kBlockK"), (64, 64)),
            tensor_map("C", "M", "N", ("kSwizzleColumns", 64), (64, 64)),
            ScalarParameter("M", int32, n("M")),
            ScalarParameter("N", int32, n("N")),
            ScalarParameter("K", int32, n("K")),
        ),
        tensors=(
            TensorArgument("A", float16, (n("M"), n("K")), None, "input", notes=(divisible.format("K"),)),
            TensorArgument("B", float16, (n("K"), n("N")), None, "input", notes=(divisible.format("N"),)),
            TensorArgument("C", float16, (n("M"), n("N")), None, "output", notes=(divisible.format("N"),)),
        ),
        extents=("M", "N", "K"),
        scalars=(),
        requirements=(
            Requirement(op(op("K", "%", 8), "==", 0), "K % 8 == 0"),
            Requirement(op(op("N", "%", 8), "==", 0), "N % 8 == 0"),
        ),
        constants=constants(),
        shared=(
            SharedMember("half", "A_shared", (n("kStages"), n("kBlockM"), n("kBlockK")), 49152, 1024),
            SharedMember(
                "half",
                "B_shared",
                (n("kStages"), n("kColumnGroups"), n("kBlockK"), n("kSwizzleColumns")),
                98304,
                1024,
            ),
            SharedMember(
                "half",
                "C_shared",
                (n("kColumnGroups"), n("kConsumers"), Literal(64), n("kSwizzleColumns")),
                65536,
                1024,
            ),
            SharedMember("u64", "full", (n("kStages"),), 24, 8),
            SharedMember("u64", "empty", (n("kStages"),), 24, 8),
        ),
        asserts=(
            StaticAssert(
                op(c.call("sizeof", "SharedStorage"), "<=", op(227, "*", 1024)),
                "the tile and its stages exceed the shared memory of sm_90",
            ),
            StaticAssert(
                op(
                    op("kProducerRegisters", "+", op("kConsumers", "*", "kConsumerRegisters")),
                    "<=",
                    op("kEntryRegisters", "*", op(1, "+", "kConsumers")),
                ),
                "the warpgroups ask for more registers than the block owns: setmaxnreg would wait for ever",
            ),
        ),
        primitives=primitives(),
        helpers=("ring_state", "raster_tiles"),
        helper_values=(("first", "bx"), ("second", "by"), ("order", "row")),
        body=(*prologue(), *producer(), *consumers()),
        launch=Launch(
            grid=(c.call("min", tiles, "multiprocessors"), Literal(1), Literal(1)),
            grid_text="min(tiles, multiprocessors), tiles = ceil(M / 128) * ceil(N / 256)   (persistent)",
            grid_limits=LIMITS.grid,
            grid_threads=LIMITS.grid_threads,
            block=384,
            block_text="384 threads = 1 producer warpgroup + 2 consumer warpgroups",
            shared_bytes=214016,
            asks_for_shared=True,
            registers_text="168 at entry, then 40 (producer) and 232 (consumer)",
            uses_multiprocessors=True,
        ),
        buffers=(
            BufferRow(
                "A_shared", "shared", "fp16 [3][128, 64]", "Sw<3,3,3> o (128, 64):(64, 1)", "49,152", "0"
            ),
            BufferRow(
                "B_shared",
                "shared",
                "fp16 [3][64, 256]",
                "Sw<3,3,3> o (64, (64, 4)):(64, (1, 4096))",
                "98,304",
                "0",
            ),
            BufferRow(
                "C_shared",
                "shared",
                "fp16 [128, 256]",
                "Sw<3,3,3> o ((64, 2), (64, 4)):((64, 4096), (1, 8192))",
                "65,536",
                "0",
            ),
            BufferRow(
                "C_local",
                "registers",
                "fp32 [128, 256]",
                "((4, 8, 4, 2), (2, 2, 32)), 128 a thread",
                "",
                "",
            ),
        ),
        pipeline=(
            "k: 3 stages, full/empty barriers over {A_shared, B_shared}; loads by TMA, math by wgmma m64n256k16",
        ),
        outputs=("C",),
    )


def constants() -> tuple[Constant, ...]:
    stage_bytes = op(op(c.call("sizeof", "half"), "*", op("kBlockM", "+", "kBlockN")), "*", "kBlockK")
    return (
        Constant("kBlockM", Literal(128)),
        Constant("kBlockN", Literal(256)),
        Constant("kBlockK", Literal(64)),
        Constant("kStages", Literal(3)),
        Constant("kConsumers", Literal(2), comment="warpgroups; each owns 64 rows of the tile"),
        Constant("kWarpgroup", Literal(128), comment="threads"),
        Constant("kThreads", op("kWarpgroup", "*", op(1, "+", "kConsumers"))),
        Constant("kEntryRegisters", Literal(168), comment="65,536 over the block's threads, in steps of 8"),
        Constant("kProducerRegisters", Literal(40)),
        Constant("kConsumerRegisters", Literal(232)),
        Constant("kRasterGroup", Literal(8), comment="tile rows walked together, so that B stays in L2"),
        Constant("kSwizzleColumns", Literal(64), comment="fp16 elements in one 128-byte swizzle row"),
        Constant("kColumnGroups", op("kBlockN", "/", "kSwizzleColumns")),
        Constant("kStageBytes", stage_bytes, "u32"),
        Constant("kUnused", Literal(7)),
    )


def primitives() -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
    plain = (
        "shared_storage", "mbarrier_init", "mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_wait",
        "tma_store_commit", "tma_store_wait_read", "fence_barrier_init", "fence_proxy_async", "warpgroup_arrive",
        "warpgroup_commit", "warpgroup_wait", "register_release", "register_acquire", "named_barrier_sync",
    )  # fmt: skip
    return (
        *((name, ()) for name in plain),
        ("tma_load", (("hint", ""), ("rank", 2), ("multicast", False))),
        ("tma_store", (("hint", ""), ("rank", 2))),
        ("descriptor", (("swizzle", 128),)),
        ("wgmma", (("n", 256), ("a", "f16"), ("d", "f32"), ("source", "SS"))),
        ("stmatrix", (("count", 4), ("transpose", False))),
    )
