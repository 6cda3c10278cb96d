"""The order of a result's rows depends on the request alone: not on threads, and not on shards."""

import numpy as np
import pytest

from apscope import merge, open_trace, replay
from apscope.record import TraceWriter

# Of the first the plain form has no memory of elements, and what it is in two phases has.
SCHEMES = [
    "delayed_scaling:e4m3",
    "none:fp32",
    "error_feedback(sign)",
    "qsgd:levels=15",
    "dynamic_loss_scaling:e4m3",
]
TOPOLOGIES = ["two_phase", "ring", "hierarchical:2(two_phase,two_phase)"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    random = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("order") / "trace"
    with TraceWriter(folder, workers=4) as writer:
        for step in range(3):
            for worker in range(4):
                for tensor in ("a", "b"):
                    writer.add(step, worker, tensor, random.normal(0, 1, (9, 7)).astype("f4"))
            writer.end_step(step, loss=1.0)
    return open_trace(folder)


def of_threads(trace, threads):
    return replay(trace, SCHEMES, topology=TOPOLOGIES, threads=threads)


def test_rows_are_by_step_tensor_scheme_and_topology(trace):
    frame = of_threads(trace, 1).frame
    places = ["", "exact", None, *TOPOLOGIES]

    def place(row):
        known = row.topology if row.topology in places else None
        if row.stage == "wire" and known in ("exact", "ring"):
            known = ""
        return (row.step, row.tensor, SCHEMES.index(row.scheme), places.index(known))

    keys = [place(row) for row in frame.itertuples()]
    assert keys == sorted(keys)


def test_threads_do_not_change_the_order(trace):
    one = of_threads(trace, 1).frame
    for _ in range(30):
        assert of_threads(trace, 8).frame.equals(one)


@pytest.mark.parametrize("persistence", [False, True])
def test_merged_shards_are_in_the_order_of_the_whole(trace, persistence):
    def some(shard=None):
        return replay(
            trace, SCHEMES, topology=TOPOLOGIES, shard=shard, persistence=persistence, threads=8
        )

    whole, merged = some(), merge([some((i, 3)) for i in range(3)])
    assert merged.frame.equals(whole.frame)
    assert merged.persistence.equals(whole.persistence)
