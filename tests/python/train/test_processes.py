"""Calls in other processes: each result once, exceptions of calls, processes that end."""

import os
import signal
import time

import pytest

from apscope.train._processes import in_processes


def square(x):
    return x * x


def inverse(x):
    return 1 / x


def ends_at_three(x):
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def waits(x):
    time.sleep(60 if x else 0)
    return x


def test_each_result_comes_once_in_every_round():
    with in_processes(2, square) as run:
        for items in ([], [3], list(range(7))):
            assert sorted(run(items)) == [x * x for x in items]


def test_an_exception_is_that_of_the_call_and_says_where():
    with (
        in_processes(2, inverse) as run,
        pytest.raises(ZeroDivisionError, match="^division by zero") as error,
    ):
        list(run([1, 2, 0, 4]))
    assert "in inverse" in error.value.__notes__[0]


def test_a_process_that_ends_is_a_sentence():
    with (
        in_processes(2, ends_at_three) as run,
        pytest.raises(ChildProcessError, match="^one of the 2 processes that train ended; run"),
    ):
        list(run(range(6)))


def test_the_block_ends_at_once_whatever_is_running():
    begun = time.monotonic()
    with in_processes(2, waits) as run:
        assert next(iter(run([0, 1]))) == 0
    assert time.monotonic() - begun < 50
