"""Operations of users for the tests, and programs that call them."""

# mypy: ignore-errors

import tilegen
import tilegen.language as T
from tilegen.model import build as c
from tilegen.model.expressions import Literal, Ternary
from tilegen.model.statements import AssignC, Declare, ForC, IfC
from tilegen.operations import Fragment, Mode, row_major

ARGMAX = """\
// The column of the largest of the values of a run of lanes; of equals the smallest column.
TILEGEN_DEVICE int largest_column({type} value, int column) {{
#pragma unroll
  for (int mask = 1; mask < {run}; mask *= 2) {{
    const {type} other = {shuffle};
    const int where = {shuffle_column};
    if (other > value || (other == value && where < column)) {{
      value = other;
      column = where;
    }}
  }}
  return column;
}}"""


@tilegen.register_operation
class row_argmax(tilegen.TileOperation):
    """Demands rows over runs of lanes, and offers the layout of its result."""

    uses = {"rows": "read", "index": "write"}

    @staticmethod
    def call(rows, index):
        """index[i] = the column of the largest element of row i; of equals the first."""

    def demands(self, call):
        rows, columns = call.shape("rows")
        runs = call.threads // columns
        threads = (Mode(columns, (0, 1)), Mode(runs, (1, 0)))
        return {"rows": Fragment((rows, columns), threads, ((Mode(-(-rows // runs), (runs, 0)),),))}

    def offers(self, call, known):
        rows = known.get("rows")
        return {} if rows is None else {"index": rows.project((0,), call.shape("index"))}

    def lower(self, call, code):
        _, columns = call.shape("rows")
        code.device_function(
            ARGMAX.format(
                type=code.type_name(call.dtype("rows")),
                run=columns,
                shuffle=code.text(code.shuffle_xor("value", "mask")),
                shuffle_column=code.text(code.shuffle_xor("column", "mask")),
            )
        )

        def largest(registers):
            found = c.call("largest_column", code.register("rows", *registers), c.mod(code.lane, columns))
            return [AssignC(code.register("index", *registers), found)]

        return code.each_register("rows", largest)


@tilegen.register_operation
class rotate_rows(tilegen.TileOperation):
    """Works on shared and global tiles by element, with a scalar, an attribute and a barrier of its own."""

    uses = {"source": "read", "tile": "update", "target": "write", "amount": "scalar"}

    @staticmethod
    def call(source, tile, target, amount, mode="left"):
        """target[i, j] = tile[i, (j + amount) % N] + source[0, j]; tile becomes 0."""

    def check(self, call):
        if call.attributes["mode"] not in ("left", "right"):
            call.fail(f"mode is left or right, not {call.attributes['mode']}", 'write mode="left"')

    def lower(self, call, code):
        rows, columns = call.shape("tile")
        sign = "+" if call.attributes["mode"] == "left" else "-"
        row, column = code.name("row"), code.name("column")
        moved = c.operation("%", c.operation(sign, c.add(column, columns), code.scalar("amount")), columns)
        value = c.add(code.element("tile", row, moved), code.element("source", 0, column))
        store = AssignC(code.element("target", row, column), value)
        inside = code.inside("target", row, column)
        per = rows * columns // call.threads
        assert per == 1, "one element a thread"
        return [
            Declare("int", row, c.div(code.thread, columns), const=True),
            Declare("int", column, c.mod(code.thread, columns), const=True),
            store if inside is None else IfC(inside, (store,)),
            code.synchronise(),
            AssignC(code.element("tile", row, column), c.expr(0)),
        ]


@tilegen.register_operation
class halve_tile(tilegen.TileOperation):
    """Demands a plain layout of a shared tile."""

    uses = {"tile": "update"}

    @staticmethod
    def call(tile):
        """tile = tile / 2, in place; elements of 16 bits."""

    def demands(self, call):
        return {"tile": row_major(call.shape("tile"), call.dtype("tile"))}

    def lower(self, call, code):
        rows, columns = call.shape("tile")
        assert (rows * columns) % call.threads == 0
        body = []
        for number in range(rows * columns // call.threads):
            place = c.add(code.thread, number * call.threads)
            element = code.element("tile", c.div(place, columns), c.mod(place, columns))
            half = c.call(code.type_name(call.dtype("tile")), Ternary(c.expr(True), c.expr(1), c.expr(2)))
            body.append(AssignC(element, c.operation("/", element, c.operation("+", half, half))))
        return body


@tilegen.register_operation
class half_of(tilegen.TileOperation):
    """Takes tiles as they are laid out; reads the stage of a ring that is open."""

    uses = {"source": "read", "target": "write"}

    @staticmethod
    def call(source, target):
        """target = source / 2; both shared, of 16 bits."""

    def lower(self, call, code):
        rows, columns = call.shape("source")
        place = c.add(code.thread, c.mul(call.threads, "step"))
        row, column = c.div(place, columns), c.mod(place, columns)
        half = c.call(code.type_name(call.dtype("source")), Literal(0.5, "float"))
        value = c.operation("*", code.element("source", row, column), half)
        store = AssignC(code.element("target", row, column), value)
        steps = rows * columns // call.threads
        return [ForC("step", c.expr(0), c.expr(steps), (store,), unroll=True)]


@tilegen.jit
def argmax_of_rows(X, run=32, block_M=32, threads=128):
    M = T.const("M")
    X: T.Tensor((M, run), T.float32)
    index = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        rows = T.alloc_fragment((block_M, run), T.float32)
        best = T.alloc_fragment((block_M,), T.int32)
        T.copy(X[by * block_M, 0], rows)
        row_argmax(rows, best)
        for i in T.Parallel(block_M):
            best[i] = best[i] * 2
        T.copy(best, index[by * block_M])
    return index


@tilegen.jit
def nearest(A, B, through="shared", block_M=64, N=32, block_K=32, num_stages=2, threads=128):
    """The column of the largest element of each row of A · B: an operation behind a pipelined gemm."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    index = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, N), T.float16)
        C_local = T.alloc_fragment((block_M, N), T.float32)
        rows = T.alloc_fragment((block_M, N), T.float32)
        best = T.alloc_fragment((block_M,), T.int32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, 0], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        if through == "shared":
            C_shared = T.alloc_shared((block_M, N), T.float32)
            T.copy(C_local, C_shared)
            T.copy(C_shared, rows)
            row_argmax(rows, best)
        elif through == "exchange":
            T.copy(C_local, rows)
            row_argmax(rows, best)
        else:
            row_argmax(C_local, best)
        T.copy(best, index[by * block_M])
    return index


@tilegen.jit
def halved_operand(A, B, direct=False, block_M=64, N=64, block_K=32, num_stages=2, threads=128):
    """C = (A / 2) · B, where an operation halves the tile that the pipeline brought, before the gemm reads a copy."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        A_half = T.alloc_shared((block_M, block_K), T.float16)
        A_operand = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, N), T.float16)
        C_local = T.alloc_fragment((block_M, N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, 0], B_shared)
            if direct:
                half_of(A_shared, A_operand)
            else:
                T.copy(A_shared, A_half)
                halve_tile(A_half)
                T.copy(A_half, A_operand)
            T.gemm(A_operand, B_shared, C_local)
        T.copy(C_local, C[by * block_M, 0])
    return C


@tilegen.jit
def rotated(X, add, amount: T.int32, rows=4, columns=32, mode="left"):
    M = T.const("M")
    X: T.Tensor((M, columns), T.float32)
    add: T.Tensor((1, columns), T.float32)
    Y = T.empty((M, columns), T.float32)
    Z = T.empty((M, columns), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=rows * columns) as by:
        tile = T.alloc_shared((rows, columns), T.float32)
        T.copy(X[by * rows, 0], tile)
        rotate_rows(add, tile, Y[by * rows : (by + 1) * rows, :], amount + 1, mode=mode)
        T.copy(tile, Z[by * rows, 0])
    return Y, Z
