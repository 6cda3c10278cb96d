"""Experiments of others: impossible values are refused before PyTorch is loaded, and no text is read
outside the folder of the file."""

import subprocess
import sys

import pytest

from apscope._training.experiment import Experiment, check_trainable
from apscope.cli import main

HEAD = 'gate = 1\nseeds = 1\nschemes = ["none:fp16"]\n'
TASK = '[[task]]\nname = "digits"\n'
TEXT = '[[task]]\nname = "characters"\ntext = "{}"\n'


def refused_without_torch(path, said):
    """The command is refused, and PyTorch was not loaded for it."""
    script = (
        "import sys; from apscope.cli import main; code = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "train", path, "-o", path.parent / "out"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and said in done.stderr, done
    assert done.stderr.count("\n") == 1
    assert not (path.parent / "out").exists()


WRONG = {
    "weight decay": (HEAD + TASK + "weight_decay = 1e300\n", "must be a number of 0 to 1e+30"),
    "learning rate": (HEAD + TASK + "learning_rate = 1e39\n", "must be a number above 0, at most"),
    "recorded steps": ("record_steps = 10000000000\n" + HEAD + TASK, "an integer of 1 to 1000000"),
    "steps": (HEAD + TASK + "steps = 1000000000000\n", "an integer of 1 to 1000000000"),
    "workers": ("workers = 2000000\n" + HEAD + TASK, "an integer of 2 to 1048576"),
    "topology": ('topology = "star"\n' + HEAD + TASK, "star"),
    "scheme": (HEAD.replace("none:fp16", "unbiased") + TASK, "unknown scheme 'unbiased'"),
    "hindsight": (
        HEAD.replace("none:fp16", "hybrid(first=loss_scaling:e4m3,scale=best;else=sign)") + TASK,
        "chooses its scale in hindsight",
    ),
    "no text": (HEAD + TEXT.format("nowhere.txt"), "not a file that can be read"),
    "absolute": (HEAD + TEXT.format("/etc/hostname"), "is outside the folder of the experiment"),
    "above": (HEAD + TEXT.format("../x"), "is outside the folder of the experiment"),
    "through a link": (HEAD + TEXT.format("link"), "is outside the folder of the experiment"),
    "through a folder": (HEAD + TEXT.format("etc/hostname"), "is outside the folder"),
    "not UTF-8": (HEAD + TEXT.format("latin"), "is not UTF-8 (at byte 3)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_before_torch(tmp_path, name):
    text, said = WRONG[name]
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "latin").write_bytes(b"abc\xff")
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    refused_without_torch(path, said)


def test_a_text_is_found_from_the_folder_of_the_file(tmp_path, monkeypatch):
    folder, other = tmp_path / "there", tmp_path / "here"
    folder.mkdir(), other.mkdir()
    (folder / "corpus.txt").write_text("to be " * 300)
    (other / "corpus.txt").write_text("x")
    (folder / "experiment.toml").write_text(HEAD + TEXT.format("corpus.txt"))
    monkeypatch.chdir(other)
    (task,) = Experiment.open("../there/experiment.toml").tasks
    assert task.text == "../there/corpus.txt"
    monkeypatch.chdir(folder)
    (task,) = Experiment.open("experiment.toml").tasks
    assert task.text == "corpus.txt"


def test_texts_outside_on_request(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    (tmp_path / "corpus.txt").write_text("to be " * 300)
    path = folder / "experiment.toml"
    path.write_text(HEAD + TEXT.format("../corpus.txt"))
    with pytest.raises(ValueError, match="give --allow-outside"):
        Experiment.open(path)
    (task,) = Experiment.open(path, allow_outside=True).tasks
    assert task.text == str(folder / "../corpus.txt")


def test_the_largest_values_are_trained(tmp_path, capsys):
    """No value that is taken ends in a traceback of PyTorch."""
    pytest.importorskip("torch")
    path = tmp_path / "experiment.toml"
    for i, optimizer in enumerate(("sgd", "adam", "adamw", "lars")):
        path.write_text(
            HEAD + "record_steps = 1000000\n" + TASK + f'optimizer = "{optimizer}"\n'
            "steps = 2\nlearning_rate = 1e30\nweight_decay = 1e30\n"
        )
        assert main(["train", str(path), "-o", str(tmp_path / f"out{i}")]) in (0, 2)
        said = capsys.readouterr().err
        assert "overflow" not in said and "Traceback" not in said


def test_what_can_be_trained():
    check_trainable(Experiment((), (("loss_scaling:e4m3,scale=best", "ring"),), (0,), 1.0))
    with pytest.raises(ValueError, match="star"):
        check_trainable(Experiment((), (), (0,), 1.0, topology="star"))
    with pytest.raises(ValueError, match="star"):
        check_trainable(Experiment((), (("aps:e4m3", "star"),), (0,), 1.0))
