"""The progress bar: shown on a terminal, with a rate and the time left; its counts."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

import apscope
from apscope import _core
from tests.python.argv import argv

SCHEMES = ["aps:e4m3", "qsgd", "error_feedback(sign)"]


def told(digits, schemes, threads=1, shard=(0, 1)):
    trace = apscope.open_trace(digits)
    calls = []
    steps, tensors = list(range(len(trace.steps))), list(range(len(trace.tensors)))
    options = _core.ReplayOptions(
        schemes, ["ring"], steps, tensors, trace.workers, 0, *shard, threads=threads
    )
    _core.replay(
        trace.core,
        options,
        lambda rows: None,
        progress=lambda done, total: calls.append((done, total)),
    )
    return calls


@pytest.mark.parametrize("threads", [1, 3])
def test_every_value_is_counted_once_a_scheme_and_once_for_the_statistics(digits, threads):
    trace = apscope.open_trace(digits)
    values = len(trace.steps) * trace.workers * sum(t.size for t in trace.manifest.tensors)
    for schemes in (SCHEMES[:1], SCHEMES):
        calls = told(digits, schemes, threads)
        assert {total for _, total in calls} == {values * (1 + len(schemes))}
        assert [d for d, _ in calls] == sorted(d for d, _ in calls)
        assert calls[-1][0] == calls[-1][1]


def test_shards_share_the_visits_of_schemes(digits):
    trace = apscope.open_trace(digits)
    values = len(trace.steps) * trace.workers * sum(t.size for t in trace.manifest.tensors)
    totals = [told(digits, SCHEMES, shard=(i, 3))[-1][1] - values for i in range(3)]
    assert all(totals) and sum(totals) == values * len(SCHEMES)


def terminal_text(command):
    """The text that a command writes to standard error if that is a terminal."""
    ours, its = pty.openpty()
    # A terminal of 120 columns.
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 120, 0, 0))
    at_once = os.environ | {"TQDM_MININTERVAL": "0"}  # every update, however fast the machine
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its, env=at_once)
    os.close(its)
    text = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not more:
            break
        text += more
    os.close(ours)
    assert process.wait() == 0, text
    return text.decode()


def test_the_command_line_shows_the_rate_and_the_time_left(digits, tmp_path):
    words = [w for s in SCHEMES for w in ("--scheme", s)]
    line = "{} -m apscope replay {} -o {} --threads 1 --topology ring"
    text = terminal_text([*argv(line, sys.executable, digits, tmp_path / "r"), *words])
    bars = re.findall(
        r"digits: +(\d+)%\|.*?\| [\d.]+[kM]?/([\d.]+)[kM]? \[\d\d:\d\d<\d\d:\d\d, "
        r"+[\d.]+[kM]?value/s\]",
        text,
    )
    assert bars, text
    assert [int(share) for share, _ in bars] == sorted(int(share) for share, _ in bars)
    # Million: 52 steps x 8 workers x 1906 elements, four times.
    assert {total for _, total in bars} == {"3.17"}


def test_nothing_is_shown_where_nobody_looks(digits, tmp_path):
    done = subprocess.run(
        argv(
            "{} -m apscope replay {} -o {} --scheme none:e4m3",
            sys.executable,
            digits,
            tmp_path / "r",
        ),
        capture_output=True,
    )
    assert done.returncode == 0 and done.stderr == b""
