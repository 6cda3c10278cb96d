"""One reduction is the default everywhere: a ring, of allreduce, exchange, training and replays."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._replay.replay import DEFAULT_TOPOLOGIES

ROOT = Path(__file__).parents[3]


def default(function):
    return inspect.signature(function).parameters["topology"].default


def test_arrays_and_replays_add_in_a_ring_by_default():
    assert default(apscope.allreduce) == default(apscope.exchange) == "ring"
    assert DEFAULT_TOPOLOGIES[0] == "ring"
    assert next(iter(default(apscope.search))) == "ring"
    # Large and small values, whose sum depends on the order.
    x = np.float32(np.random.default_rng(3).normal(size=(5, 400)) * 2.0 ** np.arange(5)[:, None])
    ring, other = (apscope.allreduce(x, "e4m3", topology=t) for t in ("ring", "sequential"))
    assert (ring != other).any()
    np.testing.assert_array_equal(apscope.allreduce(x, "e4m3"), ring)
    sums = [apscope.exchange("none:e4m3", x, **more).reduced for more in ({}, {"topology": "ring"})]
    np.testing.assert_array_equal(*sums)


def test_training_adds_in_a_ring_by_default():
    pytest.importorskip("torch")
    from apscope.train import ExchangeState, Workers

    assert default(Workers) == default(ExchangeState) == "ring"


def test_the_library_adds_in_a_ring_by_default():
    for header in ("allreduce.h", "exchange.h"):
        text = (ROOT / "bindings/cpp/apscope" / header).read_text()
        assert re.findall(r'std::string topology = "(\w+)";', text) == ["ring"], header
