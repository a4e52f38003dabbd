"""An operation of one's own: sorts each row of a fragment, and a kernel that uses it.

docs/adding_an_operation.md explains it line by line.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.model import build as c
from tilegen.model.statements import AssignC
from tilegen.operations import Fragment, Mode

# Batcher's bitonic network: after the steps of one `size`, every run of so many lanes is sorted, up and down in turn.
SORT = """\
// Sorts {columns} values, one a lane, ascending; `place` is the lane's place among them.
TILEGEN_DEVICE {type} bitonic_sort_{columns}({type} value, int place) {{
#pragma unroll
  for (int size = 2; size <= {columns}; size *= 2)
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {{
      const {type} other = {shuffle};
      const bool ascending = size == {columns} || (place & size) == 0;
      const bool keeps_smaller = ((place & stride) == 0) == ascending;
      if ((other < value) == keeps_smaller) value = other;
    }}
  return value;
}}"""


@tilegen.register_operation
class sort_rows(tilegen.TileOperation):
    uses = {"rows": "update"}
    engine = "threads"

    @staticmethod
    def call(rows):
        """Sorts each row of a fragment [M, N] of 32-bit elements, ascending; N is a power of two, at most a warp."""

    def check(self, call):
        _, columns = call.shape("rows")
        if call.scope("rows") != "fragment" or call.dtype("rows").bits != 32:
            call.fail("sort_rows works on fragments of 32-bit elements", "copy the tile to one with T.copy")
        if columns & (columns - 1) or columns > call.target.limits.warp_size:
            call.fail(f"sort_rows cannot sort rows of {columns} elements", "sort 2, 4, 8, 16 or 32 at a time")

    def demands(self, call):
        """Lane l of a run of N holds column l: one register a row, rows over the runs of the block."""
        rows, columns = call.shape("rows")
        runs = call.threads // columns
        threads = (Mode(columns, (0, 1)), Mode(runs, (1, 0)))
        registers = ((Mode(-(-rows // runs), (runs, 0)),),)
        return {"rows": Fragment((rows, columns), threads, registers)}

    def lower(self, call, code):
        _, columns = call.shape("rows")
        code.device_function(
            SORT.format(
                type=code.type_name(call.dtype("rows")),
                columns=columns,
                shuffle=code.text(code.shuffle_xor("value", "stride")),
            )
        )
        place = c.mod(code.lane, columns) if columns < code.warp_size else code.lane

        def sort(registers):
            value = code.register("rows", *registers)
            return [AssignC(value, c.call(f"bitonic_sort_{columns}", value, place))]

        return code.each_register("rows", sort)


@tilegen.jit
def sorted_runs(X, run: int = 32, block_M: int = 32, threads: int = 128):
    """Every run of `run` neighbours in a row, sorted."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, run), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        rows = T.alloc_fragment((block_M, run), T.float32)
        T.copy(X[by * block_M, bx * run], rows)
        sort_rows(rows)
        T.copy(rows, Y[by * block_M, bx * run])
    return Y


kernel = sorted_runs
tolerance = 0.0  # sorting rounds nothing


def inputs(rng, rows=4096, columns=4096):
    """X."""
    return (rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float16),)


def emulation_inputs(rng):
    """A smaller X, of a height that no block divides."""
    return inputs(rng, 75, 96)


def reference(x):
    """The same in NumPy."""
    return np.sort(x.reshape(len(x), -1, 32), axis=-1).reshape(x.shape)


def main():
    (x,) = emulation_inputs(np.random.default_rng(0))
    if not np.array_equal(sorted_runs(x), reference(x)):
        raise SystemExit("wrong result")
    print(f"sorted_runs {x.shape}: every run of 32 is sorted")


if __name__ == "__main__":
    main()
