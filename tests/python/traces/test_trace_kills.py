"""A trace that is written, killed, continued, read and damaged in any order: readers get the
committed steps."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apscope import open_trace
from apscope.record import TraceWriter

SHAPES = {"w": (3, 2), "b": (5,), "none": (0,)}


class Killed(BaseException):
    """The process was killed: none of its code runs any more."""


class Kill:
    """In place of os.replace: the process ends at the call of this number, before it, after it, or
    with half a file written."""

    def __init__(self, at: int, how: str):
        self.left, self.how, self.replace = at, how, os.replace

    def __call__(self, part, to):
        self.left -= 1
        if self.left >= 0:
            return self.replace(part, to)
        if self.how == "after":
            self.replace(part, to)
        elif self.how == "half":
            os.truncate(part, Path(part).stat().st_size // 2)
        raise Killed


def bits(array):
    return np.asarray(array, np.float32).view(np.uint32).tolist()


class WriterAndReader(RuleBasedStateMachine):
    @initialize(workers=st.integers(1, 3))
    def begin(self, workers):
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.workers, self.steps = self.folder / "trace", workers, {}
        self.writer = TraceWriter(self.path, workers=workers)
        self.next = 0

    def values(self, seed):
        rng = np.random.default_rng(seed)
        return [
            {
                name: rng.integers(0, 2**32, shape, np.uint32).view(np.float32)
                for name, shape in SHAPES.items()
            }
            for _ in range(self.workers)
        ]

    def write(self, step, ranks, kind=None):
        for worker, tensors in enumerate(ranks):
            for name, array in tensors.items():
                self.writer.add(step, worker, name, array)
        if kind is not None:
            for name, array in ranks[0].items():
                self.writer.add(step, 0, name, array, kind)
        self.writer.end_step(step, loss=float(step))

    def go_on(self):
        self.writer = TraceWriter(self.path, workers=self.workers, resume=True)
        assert self.writer.committed == tuple(sorted(self.steps))

    @rule(
        gap=st.integers(0, 3),
        seed=st.integers(0, 2**32),
        kind=st.sampled_from([None, "weights", "full_batch"]),
    )
    def a_step(self, gap, seed, kind):
        step = self.next + gap
        self.write(step, self.values(seed), kind)
        self.steps[step], self.next = self.values(seed), step + 1

    @rule(
        seed=st.integers(0, 2**32),
        at=st.integers(0, 4),
        how=st.sampled_from(["before", "after", "half"]),
    )
    def a_step_that_is_killed(self, seed, at, how):
        step, real = self.next, os.replace
        os.replace = Kill(at, how)
        try:
            self.write(step, self.values(seed))
            committed = True
        except Killed:
            # The manifest comes behind the workers' files.
            committed = how == "after" and at == self.workers
        finally:
            os.replace = real
        if committed:
            self.steps[step], self.next = self.values(seed), step + 1
        self.go_on()

    @rule()
    def a_step_that_is_begun_and_left(self):
        self.writer.add(self.next, 0, "w", np.zeros((3, 2), np.float32))
        self.go_on()

    @rule(step=st.integers(0, 20))
    def a_step_that_is_not_above_the_last(self, step):
        if not self.steps or step > max(self.steps):
            return
        with pytest.raises(ValueError, match="ascending order"):
            self.write(step, self.values(0))

    @precondition(lambda self: self.steps)
    @rule(data=st.data())
    def a_byte_that_changes(self, data):
        path, _, _ = data.draw(st.sampled_from(list(open_trace(self.path).files())))
        place = data.draw(st.integers(0, path.stat().st_size - 1))
        content = bytearray(path.read_bytes())
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        good = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path.name}: its SHA-256 is .* the file is damaged"):
            open_trace(self.path).check()
        path.write_bytes(good)

    @invariant()
    def the_trace_is_what_was_committed(self):
        if not getattr(self, "steps", None):
            return
        trace = open_trace(self.path)
        assert trace.steps == tuple(sorted(self.steps))
        trace.check()
        for step, ranks in self.steps.items():
            for worker, tensors in enumerate(ranks):
                assert {name: bits(trace.read(step, name, worker)) for name in SHAPES} == {
                    name: bits(array) for name, array in tensors.items()
                }

    def teardown(self):
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


TestWriterAndReader = WriterAndReader.TestCase
TestWriterAndReader.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
