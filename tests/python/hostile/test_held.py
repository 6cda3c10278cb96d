"""Behaviour that an audit of hostile inputs found right: flipped bits, pickles, odd gradients,
threads, random specs."""

import pickle
import random
import shutil
import threading
import warnings
import zipfile

import numpy as np
import pytest

from apscope import open_trace, quantize, replay, schemes
from apscope._dumps.conversion import convert
from tests.python.recorded import record


def write(folder, values):
    """A trace of these values: (steps, workers, n)."""
    record(folder, [{"a.weight": ranks} for ranks in values])
    return folder


def test_fifty_flipped_bits_are_found(tmp_path):
    folder = write(
        tmp_path / "run", np.random.default_rng(1).standard_normal((2, 2, 50)).astype(np.float32)
    )
    draw = random.Random(5)
    files = sorted(folder.glob("*/*.safetensors"))
    for _ in range(50):
        path = draw.choice(files)
        data = path.read_bytes()
        place = draw.randrange(8 * len(data))
        wrong = bytearray(data)
        wrong[place // 8] ^= 1 << place % 8
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=path.name):
            replay(folder, "none:fp16", topology=())
        path.write_bytes(data)
    replay(folder, "none:fp16", topology=())


class Evil:
    """Its pickle makes a file where it is opened."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def evil_npy(path, evil):
    np.save(path, np.array([evil, evil], dtype=object), allow_pickle=True)


def evil_npz(path, evil):
    np.savez(path, w=np.array([evil], dtype=object))


def evil_pickle(path, evil):
    path.write_bytes(pickle.dumps({"w": evil}))


def evil_torch(path, evil):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"w": evil}, protocol=2))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")


def evil_checkpoint(path, evil):
    path.mkdir()
    (path / ".metadata").write_bytes(pickle.dumps(evil))
    (path / "__0_0.distcp").write_bytes(b"x" * 100)


KINDS = [
    ("a.npy", evil_npy), ("a.npz", evil_npz), ("a.pkl", evil_pickle), ("a.pt", evil_pickle),
    ("b.pt", evil_torch), ("c.bin", evil_torch), ("d", evil_checkpoint),
]  # fmt: skip


@pytest.mark.parametrize("name, make", KINDS)
def test_no_code_of_a_pickle_runs(tmp_path, name, make):
    mark = tmp_path / "ran"
    make(tmp_path / name, Evil(mark))
    with pytest.raises(ValueError, match=name):
        convert(tmp_path / name, tmp_path / "out", reduction="mean", workers=1)
    assert not mark.exists() and not (tmp_path / "out").exists()


TINY = np.float32(1e-45)
ODD = {
    "nan": [np.nan, 1, -1, 0],
    "infinite": [np.inf, -np.inf, 1, 0],
    "all nan": [np.nan] * 4,
    "zeros": [0.0, -0.0, 0, 0],
    "subnormal": [TINY, -TINY, 7 * TINY, 0],
    "largest": [3.4e38, -3.4e38, 3.4e38, 3.4e38],
    "mixed": [3.4e38, 1e-45, np.nan, -np.inf],
}


@pytest.mark.parametrize("workers", [1, 3, 40])
@pytest.mark.parametrize("kind", ODD)
def test_traces_of_odd_values_have_their_results(tmp_path, kind, workers):
    row = np.resize(np.array(ODD[kind], np.float32), 33)
    values = np.stack([np.stack([np.roll(row, worker) for worker in range(workers)])] * 2)
    specs = [
        "aps:e4m3",
        "none:e4m3",
        "loss_scaling:e5m2,scale=1024",
        "sign",
        "qsgd",
        "mx",
        "powersgd",
        "error_feedback(top_k)",
        "stochastic:e4m3",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = replay(write(tmp_path / "run", values), specs, topology=["ring", "tree"])
        assert len(results.summary()) >= len(specs)
    results.save(tmp_path / "r")


def test_threads_at_once_have_the_results_of_one_alone(tmp_path):
    folder = write(
        tmp_path / "run", np.random.default_rng(2).standard_normal((2, 4, 3000)).astype(np.float32)
    )
    trace, specs = open_trace(folder), ["aps:e4m3", "stochastic:e4m3", "qsgd"]
    x = np.random.default_rng(3).standard_normal(100_000).astype(np.float32)
    alone = (
        replay(trace, specs, threads=1).frame,
        quantize(x, "e4m3", rounding="stochastic", seed=4),
    )
    found, failed = [], []

    def work(which):
        try:
            shared = trace if which % 2 else open_trace(folder)
            found.append(
                (
                    replay(shared, specs, threads=1 + which % 3).frame,
                    quantize(x, "e4m3", rounding="stochastic", seed=4),
                )
            )
        except BaseException as error:  # noqa: BLE001  # whatever it is
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(found) == 8
    for frame, quantized in found:
        assert frame.equals(alone[0]) and quantized.tobytes() == alone[1].tobytes()


def test_random_specs_are_schemes_or_refused():
    draw = random.Random(7)
    words = (
        [d.name for d in schemes.definitions()]
        if hasattr(schemes, "definitions")
        else ["aps", "hybrid", "none", "qsgd", "error_feedback"]
    )
    words += """
        e4m3 fp16 e5m2fnuz unit=row headroom=one levels=7 rounding=stochastic name:a.* first
        else steps:0:4 all main
    """.split()
    words += [
        ":",
        ",",
        "=",
        "(",
        ")",
        ";",
        "&",
        "-1",
        "1e400",
        "9" * 30,
        "nan",
        " ",
        "\0",
        "é",
        "[",
        "*",
        "\\",
        "",
        "\ud800",
    ]
    taken = 0
    for _ in range(5000):
        spec = "".join(draw.choice(words) for _ in range(draw.randrange(1, 12)))
        try:
            scheme = schemes.Scheme(spec)
        except ValueError as error:
            assert str(error) and len(str(error)) < 1500
        else:
            taken += 1
            assert schemes.Scheme(scheme.spec).spec == scheme.spec
    assert taken > 5


def test_truncated_traces_are_refused(tmp_path):
    folder = write(tmp_path / "run", np.ones((1, 1, 30_000), np.float32))
    for file in (folder / "manifest.json", folder / "step_00000000/worker_0000.safetensors"):
        data = file.read_bytes()
        for part in (0, 1, 7, 8, 9, len(data) // 2, len(data) - 2):
            shutil.copytree(folder, tmp_path / "cut")
            (tmp_path / "cut" / file.relative_to(folder)).write_bytes(data[:part])
            with pytest.raises(ValueError, match=file.name):
                replay(tmp_path / "cut", "none:fp16", topology=())
            shutil.rmtree(tmp_path / "cut")
