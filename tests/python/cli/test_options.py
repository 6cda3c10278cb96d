"""Options given twice, arguments that are looked at before folders, and notes on names."""

import argparse

import pytest

from apscope._text import clip
from apscope.cli import VERBS, _parser, main
from apscope.schemes import Scheme
from tests.python.cli.conftest import refused


def options(verb):
    """The options of a verb that take a value."""
    parser = next(
        action.choices[verb]
        for action in _parser(verb)._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return [a for a in parser._actions if a.option_strings and a.nargs != 0]


@pytest.mark.parametrize("verb", VERBS)
def test_an_option_repeats_or_is_refused_the_second_time(verb):
    """The second value took the place of the first, in silence."""
    for action in options(verb):
        name = action.option_strings[-1]
        one, two = (
            (list(action.choices) * 2)[:2]
            if action.choices
            else ("2", "3")
            if action.type in (int, float)
            else ("a", "b")
        )
        one, two = ((action.type or str)(word) for word in (one, two))
        held = argparse.Namespace()
        parser = argparse.ArgumentParser(prog=f"apscope {verb}")
        action(parser, held, one, name)
        if isinstance(action, argparse._AppendAction):
            action(parser, held, two, name)
            assert getattr(held, action.dest)[-2:] == [one, two]
        else:
            with pytest.raises(
                ValueError, match=f"^{verb}: {name} is given twice, {one} and {two}"
            ):
                action(parser, held, two, name)
            assert getattr(held, action.dest) == one


def test_another_trace_than_the_source_is_refused(capsys, digits, tmp_path):
    """It was left out in silence."""
    words = ["recommend", digits, "--trace", "gpt", "-o", tmp_path / "plan.json"]
    assert refused(capsys, *words) == (
        "no trace 'gpt' in the trace 'digits'; trace= (--trace) selects one of the traces of "
        "results, so leave it out"
    )


def test_what_a_summary_lacks_is_refused(capsys, digits, tmp_path):
    folder = str(tmp_path / "r")
    assert (
        main(["replay", str(digits), "--scheme", "aps:e4m3", "--steps", "0:2", "-o", folder]) == 0
    )
    capsys.readouterr()
    assert refused(capsys, "summary", folder, "--optimizer", "adam") == (
        "--optimizer adam is of the columns update_loss_k, which need results of a replay with "
        "--persistence"
    )
    assert refused(capsys, "summary", folder, "--by", "layer", "--topology", "all") == (
        "--topology all is for whole schemes; with --by layer name one"
    )
    # It was a traceback.
    assert main(["summary", folder, "--columns", "step_nmse,gain", "--columns", "step_nmse"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-2:] == ["step_nmse", "gain"]


def test_formats_of_a_ladder_repeat(capsys, digits):
    one = ["ladder", str(digits), "--steps", "0:1", "--csv"]
    assert main([*one, "--formats", "e5m2", "--formats", "BF16,e3m4"]) == 0
    repeated = capsys.readouterr().out
    assert main([*one, "--formats", "e5m2,bf16,e3m4"]) == 0
    assert capsys.readouterr().out == repeated and ',"bf16",' in repeated and ',"e5m2",' in repeated


@pytest.mark.parametrize(("name", "own"), [("mxfp4", "mx:block_format=mxfp4"), ("nvfp4", "nvfp4")])
def test_a_ladder_of_a_block_format_names_its_elements(capsys, digits, name, own):
    assert refused(capsys, "ladder", digits, "--formats", name) == (
        f"'{name}' is a block format, and a ladder puts scales of several sizes over a float "
        f"format: give that of its elements, e2m1fn, and replay {own} for its own scale"
    )
    assert Scheme(own).spec == own


@pytest.mark.parametrize(("name", "note"), [
    ("e3m2fnb4", "e3m2fnb4 has a NaN, which e3m2fn has not: before other words fn means one NaN; "
                 "without NaN it is e3m2finiteb4"),
    ("e2m1fnu", "e2m1fnu has a NaN, which e2m1fn has not: before other words fn means one NaN; "
                "without NaN it is e2m1finiteu"),
    ("e4m3fnb8", ""), ("e3m2fn", ""), ("e3m2finiteb3", ""), ("e3m2fnuz", ""),
])  # fmt: skip
def test_formats_tell_fn_with_a_nan_from_ocps_without(capsys, name, note):
    assert main(["formats", name]) == 0
    said = capsys.readouterr().out
    assert note in said and ("which" in said) == bool(note)


def test_a_long_spec_is_whole_where_it_can_be_copied(capsys, digits, tmp_path):
    """Tables of plans and reports clip a spec, which is then refused as clipped; others do not."""
    long = "aps:e3m4,rule=tight,unit=bucket:25MB,rounding=stochastic,accumulate=fp32,divide=before"
    assert Scheme(long).spec == long
    out = tmp_path / "r"
    words = ["replay", digits, "--steps", "0:1", "-o", out, "--csv", "--scheme", long]
    assert main([str(word) for word in words]) == 0
    capsys.readouterr()
    quoted = f'"{long}"'
    assert quoted in (out / "results.csv").read_text()
    assert main(["summary", str(out)]) == 0
    assert long in capsys.readouterr().out
    clipped = clip(long, 44)
    again = refused(capsys, "replay", digits, "-o", tmp_path / "s", "--scheme", clipped)
    assert again.endswith("is clipped, as tables print it; take it whole from --csv or results.csv")
    assert main(["summary", str(out), "--csv"]) == 0
    assert quoted in capsys.readouterr().out
    assert main(["summary", str(out), "--json"]) == 0
    assert quoted in capsys.readouterr().out
    assert long in (out / "provenance.json").read_text()
