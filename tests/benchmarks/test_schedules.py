"""The search space: every schedule is legal for its target, and the model's order is sane."""

from __future__ import annotations

import pytest

from benchmarks.cases import SIZES, UNSEEN, GemmCase, UnknownCase, acceptance_cases, parse_layouts, parse_size
from benchmarks.schedules import Problem, Schedule, default_schedule, predicted_cycles, search_space
from tilegen.target import load_target


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("size", [*SIZES.values(), *UNSEEN])
def test_schedules_fit_their_target(target, size):
    limits = load_target(target).limits
    schedules = search_space(Problem(*size), target)
    assert len(set(schedules)) == len(schedules) > 8
    for schedule in schedules:
        assert 2 <= schedule.num_stages <= 6
        assert schedule.num_stages * schedule.stage_bytes <= limits.shared_bytes_per_block
        assert schedule.accumulators <= 192
        assert schedule.cluster == 1 or target == "sm_90a"


def test_a_schedule_reads_back():
    schedules = [
        s for size in ((4096, 4096, 4096), (16, 4096, 14336)) for s in search_space(Problem(*size), "sm_90a")
    ]
    assert any(schedule.split > 1 for schedule in schedules)
    assert {s.along for s in schedules if s.cluster > 1} == {"M", "N"}
    for schedule in schedules:
        assert Schedule.parse(str(schedule)) == schedule
    with pytest.raises(ValueError, match="is no schedule"):
        Schedule.parse("128x256")


def test_large_products_take_large_tiles_and_few_rows_small_ones():
    large = default_schedule(Problem(8192, 8192, 8192), "sm_90a")
    assert large.block_M * large.block_N >= 128 * 192
    assert default_schedule(Problem(16, 28672, 8192), "sm_90a").block_M <= 64


def test_where_memory_bounds_all_w_is_read_once_and_too_many_loads_are_in_each_others_way():
    """Measured on the H200: two rows of tiles take 16 % longer than one, six stages 3 % longer than three."""
    target = load_target("sm_90a")
    assert default_schedule(Problem(128, 28672, 8192), "sm_90a").block_M == 128
    three, six = (Schedule(16, 256, 64, stages, 128) for stages in (3, 6))
    problem = Problem(16, 28672, 8192)
    assert predicted_cycles(problem, three, target) < predicted_cycles(problem, six, target)
    assert three in search_space(problem, "sm_90a")


def test_few_tiles_with_a_long_k_are_shared_and_no_others():
    """Measured on the H200: at 512x512x16384 four blocks a tile take 21 µs, one 32; at 64x4096x4096 two take longer."""
    multiprocessors = load_target("sm_90a").device.multiprocessors
    for size in ((512, 512, 16384), (16, 4096, 14336)):
        best = default_schedule(Problem(*size), "sm_90a")
        assert best.split > 1
        tiles = -(-size[0] // best.block_M) * -(-size[1] // best.block_N)
        assert tiles * best.split <= multiprocessors
    for size in ((64, 4096, 4096), (256, 4096, 4096), (8192, 8192, 8192)):
        assert default_schedule(Problem(*size), "sm_90a").split == 1


def test_clusters_pay_where_rows_split_sectors_and_want_neighbours():
    """Each multiprocessor receives all of a tile, whoever asked for it: sharing spares L2's side alone."""
    target = load_target("sm_90a")
    alone, shared = (Schedule(64, 128, 64, 6, 128, persistent=True, cluster=cluster) for cluster in (1, 2))
    whole, split = Problem(512, 2048, 8192), Problem(1000, 1000, 10000)
    assert predicted_cycles(whole, alone, target) < predicted_cycles(whole, shared, target)
    assert predicted_cycles(split, alone, target) > predicted_cycles(split, shared, target)
    one_row = search_space(Problem(16, 4096, 4096), "sm_90a", limit=1000)
    assert len(one_row) > 100 and all(s.cluster == 1 or s.along == "N" for s in one_row)


def test_the_model_knows_that_more_work_takes_longer():
    target = load_target("sm_90a")
    schedule = default_schedule(Problem(8192, 8192, 8192), "sm_90a")
    times = [predicted_cycles(Problem(8192, 8192, k), schedule, target) for k in (1024, 2048, 8192)]
    assert times == sorted(times)


def test_the_model_knows_what_small_tiles_of_warps_read():
    target, problem = load_target("sm_80"), Problem(8192, 8192, 8192)
    four, eight = (Schedule(128, 128, 32, 4, threads) for threads in (128, 256))
    assert predicted_cycles(problem, four, target) < predicted_cycles(problem, eight, target)


def test_the_acceptance_cases_are_those_of_the_table():
    names = {case.name for case in acceptance_cases()}
    assert len(names) == 24 + 2 + 1 + 2 + len(UNSEEN)
    assert "8192x8192x8192 fp16 NN" in names
    assert "4096x28672x8192 bf16 TN" in names
    assert "16x28672x8192 fp16 NN" in names
    assert "8192x8192x8192 fp16 NN quick start" in names
    assert "4096x4096x4096 fp16 NN sm_80" in names


def test_stored_shapes_follow_the_layout():
    problem = Problem(5, 6, 7)
    assert GemmCase(problem, layout="NN").stored_shapes == ((5, 7), (7, 6))
    assert GemmCase(problem, layout="NT").stored_shapes == ((5, 7), (6, 7))
    assert GemmCase(problem, layout="TN").stored_shapes == ((7, 5), (7, 6))


def test_names_that_are_wrong_say_what_is_right():
    assert parse_size("512x256x64") == Problem(512, 256, 64)
    with pytest.raises(UnknownCase, match="square8192"):
        parse_size("square")
    with pytest.raises(UnknownCase, match="NN, NT"):
        parse_layouts("NX")
