"""What tests of the command line share: a refusal, a bundled trace, results that tables are of."""

import pytest

import apscope
from apscope.cli import main

SCHEMES = ["none:fp32", "aps:e4m3", "loss_scaling:e4m3,scale=largest", "qsgd"]


def refused(capsys, *words):
    """Runs a command that must fail; gives its one sentence."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("apscope: ") and err.count("\n") == 1
    return err.removeprefix("apscope: ").rstrip("\n")


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    traces = [
        request.config.rootpath / "notebooks/data" / name for name in ("digits", "characters")
    ]
    return str(
        apscope.replay(traces, SCHEMES, steps="0:4", topology=["ring", "sequential"]).save(
            tmp_path_factory.mktemp("out") / "r"
        )
    )


@pytest.fixture(scope="module")
def results(folder):
    return apscope.Results.open(folder)
