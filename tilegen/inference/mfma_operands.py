"""Which lane holds which element of the operands and the accumulator of a gemm on CDNA's matrix cores.

The instruction is issued with its operands exchanged, D^T = B^T A^T: a lane then holds neighbours along n of one row
of C, so that stores are wide. Two choices of order make the neighbours meet:

- Along k, any order is right if A and B agree. A lane takes 8 neighbours (16 bytes, one ds_read_b128) wherever the
  tile allows, though an instruction of CDNA2 and CDNA3 multiplies only 4 of them: the first takes the lower halves
  of all lanes, the second the upper ones. CDNA4's instructions take all 8.
- Along n, an accumulator has 4 neighbours, then skips those of the other lanes. Operand B's lanes are permuted so
  that the next 4 registers continue the row: 8 neighbours, again 16 bytes of 16-bit elements.

Both orders are the same one, so the accumulator of a gemm is, converted, the A operand of the next (attention's
P_local) without any movement: lane group g holds 8 g + 0 ... 7 of every 8 * groups columns of its row.

Source: CDNA3 ISA, "Matrix Arithmetic Instructions"; the thread-value layouts of targets/atoms/mfma_*.toml.
"""

from __future__ import annotations

from tilegen.inference.atoms import shifted
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment, Mode

WAVE = 64  # lanes; of every target with mfma
WIDE = 8  # 16-bit elements in 16 bytes
RUN = 4  # neighbours along n in an accumulator of the instruction


def lane_k(decision: GemmDecision) -> int:
    """Neighbours along k that a lane holds of each row of an operand: 8, or the instruction's own number."""
    groups = WAVE // decision.instruction[0]
    return WIDE if decision.k_extent % (WIDE * groups) == 0 else decision.instruction[2] // groups


def step_k(decision: GemmDecision) -> int:
    """Columns of k that one read a row of the operands feeds."""
    return lane_k(decision) * WAVE // decision.instruction[0]


def operand_fragment(decision: GemmDecision, which: str) -> Fragment:
    """Which lane reads which element of an operand: over (m, k) for "a", (n, k) for "b".

    Registers are [repeats][steps][neighbours].
    """
    size = decision.instruction[0]
    groups = WAVE // size
    along_m, along_n = decision.warps
    neighbours = lane_k(decision)
    m, n = decision.c.tile
    own_k = (decision.k_parts, (0, decision.k_extent))
    lanes: tuple[Mode, ...]
    repeats: tuple[Mode, ...]
    if which == "a":
        extent = m
        lanes, repeats = (Mode(size, (1, 0)),), (Mode(decision.repeats[0], (size, 0)),)
        waves = waves_modes((along_m, (m // along_m, 0)), (along_n, (0, 0)), own_k)
    else:
        extent = n
        lanes, repeats = columns_of_n(size, decision.repeats[1], n // along_n)
        waves = waves_modes((along_m, (0, 0)), (along_n, (n // along_n, 0)), own_k)
    step = neighbours * groups
    return Fragment(
        (extent, decision.k_extent * decision.k_parts),
        (*lanes, Mode(groups, (0, neighbours)), *waves),
        (repeats, (Mode(decision.k_extent // step, (0, step)),), (Mode(neighbours, (0, 1)),)),
    )


def accumulator_fragment(
    size: int, tile: tuple[int, int], waves: tuple[int, int], k_parts: int = 1
) -> Fragment:
    """C over (m, n) for instructions of size x size, registers [repeats along m][along n][of the instruction]."""
    (m, n), (along_m, along_n) = tile, waves
    rows, repeats = columns_of_n(size, n // (along_n * size), n // along_n)
    return Fragment(
        tile,
        (
            Mode(size, (1, 0)),
            *_turned(rows[1:2]),
            *waves_modes((along_m, (m // along_m, 0)), (along_n, (0, n // along_n)), (k_parts, (0, 0))),
        ),
        ((Mode(m // (along_m * size), (size, 0)),), _turned(repeats), _turned((rows[0], *rows[2:]))),
    )


def waves_modes(*modes: tuple[int, tuple[int, int]]) -> tuple[Mode, ...]:
    """The thread modes above the lanes; an extent of 1 is none."""
    return tuple(Mode(extent, steps) for extent, steps in modes if extent > 1)


def columns_of_n(size: int, repeats: int, wave_columns: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
    """Which columns of C the rows of the instruction stand for: modes of its row number, and of the repetitions.

    Row 4 (groups q + g) + e of the instruction is register 4 q + e of lane group g. It stands for column
    8 groups (q / 2) + 8 g + 4 (q % 2) + e, so that the registers of q and q + 1 are neighbours; where the
    instruction has one q only (16 x 16), repetitions take its place.
    """
    groups = WAVE // size
    own = size // (RUN * groups)
    wide = 2 * RUN * groups
    if wave_columns % wide:
        plain = (Mode(RUN, (1, 0)), Mode(groups, (RUN, 0)))
        return shifted(plain, own, (RUN * groups, 0)), (Mode(repeats, (size, 0)),)
    rows = (Mode(RUN, (1, 0)), Mode(groups, (2 * RUN, 0)))
    if own > 1:
        return (*rows, Mode(2, (RUN, 0)), *shifted((), own // 2, (wide, 0))), (Mode(repeats, (size, 0)),)
    return rows, (Mode(2, (RUN, 0)), *shifted((), repeats // 2, (wide, 0)))


def _turned(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    return tuple(Mode(mode.extent, (mode.steps[1], mode.steps[0])) for mode in modes)
