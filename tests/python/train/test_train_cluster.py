"""``apscope train --dask``: the bits of one process, lost workers, kills, error messages."""

import os

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip(
    "distributed", reason="dask.distributed is not installed (apscope[dask])"
)
dask = pytest.importorskip("dask")
from apscope._progress import Bar  # noqa: E402
from apscope.cli import main  # noqa: E402
from tests.python.train.jobs import run_killed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own
TABLES = ("results.csv", "results.parquet", "verdicts.csv", "statistics.csv")
TOML = """
gate = 0.01
seeds = 2
schemes = ["error_feedback(aps:e3m0)", "stochastic:e4m3", "loss_scaling:e3m4,scale=largest,overflow=saturate"]
record_steps = 2

[[task]]
name = "digits"
steps = {steps}
"""

#: A worker's first run of a scheme with memory ends its process at the third step.
KILL = """
import os, signal
from apscope.train import _run
real, begun = _run._step, []
def step(run, workers, data, step, *others):
    if run.spec.startswith("error_feedback") and step == 2:
        try:
            os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(run, workers, data, step, *others)
_run._step = step
"""


def cluster(workers, threads=1):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=threads, dashboard_address=None
    )


def everywhere(client, code):
    client.run(lambda: exec(code, {}))


@pytest.fixture(scope="module")
def toml(tmp_path_factory):
    path = tmp_path_factory.mktemp("toml") / "tiny.toml"
    path.write_text(TOML.format(steps=12))
    return str(path)


@pytest.fixture(scope="module")
def alone(toml, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "out"
    assert main(["train", toml, "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def client():
    with cluster(2) as two, distributed.Client(two) as client:
        yield client


def files(folder):
    """Everything that an experiment keeps, by path, but the command line."""
    kept = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {path: content for path, content in kept.items() if path.name != "training.json"}


def test_a_cluster_changes_no_byte(client, toml, alone, tmp_path, monkeypatch):
    told = []

    class Told(Bar):
        def __enter__(self):
            return lambda done, total: told.append((done, total))

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("apscope.train._experiment.Bar", Told)
    out = tmp_path / "out"
    assert main(["train", toml, "-o", str(out), "--dask", client.scheduler.address]) == 0
    found, wanted = files(out), files(alone)
    assert found.keys() == wanted.keys() and {p.name for p in found} >= set(TABLES)
    assert [path for path in wanted if found[path] != wanted[path]] == []
    total = 12 * 2 * 5
    assert told[-1] == (total, total) and [d for d, _ in told] == sorted(d for d, _ in told)
    assert len(told) == 2 * 5  # once a run


def test_a_worker_that_is_killed_leaves_its_run_to_another(toml, alone, tmp_path):
    with cluster(2) as two, distributed.Client(two) as client:
        everywhere(client, KILL.format(mark=str(tmp_path / "killed")))
        before = set(client.run(os.getpid).values())
        out, words = tmp_path / "out", ["--checkpoint", "0", "--dask", client.scheduler.address]
        assert main(["train", toml, "-o", str(out), *words]) == 0
        client.wait_for_workers(2, timeout=300)
        after = set(client.run(os.getpid).values())
    assert (tmp_path / "killed").exists() and before != after
    assert files(out) == files(alone)


def test_a_worker_that_always_ends_is_one_sentence(toml, tmp_path, capsys):
    once = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with once, cluster(1) as one, distributed.Client(one) as client:
        everywhere(client, "import os\nfrom apscope.train import _run\n_run._step = lambda *a: os._exit(1)")  # fmt: skip
        words = ["train", toml, "-o", str(tmp_path / "out"), "--dask", client.scheduler.address]
        assert main(words) == 2
    err = capsys.readouterr().err
    said = err[err.rfind("apscope: ") :]
    assert said.startswith("apscope: the Dask worker tcp://") and said.count("\n") == 1
    assert "ended while it worked" in said


def test_a_killed_command_goes_on_with_the_same_bits(client, toml, alone, tmp_path):
    """On the cluster or without it: finished runs are the command's, checkpoints the workers'."""
    out = tmp_path / "out"
    words = ["train", toml, "-o", str(out), "--checkpoint", "0", "--dask", client.scheduler.address]
    run_killed(
        out / "runs", words, module="_on_dask", function="_put", files="[0-9a-f]*.json", count=2
    )
    assert not (out / "training.json").exists()
    done = {p: p.stat().st_mtime_ns for p in (out / "runs").glob("[0-9a-f]*.json")}
    assert len(done) == 2
    assert main(words) == 0
    assert all(p.stat().st_mtime_ns == when for p, when in done.items())
    for name in TABLES:
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name


def test_a_worker_with_another_version_or_other_data_is_refused(client, toml, tmp_path, capsys):
    words = ["train", toml, "--dask", client.scheduler.address, "-o"]
    code = "from apscope.train import _on_dask\n_on_dask.versions = lambda: {'torch': '1.0'}"
    everywhere(client, code)
    try:
        assert main([*words, str(tmp_path / "a")]) == 2
    finally:
        everywhere(client, "from apscope.train import _on_dask, _versions\n_on_dask.versions = _versions.versions")  # fmt: skip
    err = capsys.readouterr().err
    said = f"it has torch 1.0, the client {torch.__version__}"
    assert "on a Dask worker (tcp://" in err and said in err
    other = "from dataclasses import replace\nfrom apscope.train import _tasks\nreal = _tasks.load\n_tasks.load = lambda *a: replace(real(*a), about='other digits')\n_tasks.real = real"
    everywhere(client, other)
    try:
        assert main([*words, str(tmp_path / "b")]) == 2
    finally:
        everywhere(client, "from apscope.train import _tasks\n_tasks.load = _tasks.real")
    assert "its data is 'other digits', the client's '1,797 digits" in capsys.readouterr().err


def test_threads_of_a_worker_take_turns_and_a_sentence_says_so(toml, alone, tmp_path, capsys):
    with cluster(1, threads=3) as one, distributed.Client(one) as client:
        out = tmp_path / "out"
        assert main(["train", toml, "-o", str(out), "--dask", client.scheduler.address]) == 0
    assert "has 3 threads and trains one run at a time" in capsys.readouterr().out
    assert files(out) == files(alone)


def test_a_client_that_fails_while_it_closes_changes_no_answer(
    client, toml, alone, tmp_path, capsys, monkeypatch
):
    close = distributed.Client.close

    def fails(self, *arguments, **keys):
        close(self, *arguments, **keys)
        raise AssertionError

    words = ["train", toml, "--dask", client.scheduler.address, "-o"]
    monkeypatch.setattr(distributed.Client, "close", fails)
    assert main([*words, str(tmp_path / "out")]) == 0
    assert files(tmp_path / "out") == files(alone)
    monkeypatch.setattr("apscope._replay.waiting.ANSWER", 1.0)
    with monkeypatch.context() as nobody:
        nobody.setitem(dask.config.config["distributed"]["comm"]["retry"], "count", 0)
        assert main(["train", toml, "-o", str(tmp_path / "a"), "--dask", "tcp://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == (
        "apscope: no Dask scheduler answers at tcp://127.0.0.1:1 within 1 seconds\n"
    )


def test_what_cannot_be_is_one_sentence_and_writes_nothing(toml, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["train", toml, "-o", out, "--dask", "nonsense://x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["train", toml, "-o", out, "--dask", "tcp://127.0.0.1:1", "--jobs", "2"]) == 2
    assert "--jobs 2 is of this machine's processes" in capsys.readouterr().err
    with cluster(0) as none, distributed.Client(none) as client:
        assert main(["train", toml, "-o", out, "--dask", client.scheduler.address]) == 2
    assert "the Dask cluster has no workers; start at least one" in capsys.readouterr().err
    assert not os.path.exists(out)
