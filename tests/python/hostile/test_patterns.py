"""hybrid(name:REGEX): any expression and any name, in bounded time and memory."""

import re

import numpy as np
import pytest

from apscope import hybrid, replay, schemes
from apscope._limits import NAME_LENGTH, PATTERN_LENGTH, SPEC_DEPTH, SPEC_LENGTH
from apscope.record import TraceWriter


def spec(pattern):
    return f"hybrid(name:{pattern}=none:fp16;else=aps:e4m3)"


def formats(tmp_path, names, pattern):
    """Which format each tensor is sent in."""
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        for name in names:
            writer.add(0, 0, name, np.ones(4, np.float32))
        writer.end_step(0)
    frame = replay(tmp_path / "run", spec(pattern), topology=()).frame
    return dict(zip(frame["tensor"], frame["format"]))


def test_an_expression_is_found_anywhere_in_the_name(tmp_path):
    names = ["conv1.weight", "conv10.weight", "fc.bias", "conv1.bias"]
    assert [f for f in formats(tmp_path, names, r"conv\d\.w").values()] == [
        "fp16",
        "e4m3",
        "e4m3",
        "e4m3",
    ]


def test_the_condition_of_many_names_is_an_expression(tmp_path):
    names = [f"model.layers.{i}.mlp.up_proj [{'+' * (i % 7)}].é.weight" for i in range(1000)]
    assert schemes.Scheme(f"hybrid({hybrid.exactly(names)}=none:fp16;else=aps:e4m3)").branches[0][
        0
    ] == hybrid.exactly(names)
    few = names[:40]
    assert list(
        formats(tmp_path, [*few, "other"], hybrid.exactly(few).removeprefix("name:")).values()
    ) == ["fp16"] * 40 + ["e4m3"]


@pytest.mark.parametrize(
    "pattern", [r"(a*)*$", "(x+x+)+y", "(.*)*c", "^(a|a)*$", "(a?){500}a{500}"]
)
def test_expressions_that_recursion_and_backtracking_fail_at(tmp_path, pattern):
    names = ["a" * NAME_LENGTH, "x" * NAME_LENGTH]
    assert set(formats(tmp_path, names, pattern)) == set(names)


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("a(?!b)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(a{1000}){1000}", "invalid repetition size"),
        ("[a", "missing ]"),
        ("*", "no argument for repetition"),
        ("(" * 60 + "a{999}{999}" + ")" * 60, "bad repetition|too large|invalid"),
        (
            "a" * (PATTERN_LENGTH + 1),
            f"it has {PATTERN_LENGTH + 1} characters; at most {PATTERN_LENGTH} are read",
        ),
    ],
)
def test_what_is_no_expression_of_re2_is_refused(pattern, why):
    with pytest.raises(ValueError, match=why) as told:
        schemes.Scheme(spec(pattern))
    assert (
        "is not a regular expression that apscope takes" in str(told.value)
        and len(str(told.value)) < 600
    )


def test_twenty_thousand_parentheses():
    with pytest.raises(ValueError, match=f"nests more than {SPEC_DEPTH} schemes") as told:
        schemes.Scheme(spec("(" * 20000 + "a" + ")" * 20000))
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    "body",
    [
        "x" * 2000,
        "aps:e4m3," + "k" * 5000 + "=1",
        "aps:" + "e" * 5000,
        "aps:e4m3,headroom=" + "9" * 5000,
    ],
)
def test_messages_clip_what_they_quote(body):
    with pytest.raises(ValueError) as told:
        schemes.Scheme(body)
    assert len(str(told.value)) < 1500


def test_a_spec_that_is_too_long():
    with pytest.raises(
        ValueError, match=f"has {SPEC_LENGTH + 9} characters; at most {SPEC_LENGTH} are read"
    ):
        schemes.Scheme("aps:e4m3,".ljust(SPEC_LENGTH + 9, "x"))


def test_no_other_expressions_in_the_sources(request):
    sources = [
        path
        for folder in ("core", "emulation", "analysis", "bindings")
        for path in (request.config.rootpath / folder).rglob("*.[chc]*")
    ]
    found = [
        path.name
        for path in sources
        if path.suffix in (".h", ".cpp", ".cu")
        and re.search(r"std::regex|<regex>", path.read_text(encoding="utf-8"))
    ]
    assert not found and len(sources) > 100
