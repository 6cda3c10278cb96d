"""Foreign files are not replaced, unreadable ones are reported, and a misspelt word gets a hint."""

import ctypes
import os
import shutil
import signal
from contextlib import contextmanager

import pytest

import apscope
from apscope._folders.results import FILES
from apscope.cli import VERBS, main
from apscope.schemes import Scheme
from tests.python.cli.conftest import refused

QUICK = ["--scheme", "none:e4m3", "--steps", "0:1", "--topology", "ring"]


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_in_the_results_folder_stays(capsys, digits, tmp_path, name):
    out = tmp_path / "fo"
    out.mkdir()
    (out / name).write_text('{"mine": 1}')
    ours = tmp_path / "ours"
    assert main(["replay", digits, *QUICK, "-o", str(ours)]) == 0
    capsys.readouterr()
    for words in (["replay", digits, *QUICK], ["merge", ours]):
        assert (
            refused(capsys, *words, "-o", out)
            == f"{out / name} exists and is not from a replay; give "
            "another folder, or --force to replace it"
        )
        assert [p.name for p in out.iterdir()] == [name] and (
            out / name
        ).read_text() == '{"mine": 1}'
    with pytest.raises(ValueError, match="not from a replay"):
        apscope.Results.open(ours).save(out)
    assert main(["replay", digits, *QUICK, "-o", str(out), "--force"]) == 0
    (out / "provenance.json").write_text("[]")
    assert main(["merge", str(ours), "-o", str(out), "--force"]) == 0
    assert (out / "results.csv").read_bytes() == (ours / "results.csv").read_bytes()


def test_earlier_results_are_not_replaced_without_a_word(capsys, digits, tmp_path, monkeypatch):
    out, other = tmp_path / "out", tmp_path / "other"
    assert main(["replay", digits, *QUICK, "--scheme", "aps:e4m3", "-o", str(out)]) == 0
    assert main(["replay", digits, *QUICK, "--shard", "0/2", "-o", str(other)]) == 0
    before = (out / "results.csv").read_bytes()
    capsys.readouterr()
    remedy = "; give another folder, or --force (force=True in Python) to replace them"
    sentence = (
        f"{out} has results that would be replaced, of none:e4m3 and 1 more scheme on "
        f"digits{remedy}"
    )
    monkeypatch.setattr(
        "apscope.cli._replay.run_replay",
        lambda *_, **__: pytest.fail("the replay ran before it was known that it may not be kept"),
    )
    assert refused(capsys, "replay", digits, *QUICK, "-o", out) == sentence
    assert refused(capsys, "merge", out, "-o", out) == sentence
    assert (
        refused(capsys, "merge", out, "-o", other)
        == f"{other} has results that would be replaced, of none:e4m3 on digits (shard 0/2){remedy}"
    )
    results = apscope.Results.open(out)
    with pytest.raises(ValueError, match="has results that would be replaced"):
        results.save(out)
    assert (out / "results.csv").read_bytes() == before
    assert (
        results.save(out, force=True) == out
        and main(["merge", str(out), "-o", str(out), "--force"]) == 0
    )


def test_a_trace_never_becomes_a_results_folder(capsys, digits, tmp_path):
    trace = tmp_path / "digits"
    shutil.copytree(digits, trace)
    before = sorted(p.name for p in trace.iterdir())
    for force in ([], ["--force"]):
        assert (
            refused(capsys, "replay", trace, *QUICK, "-o", trace, *force)
            == f"{trace} is a trace; give another folder for the results"
        )
    assert sorted(p.name for p in trace.iterdir()) == before


def test_a_foreign_page_stays(capsys, digits, tmp_path):
    page = tmp_path / "config.html"
    page.write_text("<html>mine</html>")
    (tmp_path / "config.json").write_text("mine")
    assert main(["replay", digits, *QUICK, "-o", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    assert "is not a report of apscope; give another name, or --force" in refused(
        capsys, "report", tmp_path / "r", "-o", page
    )
    assert page.read_text() == "<html>mine</html>"
    assert main(["report", str(tmp_path / "r"), "-o", str(page), "--force"]) == 0
    assert main(["report", str(tmp_path / "r"), "-o", str(page)]) == 0  # now it is ours
    assert (tmp_path / "config.json").read_text() == "mine"


@contextmanager
def an_ordinary_user():
    """Takes root's right to read and write everything (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)."""
    if os.geteuid() != 0:
        yield
        return
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    if not hasattr(libc, "capset") or libc.capget(header, rights) != 0:
        pytest.skip("root's rights cannot be taken here")
    every = rights[0]
    rights[0] &= ~(1 << 1 | 1 << 2)
    assert libc.capset(header, rights) == 0
    try:
        yield
    finally:
        rights[0] = every
        assert libc.capset(header, rights) == 0


@pytest.mark.parametrize("mode", [0o000, 0o644])
def test_a_folder_that_may_not_be_read_is_called_unreadable(capsys, digits, tmp_path, mode):
    shut = tmp_path / "shut"
    shutil.copytree(digits, shut)
    shut.chmod(mode)
    try:
        with an_ordinary_user():
            for words in (
                ["info", shut],
                ["report", shut, "-o", tmp_path / "never.html"],
                ["summary", shut],
                ["compare", shut, "a", "b"],
                ["merge", shut, "-o", tmp_path / "never"],
                ["convert", shut, tmp_path / "never", "--reduction", "mean"],
            ):
                assert refused(capsys, *words) == f"{shut} cannot be read: permission denied"
            with pytest.raises(ValueError, match="cannot be read: permission denied"):
                apscope.open_trace(shut)
            if mode == 0o000:
                never = shut / "never"
                sentence = f"the results folder {never} cannot be written: permission denied"
                assert (
                    refused(capsys, "replay", digits, "--scheme", "qsgd", "-o", never) == sentence
                )
    finally:
        shut.chmod(0o755)


def test_a_results_file_that_may_not_be_read_is_no_damaged_one(capsys, digits, tmp_path):
    out = tmp_path / "out"
    assert main(["replay", digits, *QUICK, "-o", str(out)]) == 0
    capsys.readouterr()
    (out / "results.parquet").chmod(0)
    with an_ordinary_user():
        assert (
            refused(capsys, "summary", out) == f"a file of {out} cannot be read: permission denied"
        )


def test_a_wrong_folder_is_told_what_it_is(capsys, digits, tmp_path):
    data, out = os.path.dirname(digits), tmp_path / "results"
    assert main(["replay", digits, *QUICK, "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 18 rows; apscope summary")
    holds = "it contains traces: characters, digits, digits_w64, gpt, resnet18; name them"
    results = "it is a RESULTS folder, which apscope summary, compare and report read"
    assert (
        refused(capsys, "summary", digits)
        == f"{digits} is not a RESULTS folder: it is a trace; apscope replay makes results of it"
    )
    assert (
        refused(capsys, "replay", data, "-o", tmp_path / "x") == f"{data} is not a trace: {holds}"
    )
    assert (
        refused(capsys, "report", data, "-o", tmp_path / "x.html")
        == f"{data} is neither a trace nor a RESULTS folder: {holds}"
    )
    assert refused(capsys, "info", out) == f"{out} is not a trace: {results}"
    assert (
        refused(capsys, "info", f"{data}/digit")
        == f"{data}/digit is not a trace: it does not exist; did you mean {data}/digits?"
    )
    assert (
        refused(capsys, "summary", tmp_path)
        == f"{tmp_path} is not a RESULTS folder: it contains RESULTS folders: results; name them"
    )
    assert (
        refused(capsys, "summary", tmp_path / "result")
        == f"{tmp_path}/result is not a RESULTS folder: it does not exist; did you mean {out}?"
    )
    (tmp_path / "empty").mkdir()
    assert (
        refused(capsys, "info", tmp_path / "empty")
        == f"{tmp_path}/empty is not a trace: it has no manifest.json"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], f"give a verb, one of {', '.join(VERBS)}; --help describes them"),
        (["replay"], "replay: the following arguments are required: TRACE, -o/--output"),
        (
            ["replay", "x", "-o", "y", "--workers", "many"],
            "replay: --workers 'many' must be an integer",
        ),
        (["summary", "x", "--elements", "many"], "summary: --elements 'many' must be a number"),
        (
            ["replay", "x", "-o", "y", "--sheme", "z"],
            "replay has no argument '--sheme'; did you mean --scheme?",
        ),
        (
            ["conformance", "chek"],
            "conformance: argument write|check|peers: invalid choice: 'chek' "
            "(choose from 'write', 'check', 'peers')",
        ),
        (["sumary", "x"], "unknown verb 'sumary'; did you mean summary?"),
    ],
)
def test_a_sentence_names_apscope_once(capsys, words, sentence):
    assert refused(capsys, *words) == sentence


@pytest.mark.parametrize(("spec", "hint"), [
    ("asp", "unknown scheme 'asp'; did you mean aps?"), ("asp:e4m3", "did you mean aps?"),
    ("los_scaling:e4m3", "did you mean loss_scaling?"),
    ("error_feedback(sing)", "unknown scheme 'sing'; did you mean sign?"),
    ("hybrid(last=asp:e4m3;else=sign)", "did you mean aps?"),
    ("stochastik:e4m3", "did you mean stochastic?"),
    ("quux", "unknown scheme 'quux'; use one of none, "),
    ("aps:e4m3,headrom=one", "scheme 'aps' has no key 'headrom'; did you mean headroom?"),
    ("aps:e4m3,foo=1", "has no key 'foo'; its keys are headroom"),
    ("aps:e4m3f", "unknown format 'e4m3f'; did you mean e4m3 or e4m3fn?"),
    ("none:bfloat61", "did you mean bfloat16?"),
    ("none:fp61", "fp16"), ("none:float8_e4m3fm", "did you mean float8_e4m3fn?"),
    ("none:nonsense", "unknown format 'nonsense'; use a name from `apscope formats`"),
    ("none:", "unknown format ''|needs a format"),
    ("none:" + "e4m3" * 100, "use a name from `apscope formats`"),
])  # fmt: skip
def test_a_misspelt_scheme_key_or_format_gets_a_hint(capsys, digits, tmp_path, spec, hint):
    with pytest.raises(ValueError) as found:
        Scheme(spec)
    assert any(part in str(found.value) for part in hint.split("|"))
    assert any(
        part in refused(capsys, "replay", digits, "-o", tmp_path / "o", "--scheme", spec)
        for part in hint.split("|")
    )


def test_formats_and_schemes_of_the_command_line_hint_alike(capsys):
    assert (
        refused(capsys, "formats", "e4m3f")
        == "unknown format 'e4m3f'; did you mean e4m3 or e4m3fn?"
    )
    assert refused(capsys, "schemes", "asp") == "unknown scheme 'asp'; did you mean aps?"
    with pytest.raises(ValueError, match="did you mean bf16"):
        apscope.quantize([1.0], "bf61")


def test_ending_a_step_that_was_not_begun_is_told(monkeypatch):
    pytest.importorskip("torch.distributed")
    from apscope.record import torch_ddp

    recorder = object.__new__(torch_ddp.DDPRecorder)
    recorder.step = None
    with pytest.raises(
        ValueError,
        match=r"end_step without begin_step: call begin_step\(n\) before the backward pass",
    ):
        recorder.end_step(loss=1.0)


def test_a_file_that_is_missing_is_named(capsys, digits, tmp_path):
    out = tmp_path / "r"
    assert main(["replay", digits, *QUICK, "-o", str(out)]) == 0
    capsys.readouterr()
    (out / "results.csv").unlink()
    assert (
        refused(capsys, "summary", out)
        == f"{out} is not a RESULTS folder: its results.csv is missing"
    )


def test_a_comparison_with_a_shard_is_said_to_be_one(capsys, digits, tmp_path):
    whole, shard = tmp_path / "whole", tmp_path / "shard"
    assert (
        main(["replay", digits, *QUICK, "-o", str(whole)]) == 0
        and main(["replay", digits, *QUICK, "--shard", "0/2", "-o", str(shard)]) == 0
    )
    capsys.readouterr()
    assert (
        main(["report", str(whole), "--against", str(shard), "-o", str(tmp_path / "a.html")]) == 0
    )
    assert "only shard 0/2" in capsys.readouterr().err
    assert (
        "Of the other results: these results are only shard 0/2"
        in (tmp_path / "a.html").read_text()
    )


@pytest.mark.parametrize("swallowed", [False, True])
def test_an_interrupt_that_a_library_swallows_is_one(capsys, monkeypatch, swallowed):
    """An extension that asks whether an attribute exists takes a KeyboardInterrupt for a no."""
    from apscope.cli import _formats

    def run(args):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if not swallowed:
                raise
        raise TypeError("expected str, bytes or os.PathLike object, not BufferedReader")

    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(_formats, "run", run)
    assert main(["formats"]) == 130
    assert capsys.readouterr().err == "apscope: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is handler
