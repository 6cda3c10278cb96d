"""How folders are written: whole or not at all, by one process at a time, and never through what
another has put there."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import apscope
from apscope._folders.results import writing_results
from apscope._folders.writing import MARK, Writing, left_behind, write_file
from apscope.cli import main
from apscope.record import convert

DIGITS = "notebooks/data/digits"
QUICK = ["--steps", "0:1", "--tensors", "bias", "--topology", "exact", "--scheme"]


def replay(out, scheme="none:e4m3", *more):
    return main(["replay", DIGITS, *QUICK, scheme, "-o", str(out), *more])


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def hidden(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


@pytest.fixture
def dump(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    for step in range(2):
        np.savez(folder / f"step_{step}.npz", a=np.ones(2, np.float32), b=np.ones(3, np.float32))
    return folder


def test_nothing_is_there_until_it_is_whole(tmp_path):
    with Writing(tmp_path / "a" / "b" / "new", "a test") as writing:
        (writing.new / "file").write_text("1")
        assert (
            hidden(tmp_path / "a" / "b") == [writing.fresh.name, ".new.apscope-lock"]
            and not (tmp_path / "a" / "b" / "new").exists()
        )
        assert writing.fresh.stat().st_mode & 0o077 == 0
        writing.put_folder()
    assert contents(tmp_path) == {(tmp_path / "a/b/new/file").relative_to(tmp_path): b"1"}


def test_an_error_leaves_nothing_of_the_folder_and_of_those_above_it(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        Writing(tmp_path / "a" / "b" / "new", "a test") as writing,
    ):
        (writing.new / "file").write_text("1")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_was_taken_meanwhile_stays(tmp_path):
    with (
        pytest.raises(
            ValueError, match="new was made while this was written, and is left unchanged"
        ),
        Writing(tmp_path / "new", "a test") as writing,
    ):
        (writing.new / "file").write_text("1")
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").write_text("2")
        writing.put_folder()
    assert contents(tmp_path) == {(tmp_path / "new/mine").relative_to(tmp_path): b"2"}


def test_a_second_writer_is_told_who_is_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "apscope.cli._replay.run_replay",
        lambda *_, **__: pytest.fail("it replayed before it knew that it may not write"),
    )
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "out", tmp_path / "there"):
        with writing_results(out):
            assert replay(out) == 2
            told = capsys.readouterr().err
            assert (
                told.startswith(f"apscope: another apscope (process {os.getpid()} on ")
                and f") writes {out}; wait for it" in told
            )
        assert not out.exists() or not list(out.iterdir())


def test_a_lock_that_a_kill_left_holds_nobody_up(tmp_path):
    (tmp_path / ".out.apscope-lock").write_text("")
    assert replay(tmp_path / "out") == 0
    assert hidden(tmp_path) == []


def test_a_lock_is_not_written_through_a_link(tmp_path, capsys):
    (tmp_path / "victim").write_text("x")
    (tmp_path / ".out.apscope-lock").symlink_to(tmp_path / "victim")
    assert replay(tmp_path / "out") == 2
    assert capsys.readouterr().err.startswith(f"apscope: {tmp_path / 'out'} cannot be written: ")
    assert (tmp_path / "victim").read_text() == "x" and not (tmp_path / "out").exists()


def test_what_others_have_put_beside_a_place_stays(tmp_path, dump):
    """Links and folders by the names that apscope has used, or uses, for its hidden folders."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "data.txt").write_text("x")
    (victim / MARK).write_text(json.dumps({"writes": "run"}))
    (tmp_path / ".run.part").symlink_to(victim)
    (tmp_path / ".run.apscope-0123abcd").symlink_to(victim)
    other = tmp_path / ".run.apscope-89abcdef"
    other.mkdir()
    (other / "data.txt").write_text("y")  # without a mark
    foreign = tmp_path / ".run.apscope-00000000"
    foreign.mkdir()
    (foreign / MARK).write_text(json.dumps({"writes": "another"}))
    assert left_behind(tmp_path, "run") == []
    before = contents(tmp_path)
    convert(dump, tmp_path / "run", reduction="mean")
    with pytest.raises(ValueError, match="run exists"):
        convert(dump, tmp_path / "run", reduction="mean")
    assert {
        path: data for path, data in contents(tmp_path).items() if path.parts[0] != "run"
    } == before


def test_a_folder_of_another_user_is_not_ours(tmp_path):
    left = tmp_path / ".run.apscope-0123abcd"
    left.mkdir()
    (left / MARK).write_text(json.dumps({"writes": "run"}))
    assert left_behind(tmp_path, "run") == [left]
    if os.geteuid() == 0:
        os.chown(left, 4711, 4711)
        assert left_behind(tmp_path, "run") == []


def test_results_are_not_written_through_links(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("x")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("results.csv", "provenance.json"):
        (out / f".{name}.part").symlink_to(victim)
        (out / name).symlink_to(victim)
    assert replay(out) == 2 and victim.read_text() == "x"
    assert replay(out, "none:e4m3", "--force") == 0
    assert (
        victim.read_text() == "x"
        and not (out / "results.csv").is_symlink()
        and len(apscope.Results.open(out)) == 4
    )


def test_a_link_that_leads_nowhere_is_no_place(tmp_path, capsys):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    assert replay(tmp_path / "out") == 2
    assert (
        capsys.readouterr().err
        == f"apscope: {tmp_path / 'out'} is a link to {tmp_path / 'nowhere'}, which does not "
        "exist; remove the link, or give another destination\n"
    )
    assert not (tmp_path / "nowhere").exists()


# The command, killed at its n-th call that moves a file or takes one away.
KILLED = """
import os, signal, sys
import apscope.cli
left = int(sys.argv[1])
def counted(call):
    def at_last(*given, **more):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **more)
    return at_last
os.rename, os.replace = counted(os.rename), counted(os.replace)
os.unlink = counted(os.unlink)
sys.exit(apscope.cli.main(sys.argv[2:]))
"""


def test_a_kill_between_two_moves_is_told_and_the_same_command_goes_on(tmp_path, capsys):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    assert replay(fresh, "aps:e5m2") == 0
    new = {path: data for path, data in contents(fresh).items() if path.name != "provenance.json"}
    told = set()
    for n in range(1, 20):
        assert replay(out, "none:e4m3", *["--force"] * (n > 1)) == 0
        (out / "mine").write_text("mine")
        old = contents(out)
        words = ["replay", DIGITS, *QUICK, "aps:e5m2", "-o", str(out), "--force"]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(n), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        there = {
            path: data for path, data in contents(out).items() if not path.parts[0].startswith(".")
        }
        capsys.readouterr()
        code = main(["summary", str(out)])
        err = capsys.readouterr().err
        told.add(code)
        if code == 0:
            assert (
                there == old
                or {
                    path: data
                    for path, data in there.items()
                    if path.name not in ("provenance.json", "mine")
                }
                == new
            )
        else:
            halves = "has the remains of an interrupted write (.out.apscope-"
            assert code == 2 and err.startswith(f"apscope: {out} {halves}")
            code_of_check, said = main(["check", str(out)]), capsys.readouterr()
            assert code_of_check in (1, 2) and halves in said.out + said.err
        with (
            pytest.warns(UserWarning, match="removed .out.apscope-")
            if hidden(out) not in ([], [".out.apscope-lock"])
            else open(os.devnull)
        ):
            apscope.replay(
                DIGITS, ["aps:e5m2"], topology="exact", steps="0:1", tensors="bias"
            ).save(out, force=code == 0)
        assert hidden(out) == [] and (out / "mine").read_text() == "mine"
        assert {
            path: data
            for path, data in contents(out).items()
            if path.name not in ("provenance.json", "mine")
        } == new
    assert n > 6 and told == {0, 2}


def test_a_file_is_written_whole_or_stays(tmp_path):
    path = tmp_path / "page.html"
    write_file(path, "first", "a test")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "second \ud800", "a test")
    assert path.read_text() == "first" and [p.name for p in tmp_path.iterdir()] == ["page.html"]
    victim = tmp_path / "victim"
    victim.write_text("x")
    path.unlink()
    path.symlink_to(victim)
    write_file(path, "third", "a test")
    assert not path.is_symlink() and path.read_text() == "third" and victim.read_text() == "x"


def test_names_of_any_length_and_bytes(tmp_path):
    for name in ("n" * 255, "ü" * 127, b"\xff\xfe".decode(errors="surrogateescape")):
        write_file(tmp_path / name, "text", "a test")
        assert (tmp_path / name).read_text() == "text" and hidden(tmp_path) == []


def test_a_pack_goes_into_an_empty_folder_or_behind_a_kill(tmp_path):
    pack = tmp_path / "pack"
    pack.mkdir()
    left = pack / ".pack.apscope-0123abcd"
    left.mkdir()
    (left / MARK).write_text(json.dumps({"writes": "pack"}))
    (pack / "e4m3.inputs.bin").write_bytes(b"half")
    with pytest.warns(
        UserWarning, match="removed .pack.apscope-0123abcd, which an interrupted run left beside "
    ):
        apscope.conformance.write(pack, ["e4m3"])
    assert hidden(pack) == [] and len(list(pack.iterdir())) > 10
    with pytest.raises(ValueError, match="is not an empty folder"):
        apscope.conformance.write(pack, ["e4m3"])
