"""``python -m tests.fuzz.fuzz_converters [libFuzzer's options] [CORPUS]``: ``apscope convert`` on
any file. Needs atheris.

The first byte chooses the files' names and the options, the rest is their contents, `NEXT` between
two; where there are fewer contents than files they serve again. HDF5 is left to its library,
torch's files to torch, which reads them in a process of its own.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

from tests.fuzz.refusals import atheris, instrumented

with instrumented("apscope", "safetensors"):
    from apscope import open_trace
    from apscope._dumps.conversion import convert
    from apscope._dumps.torch_files import TorchProcess

NEXT = b"\0\nNEXT\n\0"
#: The files of a dump, and the axes that may count what their names do not say.
NAMES = (
    (("dump.bin",), {"worker_axis": 0, "step_axis": 1}),
    (("step_1/rank_0.npz", "step_1/rank_1.npz", "step_2/rank_0.npz", "step_2/rank_1.npz"), {}),
    (("grads_step1.npy", "grads_step2.npy"), {"worker_axis": 0}),
    (("rank_0/grads.pt", "rank_1/grads.pt"), {"step_axis": 0}),
    (
        (
            "step_1-00001-of-00002.safetensors",
            "step_1-00002-of-00002.safetensors",
            "step_1.safetensors.index.json",
        ),
        {"worker_axis": 0},
    ),
)
#: None is those axes.
OPTIONS = (
    {},
    None,
    {"raw_dtype": "bfloat16", "loss_divided_by_workers": True},
    {"round_to_fp32": True, "densify": True},
    {"sample": 0.5, "tensors": "^[wb]$", "steps": "0:2"},
    {"workers": 1, "step_axis": "none", "stage": "clipped"},
    {"stage": "local", "loss_scale": 8, "accumulation": 2},
)


def choice(names: int, options: int) -> int:
    """The first byte that chooses them."""
    return names + len(NAMES) * options


def no_torch(*_, **__):
    raise ValueError("torch is not asked here")


def converts(data: bytes, folder: Path) -> bool:
    """Whether the dump becomes a trace; checks the trace, or that the refusal is one sentence that
    leaves nothing behind."""
    if len(data) < 1 or b"\x89HDF\r\n\x1a\n" in data:
        return False
    (names, axes), options = (
        NAMES[data[0] % len(NAMES)],
        OPTIONS[data[0] // len(NAMES) % len(OPTIONS)],
    )
    for part in ("dump", "trace"):
        shutil.rmtree(folder / part, ignore_errors=True)
    contents = data[1:].split(NEXT)
    for i, name in enumerate(names):
        (folder / "dump" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "dump" / name).write_bytes(contents[i % len(contents)])
    source = folder / "dump" / names[0] if len(names) == 1 else folder / "dump"
    try:
        with mock.patch.object(TorchProcess, "ask", no_torch):
            convert(
                source, folder / "trace", reduction="mean", **(axes if options is None else options)
            )
    except (ValueError, OSError) as error:
        assert "\n" not in str(error), f"a refusal of several lines: {error}"
        left = [path for path in folder.iterdir() if path.name != "dump"]
        assert not left, f"a refusal left {left}: {error}"
        return False
    open_trace(folder / "trace").check()
    return True


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="apscope-fuzz-") as place:
        atheris.Setup(sys.argv, lambda data: converts(data, Path(place)) and None)
        atheris.Fuzz()
