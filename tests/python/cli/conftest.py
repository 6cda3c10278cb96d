"""A folder of results that tests of tables print."""

import pytest

import apscope

SCHEMES = ["none:fp32", "aps:e4m3", "loss_scaling:e4m3,scale=largest", "qsgd"]


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
