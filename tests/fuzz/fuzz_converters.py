"""``python tests/fuzz/fuzz_converters.py [libFuzzer's options] [CORPUS]``: what ``apscope convert`` does with any file. Needs atheris.

The first byte chooses the file's name and the options, the rest is its content. HDF5 is left to its library, torch's files to
torch, which reads them in a process of its own.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["apscope", "safetensors"]):
    from apscope import open_trace
    from apscope._dumps import torch_files
    from apscope._dumps.conversion import convert

NAMES = ("step_3/rank_0.npz", "step3_worker0.npy", "model.safetensors", "model.safetensors.index.json", "grads.pt", "stack.npz", "dump")
OPTIONS = (
    {},
    {"workers": 1},
    {"worker_axis": 0, "step_axis": 1},
    {"round_to_fp32": True, "densify": True, "raw_dtype": "bf16"},
    {"sample": 0.5, "loss_divided_by_workers": True},
)


def no_torch(*_, **__):
    raise ValueError("torch is not asked here")


torch_files.TorchProcess.ask = no_torch
folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="apscope-fuzz-"))


def one_input(data: bytes) -> None:
    if len(data) < 1 or data[1:9] == b"\x89HDF\r\n\x1a\n":
        return
    name, options = NAMES[data[0] % len(NAMES)], OPTIONS[data[0] // len(NAMES) % len(OPTIONS)]
    for part in ("dump", "trace"):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / "dump" / name).parent.mkdir(parents=True)
    (folder / "dump" / name).write_bytes(data[1:])
    try:
        convert(folder / "dump", folder / "trace", reduction="mean", **options)
    except (ValueError, OSError) as error:
        assert "\n" not in str(error), f"a refusal of several lines: {error}"
        left = [path for path in folder.iterdir() if path.name != "dump"]
        assert not left, f"a refusal left {left}: {error}"
    else:
        open_trace(folder / "trace").check()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
