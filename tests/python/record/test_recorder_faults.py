"""Whatever happens to the recording, the training's losses are those of a training without one, bit
for bit. One process with PyTorch runs the faults that do not need a second process, each as a
separate case.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from apscope import open_trace
from apscope._traces.trace_info import check
from tests.python.processes import run_ranks

TORCH = """
import contextlib, json, logging, os, resource, shutil, sys, time, torch
from pathlib import Path
from apscope.record import Recorder

root, warnings, results = Path(sys.argv[1]), [], {}
torch.set_num_threads(1)
class Kept(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())
logging.getLogger("apscope").addHandler(Kept())

def batch():  # of the global generator: a recorder that drew from it would change the training
    return torch.randn(6, 4), torch.randint(3, (6,))

def train(recorder=None, fault=lambda step, rec: None, feed=None, steps=9):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    feed, losses = feed or (batch() for _ in range(steps)), []
    with recorder or contextlib.nullcontext() as rec:
        if rec is not None:
            rec.attach(model)
        for step, (x, y) in enumerate(feed):
            if rec is not None and step == 4:
                until(lambda: committed(rec.path) >= 4 or rec.stopped)
                fault(model, optimizer, rec)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    return losses

def until(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)

def committed(folder):
    path = folder / "manifest.json"
    return len(json.loads(path.read_text())["steps"]) if path.exists() else 0

def case(name, fault=lambda *_: None, after=lambda: None, prepare=lambda path: None, feed=None, **keys):
    path = root / name
    prepare(path)
    warnings.clear()
    recorder = Recorder(path, every=1, quiet=True, **keys)
    try:
        losses = train(recorder, fault, feed and feed())
    finally:
        after()
    results[name] = {"losses": losses, "warnings": list(warnings), "stopped": recorder.stopped}

results["plain"] = {"losses": train()}
case("recorded")

def full(*_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))
case("full", full, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2))

def others(*_):  # another user's folder: nothing in it can be written any more
    if os.getuid():
        (root / "read_only").chmod(0o555)
    else:
        os.seteuid(65534)
def ours():
    os.seteuid(os.getuid())
    (root / "read_only").chmod(0o755)
case("read_only", others, ours)

def closed(path):
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o555)
    if not os.getuid():
        os.seteuid(65534)
case("closed/run", after=lambda: os.seteuid(os.getuid()), prepare=closed)

case("removed", lambda model, optimizer, rec: shutil.rmtree(rec.path))

def taken(model, optimizer, rec):
    shutil.rmtree(rec.path)
    with Recorder(rec.path, every=1, quiet=True, metadata={"whose": "another"}) as another:
        for step in range(3):
            another.record_pytree({"w": torch.full((2,), step).numpy().astype("float32")})
case("taken", taken)

def back(model, optimizer, rec):
    rec.number = 2  # the loop's own count begins again at a checkpoint
case("back", back)
case("again", first_step=0)
case("again", first_step=5, resume=True)

def forked(model, optimizer, rec):
    child = os.fork()
    if not child:
        try:
            for _ in range(3):
                torch.nn.functional.cross_entropy(model(torch.ones(6, 4)), torch.zeros(6, dtype=torch.long)).backward()
                optimizer.step()
            rec.close()
        finally:
            os._exit(0 if rec.number == 7 and not warnings else 1)
    results["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
case("forked", forked)

if os.fork() == 0:  # leaves through everything that an interpreter does at its end
    with Recorder(root / "in the child", every=1, quiet=True) as rec:
        rec.record_pytree({"w": torch.ones(2).numpy()})
    sys.exit(0)
os.wait()

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 54
    def __getitem__(self, i):
        return torch.randn(4, generator=torch.Generator().manual_seed(i)), i % 3
feed = lambda: torch.utils.data.DataLoader(Data(), batch_size=6, num_workers=2, multiprocessing_context="fork")
results["plain feed"] = {"losses": train(feed=feed())}
case("workers", feed=feed)

never = Recorder(root / "never closed", every=1)
train_one = torch.nn.Linear(2, 2)
never.attach(train_one)
train_one(torch.ones(1, 2)).sum().backward()
torch.optim.SGD(train_one.parameters(), lr=0.1).step()
print(json.dumps(results))
"""


def whole(folder, steps):
    trace = open_trace(folder)
    check(trace)
    assert trace.steps == tuple(steps)
    return trace


def steps_of(folder):
    path = folder / "manifest.json"
    return (
        [step["number"] for step in json.loads(path.read_text())["steps"]] if path.exists() else []
    )


@pytest.fixture(scope="module")
def torch_run():
    pytest.importorskip("torch")
    root = Path(tempfile.mkdtemp())  # other users must not read pytest's folders
    root.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-c", TORCH, str(root)], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    yield root, json.loads(run.stdout), run.stderr
    shutil.rmtree(root)


def same_losses(results, name, of="plain"):
    assert results[name]["losses"] == results[of]["losses"] and len(set(results[of]["losses"])) == 9


def test_a_recording_changes_no_loss(torch_run):
    root, results, _ = torch_run
    same_losses(results, "recorded")
    assert results["recorded"]["warnings"] == [] and list((root / "recorded").glob(".*")) == []
    whole(root / "recorded", range(9))


@pytest.mark.parametrize("name, words, steps", [
    ("full", "worker_0000.safetensors: File too large", 4),
    ("read_only", "step_00000004: Permission denied", 4),
    ("removed", "removed was removed, or another process now records into it", 0),
    ("back", "step 2 comes again, after step 3; a run that goes back to a checkpoint needs a new "
             "recorder with first_step= and resume=True", 4),
])  # fmt: skip
def test_a_fault_at_the_fifth_step_is_one_warning_and_the_four_before_it_a_trace(
    torch_run, name, words, steps
):
    root, results, _ = torch_run
    same_losses(results, name)
    (warning,) = results[name]["warnings"]
    assert warning.startswith("apscope: recording ended, training continues: ") and words in warning
    assert results[name]["stopped"] in warning
    if steps:
        whole(root / name, range(steps))
        assert name == "read_only" or list((root / name).rglob(".*")) == []
    else:
        assert not (root / name).exists()


def test_a_folder_that_cannot_be_made_is_one_warning(torch_run):
    root, results, _ = torch_run
    same_losses(results, "closed/run")
    (warning,) = results["closed/run"]["warnings"]
    assert (
        f"{root / 'closed/run'}: Permission denied" in warning
        and not (root / "closed/run").exists()
    )


def test_a_folder_that_another_recording_has_taken_is_left_to_it(torch_run):
    root, results, _ = torch_run
    same_losses(results, "taken")
    assert len(results["taken"]["warnings"]) == 1
    trace = whole(root / "taken", range(3))
    assert trace.tensors == ("w",) and trace.manifest.metadata["whose"] == "another"
    assert sorted(p.name for p in (root / "taken").iterdir()) == [
        "manifest.json",
        *(f"step_0000000{i}" for i in range(3)),
    ]


def test_steps_behind_a_checkpoint_are_recorded_anew(torch_run):
    """The second run counts from 5; the trace already has 0 to 8."""
    root, results, _ = torch_run
    same_losses(results, "again")
    assert results["again"]["warnings"] == []
    whole(root / "again", range(14))


def test_processes_that_are_forked_while_it_records_leave_it_alone(torch_run):
    """A child that continues training and ends the recorder, and one of a DataLoader."""
    root, results, _ = torch_run
    same_losses(results, "forked")
    same_losses(results, "workers", "plain feed")
    assert (
        results["forked"]["warnings"] == results["workers"]["warnings"] == []
        and results["child"] == 0
    )
    for name in ("forked", "workers"):
        whole(root / name, range(9))
        assert list((root / name).glob(".*")) == []


def test_a_recorder_that_is_never_closed_ends_with_the_program(torch_run):
    root, _, said = torch_run
    whole(root / "never closed", [0])
    assert "apscope: 1 step recorded in" in said and list((root / "never closed").glob(".*")) == []


DDP = """
import json, logging, os, resource, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from apscope.record import Recorder
folder, rank = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
logging.basicConfig(format="%(message)s")
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
def train(recorder=None):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 64))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    torch.manual_seed(rank)
    if recorder:
        recorder.attach(model)
    for step in range(8):
        if recorder and rank == 1 and step == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))  # this process's disk is full
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    if recorder:
        recorder.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return losses
plain = train()
recorder = Recorder(f"{folder}/run", every=1, patience=20.0)
same = train(recorder) == plain and len(set(plain)) == 8
print(json.dumps([same, recorder.stopped]), flush=True)
dist.destroy_process_group()
os._exit(0)  # gloo's threads can abort a process while Python ends (pytorch issue 190489)
"""


def test_one_full_disk_of_two_under_ddp_is_a_warning_of_each(tmp_path):
    pytest.importorskip("torch.distributed")
    said = run_ranks(DDP, tmp_path)
    for (out, err), words in zip(said, ("process 1 stopped: ", "File too large"), strict=True):
        same, stopped = json.loads(out)
        assert (
            same
            and words in stopped
            and err.count("apscope: recording ended, training continues") == 1
        )
    trace = whole(tmp_path / "run", range(len(steps_of(tmp_path / "run"))))
    assert trace.workers == 2 and len(trace.steps) <= 4
    assert os.listdir(tmp_path / "run").count(".recording") == 0
