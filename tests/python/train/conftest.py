"""PyTorch's sums depend on the number of its threads: one here, as in the jobs' processes."""

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that only seems to be one; gives the count of what was moved."""
    from tests.python.on_device import seeming_gpu

    with seeming_gpu(monkeypatch) as moved:
        yield moved
