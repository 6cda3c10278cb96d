"""``python -m tests.fuzz.fuzz_packs [libFuzzer's options] [CORPUS]``: conformance packs of others.
Needs atheris.

The first byte says what is asked; of an even second byte the rest is the text of manifest.json, of
an odd one edits of the whole one, three bytes each: where (two bytes), and the value.
"""

import copy
import functools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.refusals import ODD_VALUES, atheris, instrumented, places, replaced, taken

with instrumented("apscope.conformance", "apscope._text"):
    from apscope import conformance, quantize

QUESTIONS: tuple[Callable[[Path], Any], ...] = (
    lambda pack: conformance.check(pack, lambda x: quantize(x, "e2m1fn"), format="e2m1fn"),
    lambda pack: conformance.check(pack, np.float16),
    lambda pack: list(conformance.pack_problems(pack)),
)


@functools.cache
def whole() -> dict[str, bytes]:
    """The files of a pack of one small format."""
    with tempfile.TemporaryDirectory() as place:
        conformance.write(Path(place) / "pack", ["e2m1fn"])
        return {path.name: path.read_bytes() for path in (Path(place) / "pack").iterdir()}


def answered(data: bytes, folder: Path) -> bool | None:
    """Whether the pack is taken and the question answered; None where the bytes say nothing."""
    if len(data) < 2:
        return None
    text = data[2:]
    if data[1] % 2:
        told = json.loads(whole()["manifest.json"])
        for i in range(2, min(len(data) - 2, 50), 3):
            every = list(places(told))
            told = replaced(
                told,
                every[(data[i] * 256 + data[i + 1]) % len(every)],
                copy.deepcopy(ODD_VALUES[data[i + 2] % len(ODD_VALUES)]),
            )
        text = json.dumps(told).encode()
    place = folder / "pack"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in (whole() | {"manifest.json": text}).items():
        (place / name).write_bytes(content)
    return taken(lambda: QUESTIONS[data[0] % len(QUESTIONS)](place))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="apscope-fuzz-") as temporary:
        whole()
        atheris.Setup(sys.argv, lambda data: answered(data, Path(temporary)) and None)
        atheris.Fuzz()
