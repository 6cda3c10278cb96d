"""Names of a trace reach a terminal, and a page, escaped: control characters, and those that turn a text."""

import base64
import gzip
import io
import json
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest

import apscope
from apscope import replay
from apscope._text import escaped, printable
from apscope.cli import main
from apscope.cli._output import Output
from apscope.record import TraceWriter

#: A colour, a title of the window, a bell, a carriage return, a text that runs to the left, C1.
EVIL = "\x1b[31m\x1b]0;x\x07\r\u202ex\u2066y\u200f\x9b"
ODD = {ord(c) for c in "\x1b\x07\r\u202e\u2066\u200f\x9b\x85\u2028"}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named") / "run"
    with TraceWriter(folder, workers=2, name=f"run{EVIL}", model=EVIL) as writer:
        for step in range(2):
            for worker in range(2):
                for name in (f"a{EVIL}.weight", "b.weight"):
                    row = np.linspace(-1, 1, 40, dtype=np.float32) + worker
                    writer.add(step, worker, name, row)
            writer.end_step(step)
    return folder


@pytest.fixture(scope="module")
def results(trace):
    folder = trace.parent / "results"
    replay(trace, ["aps:e4m3", "none:e4m3"], topology="ring").save(folder)
    return folder


COMMANDS = {
    "info": ["info", "{trace}"],
    "summary": ["summary", "{results}"],
    "by layer": ["summary", "{results}", "--by", "layer"],
    "by step": ["summary", "{results}", "--by", "step", "--scheme", "aps:e4m3"],
    "ladder": ["ladder", "{trace}", "--formats", "e4m3"],
    "compare": ["compare", "{results}", "aps:e4m3", "none:e4m3"],
    "check": ["check", "{trace}"],
    "recommend": [
        "recommend", "{trace}", "-o", "{place}/plan.json", "--candidates", "aps:e4m3",
        "--candidates", "none:e4m3", "--holdout", "none",
    ],
    "search": ["search", "{trace}", "--bits", "4"],
}  # fmt: skip


def words_of(name, trace, results, tmp_path):
    return [w.format(trace=trace, results=results, place=tmp_path) for w in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_text_for_people_has_control_characters(name, trace, results, tmp_path, capsys):
    assert main(words_of(name, trace, results, tmp_path)) == 0
    said = capsys.readouterr()
    assert not ODD & {ord(c) for c in said.out + said.err}
    if name != "check":
        assert r"\x1b[31m" in said.out


@pytest.mark.parametrize(
    "words",
    [
        ["summary", "{results}", "--csv"],
        ["summary", "{results}", "--by", "layer", "--csv"],
        ["recommend", "{trace}", "-o", "{place}/plan.json", "--candidates", "aps:e4m3",
         "--holdout", "none", "--as", "regex", "--max-volume", "1"],
    ],
)  # fmt: skip
def test_text_for_programs_is_exact_but_on_a_terminal(words, trace, results, tmp_path):
    words = [w.format(trace=trace, results=results, place=tmp_path) for w in words]
    command = [sys.executable, "-m", "apscope", *words]
    piped = subprocess.run(command, capture_output=True, timeout=120)
    assert piped.returncode == 0 and "\u202e".encode() in piped.stdout
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.wait(timeout=120) == 0
    text = shown.decode().replace("\r\n", "\n")  # the terminal's own
    assert not ODD & {ord(c) for c in text} and "\\u202e" in text


def test_a_page_shows_the_characters_that_turn_its_text(results, tmp_path):
    page = apscope.report(results, tmp_path / "r.html").read_text()
    assert not ODD & {ord(c) for c in page} and "\\u202e" in page
    [block] = re.findall(r'id="payload"[^>]*>([^<]*)<', page)
    data = gzip.decompress(base64.b64decode(block))
    header = data[4 : 4 + int.from_bytes(data[:4], "little")].decode()
    told = json.dumps(json.loads(header), ensure_ascii=False)
    assert not {r"\u001b", r"\u0007", r"\r", *map(chr, ODD)} & set(
        re.findall(r"\\u....|\\.|.", told)
    )
    assert all(name in told for name in (r"\\x1b", r"\\x07", r"\\r", r"\\u202e", r"\\x9b"))


def test_escaping():
    assert escaped("plain é 层\n") == "plain é 层\n"
    assert escaped("a\x1bb\u202ec\r") == r"a\x1bb\u202ec\r"
    assert escaped("a\udcffb") == r"a\xFFb"
    assert escaped("a\udcffb", bytes_too=False) == "a\udcffb"
    assert printable("a\nb") == r"a\nb"
    assert len(printable("\x1b" * 5000)) <= 200


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bytes_of_a_path_are_kept_for_programs_and_escaped_for_people():
    for stream, text in ((io.StringIO(), "t\udcff\n"), (Terminal(), "t\\xFF\n")):
        print("t\udcff", file=Output(stream))
        assert stream.getvalue() == text


def test_messages_are_escaped(tmp_path, capsys):
    assert main(["info", str(tmp_path / EVIL)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and not ODD & {ord(c) for c in said}
