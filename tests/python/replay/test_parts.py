"""The division of a replay among the machines of a cluster."""

import random

import numpy as np
import pytest

import apscope
from apscope._replay.cluster import work_items
from apscope._replay.job import Job
from apscope._replay.parts import Item, parts_by_cost
from apscope.record import TraceWriter


def at(costs, step=0):
    """One tensor in each, all at one step."""
    return [
        Item(tensor, step, cost, 1, pair=100 * step + tensor, place=tensor)
        for tensor, cost in enumerate(costs)
    ]


def cost(part):
    return sum(item.cost for item in part.items)


def test_parts_cost_what_their_machines_can_do():
    items = at([8.0, 1.0, 1.0, 5.0, 1.0, 0.0, 2.0, 6.0])
    parts = parts_by_cost(items, [1, 3])
    assert sorted(pair for part in parts for pair in part.pairs) == list(range(len(items)))
    assert [cost(part) for part in parts] == [6.0, 18.0]
    assert [part.pairs for part in parts_by_cost(at([3.0]), [2, 2])] == [[0], []]
    assert [len(part.pairs) for part in parts_by_cost(at([1.0] * 10), [1, 1])] == [5, 5]


def test_steps_stay_whole_where_a_machine_has_time_for_them():
    items = [item for step in range(100) for item in at([3.0, 2.0, 1.0], step)]
    parts = parts_by_cost(items, [1, 1, 2])
    steps = [part.steps(100) for part in parts]
    assert [len(of) for of in steps] == [25, 25, 50]
    assert sorted(step for of in steps for step in of) == list(range(100))


def test_a_step_that_is_left_is_shared_out():
    parts = parts_by_cost([item for step in range(3) for item in at([1.0] * 4, step)], [1, 1])
    assert [cost(part) for part in parts] == [6.0, 6.0]
    assert set(parts[0].steps(3)) & set(parts[1].steps(3)) == {2}


@pytest.mark.parametrize("steps", [5, 10, 25, 31, 100])
def test_steps_that_are_left_go_to_few_machines_each(steps):
    sizes = [1.0 + k % 7 for k in range(161)]
    parts = parts_by_cost([item for step in range(steps) for item in at(sizes, step)], [1] * 16)
    assert sum(len(part.steps(steps)) for part in parts) <= steps + 2 * len(parts)
    assert max(map(cost, parts)) <= sum(sizes) * steps / 16 + max(sizes)


def test_who_does_a_tensor_through_all_steps_reads_all_of_them():
    through = [Item(tensor, None, 4.0, 1, place=tensor) for tensor in range(2)]
    parts = parts_by_cost(
        through[:1] + [item for step in range(4) for item in at([1.0], step)], [1, 1]
    )
    assert [part.steps(4) for part in parts] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert [(part.places, part.pairs) for part in parts] == [
        ([0], []),
        ([0, 0, 0, 0], [0, 100, 200, 300]),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_nor_done_twice_and_all_end_together(seed):
    draw = random.Random(seed)
    steps, tensors = draw.randint(1, 30), draw.randint(1, 30)
    sizes = [draw.expovariate(1.0) for _ in range(tensors)]
    items = [
        Item(k, t, sizes[k], 1, pair=t * tensors + k, place=t * tensors + k)
        for t in range(steps)
        for k in range(tensors)
    ]
    items += [
        Item(k, None, sizes[k] * steps, 1, place=steps * tensors + k)
        for k in range(tensors)
        if draw.random() < 0.3
    ]
    threads = [draw.randint(1, 8) for _ in range(draw.randint(1, 6))]
    parts = parts_by_cost(items, threads)
    assert sorted(place for part in parts for place in part.places) == sorted(
        item.place for item in items
    )
    assert sorted(pair for part in parts for pair in part.pairs) == list(range(steps * tensors))
    ends = [cost(part) / count for part, count in zip(parts, threads)]
    best = sum(item.cost for item in items) / sum(threads)
    # Graham's bound, here on machines of several threads.
    assert max(ends) <= best + max(item.cost for item in items)
    assert all(part.cost == pytest.approx(cost(part)) for part in parts)


@pytest.fixture
def trace(tmp_path):
    """One large tensor takes as long as all the others together."""
    with TraceWriter(tmp_path / "t", workers=2) as writer:
        for step in range(2):
            for rank in range(2):
                writer.add(step, rank, "large", np.ones(50_000, np.float32))
                for i in range(10):
                    writer.add(step, rank, f"small{i}", np.ones(5_000, np.float32))
            writer.end_step(step, loss=1.0)
    return apscope.open_trace(tmp_path / "t")


def job(specs, steps, shard=(0, 1)):
    return Job(
        (specs, ["ring"], steps, list(range(11)), 2, 0),
        shard,
        1,
        1,
        0,
        {},
        False,
        "cpu",
        ["gradient"],
        True,
    )


def test_a_part_is_made_by_cost_not_by_count(trace):
    items = work_items(trace, job(["sign"], [0]))
    assert len(items) == 11 and all(item.cost > 0 for item in items)
    assert sorted(len(part.items) for part in parts_by_cost(items, [1, 1])) == [1, 10]


def test_items_visit_every_value_once_a_scheme_and_once_for_the_statistics(trace):
    values = 2 * sum(tensor.size for tensor in trace.manifest.tensors)
    specs = ["sign", "aps:e4m3", "error_feedback(sign)"]
    assert sum(item.values for item in work_items(trace, job(specs, [0, 1]))) == 2 * values * (
        len(specs) + 1
    )
    for shards in (2, 3):
        parts = [work_items(trace, job(specs, [0, 1], (shard, shards))) for shard in range(shards)]
        assert sum(item.values for items in parts for item in items) == 2 * values * (
            len(specs) + shards
        )
        assert all(
            sorted(item.pair for item in items if item.pair is not None) == list(range(22))
            for items in parts
        )
