"""Every verb of the command line on generated words: exit 0, 1 or 2, a refusal in one line that
leaves nothing behind, never a traceback."""

import argparse
import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apscope.cli import VERBS, _parser, main
from tests.python.generated.values import DIGITS, TEXTS, examples, saved

#: Slow commands, and the options that make them fast.
FIXED = {
    "bench": ["--rounds", "1", "--elements", "1000", "--no-peers", "no such job"],
    "verify": ["--samples", "10", "e2m1"],
}
#: Not asked: they write many megabytes, or take minutes by their nature.
WORDS_LEFT_OUT = {"--exhaustive", "--dask", "--device"}

#: Looked at less often.
SLOW = ("report", "summary", "compare", "replay", "convert", "limit")

_RIGHT = {
    "TRACE": [str(DIGITS)], "RESULTS": ["@results"], "TRACE|RESULTS": ["@results"],
    "FOLDER": ["@results", str(DIGITS)], "SRC": [str(DIGITS)], "SPEC": ["none:e4m3", "sign"],
    "NAME": ["e4m3", "ring", "aps", "ties_to_even"], "A": ["aps:e4m3", "none:e4m3", "@results"],
    "A:B": ["0:1"], "REGEX": ["head.bias"], "N": ["1", "2"], "I/N": ["0/2"],
    "BYTES": ["1G"], "FORMAT": ["e2m1"], "FILE.html": ["page.html"],
    "CALLABLE": ["ml_dtypes:float8_e4m3fn"], "DST": ["made"], "F,G,...": ["e4m3"], "K": ["2"],
    "X": ["0.5"],
}  # fmt: skip


def _words_of(action: argparse.Action) -> st.SearchStrategy:
    """One word for an option or a place: a right one more often than not."""
    name = action.metavar if isinstance(action.metavar, str) else str(action.dest).upper()
    right = list(action.choices or _RIGHT.get(name, ["1"]))
    if action.dest == "output" and name == "RESULTS":
        right = ["made"]  # not over what is read
    return st.one_of(st.sampled_from(right), st.sampled_from(right), st.sampled_from(TEXTS))


@st.composite
def command(draw: Any, verb: str) -> list[str]:
    """The words of one command: places, some options, seldom one that the verb does not know."""
    verbs = next(a for a in _parser(verb)._actions if isinstance(a, argparse._SubParsersAction))
    words = [verb]
    for action in verbs.choices[verb]._actions:
        if isinstance(action, argparse._HelpAction) or WORDS_LEFT_OUT & set(action.option_strings):
            continue
        if not action.option_strings:
            words += [
                draw(_words_of(action))
                for _ in range(draw(st.integers(1, 2)) if action.nargs in ("+", "*") else 1)
            ]
        elif (
            action.required
            or (verb, action.dest) == ("report", "output")
            or draw(st.integers(0, 4)) == 0
        ):  # beside what is read by default
            name = action.option_strings[-1]
            words += [name] if action.nargs == 0 else [f"{name}={draw(_words_of(action))}"]
    if draw(st.integers(0, 9)) == 0:
        words.append(draw(st.sampled_from(["--no-such-option", "--threads", "one more", "-o"])))
    return words + FIXED.get(verb, [])


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))}


def check(words: list[str]) -> None:
    """Runs the command in a folder of its own."""
    results, before = str(saved()), _state(saved().parent)
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([word.replace("@results", results) for word in words])
        assert code in (0, 1, 2), code
        lines = err.getvalue().splitlines()
        assert all(line.startswith("apscope: ") for line in lines), err.getvalue()
        said = [line for line in lines if not line.startswith("apscope: warning: ")]
        if code == 2:
            assert len(said) == 1, err.getvalue()
            assert len(said[0]) > len("apscope: "), "a refusal without a word"
            assert not os.listdir(place), f"a refusal left {os.listdir(place)}: {said[0]}"
    assert _state(saved().parent) == before, "the results that were read are others now"


@pytest.mark.parametrize("verb", VERBS)
def test_any_words_are_served_or_refused_in_one_line(verb):
    examples(4 if verb in SLOW else 12)(given(command(verb))(check))()


@examples(10)
@given(
    st.lists(st.sampled_from([*VERBS, "--version", "-x", "--", *TEXTS]), max_size=3).filter(
        lambda words: "--version" not in words
    )
)
@example(["replay", str(DIGITS), "--memory", "8000000T", "-o", "r"])
@example(["replay", str(DIGITS), "--steps=0:1", "--scheme=none:e4m3", "-o", "\ud800"])
@example(["info", "\ud800"])
@example(["summary", "@results/provenance.json"])
@example(["schemes", "\ud800"])
@example(["formats", "e4m3b-2147483648"])
def test_odd_commands(words):
    check(words)
