"""torch.save files and torch.distributed.checkpoint folders, read by a process with torch."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._limits import check_fits
from .dtypes import numpy_dtype, unpacked, word_of
from .reader import Entry, Index, Reader, taken


class TorchProcess:
    """The process; starts with the first request, ends with `close`.

    Parameters
    ----------
    python : str, optional
        The interpreter that has torch; by default this one.
    """

    def __init__(self, python: str | None = None):
        self._python = python or sys.executable
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, do: str, path: Path, **more: Any) -> tuple[dict[str, Any], bytes]:
        """The answer to one request, and the bytes that belong to it.

        Raises
        ------
        ValueError
            The file cannot be read (the words follow the file's name), or there is no torch.
        """
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    [self._python, str(Path(__file__).with_name("_torch_process.py"))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # this process handles Ctrl-C and ends that one
                )
            except OSError as error:
                raise ValueError(
                    f"the interpreter {self._python} cannot be started: {error.strerror}"
                ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its last output says why
            self._process.stdin.write(
                json.dumps({"do": do, "path": str(path.absolute()), **more}).encode() + b"\n"
            )
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise ValueError(
                "the process that reads it with torch ended; it may be "
                "damaged, or too large for the memory"
            )
        head = json.loads(line)
        if "error" in head:
            raise ValueError(_explained(head["kind"], head["error"]))
        body = self._process.stdout.read(head.get("bytes", 0))
        if len(body) != head.get("bytes", 0):
            raise ValueError(
                "the process that reads it with torch ended; it may be "
                "damaged, or too large for the memory"
            )
        return head, body

    def forget(self, path: Path) -> None:
        """Lets the process free a file's data."""
        if self._process is not None:
            self.ask("close", path)

    def close(self) -> None:
        """End the process; it only reads."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
            process.wait()


def _explained(kind: str, error: str) -> str:
    if kind == "missing":
        return (
            "it is a torch file, and torch is not installed here; pip install torch, or name "
            "an interpreter that has it with --python"
        )
    if kind == "untrusted":
        return (
            "it is a torch distributed checkpoint, whose metadata is a pickle that runs code "
            "when it is opened; pass --trust-pickle if you trust it"
        )
    if kind == "RefusedError":
        return error
    if match := re.search(r"GLOBAL ([\w.]*\w)", error):
        return (
            f"it contains a pickled {match[1]}, which is not opened because that can run code; "
            "save plain tensors in dicts and lists"
        )
    if "weights_only" in error:  # torch's own message advises to disable the check
        return (
            "torch cannot read it: it is damaged, or contains objects that are not opened "
            "because that can run code; dump it again, or save plain tensors"
        )
    words = " ".join(error.split())
    return f"torch cannot read it: {words[:200]}{'...' if len(words) > 200 else ''}"


class TorchReader(Reader):
    """A file of torch.save, or (`checkpoint`) a folder of torch.distributed.checkpoint."""

    def __init__(
        self, path: Path, process: TorchProcess, *, checkpoint: bool = False, trusted: bool = False
    ):
        self._path, self._process, self._more = (
            path,
            process,
            {"trusted": trusted} if checkpoint else {},
        )
        answer, _ = process.ask("list", path, **self._more)
        entries = [
            Entry(
                key,
                word_of(dtype),
                _unpacked_shape(shape) if word_of(dtype) == "F4" else tuple(shape),
                "dense" if layout == "strided" else layout,
                refusal,
            )
            for key, dtype, shape, layout, refusal in answer["entries"]
        ]
        self.entries = entries
        self._of = {entry.key: entry for entry in entries}
        self.ordered, self.scalars = answer["ordered"], answer["scalars"]
        self.nones = answer["nones"]
        if checkpoint:
            self.notes = (
                "a torch distributed checkpoint stores each tensor name "
                "once, whatever the number of ranks",
            )

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        entry = self._of[key]
        word = numpy_dtype(entry.dtype)
        assert word is not None  # check_word was asked
        if entry.dtype == "F4":  # two values a byte: the whole, then a part of it
            part, index = index, ()
        check_fits(taken(entry.shape, index), word.itemsize)
        answer, values = self._process.ask(
            "read",
            self._path,
            key=key,
            index=[i if isinstance(i, int) else None for i in index],
            **self._more,
        )
        if entry.dtype == "F4":
            return unpacked(np.frombuffer(values, word), entry.shape)[part]
        return np.frombuffer(values, word).reshape(answer["shape"])

    def close(self) -> None:
        self._process.forget(self._path)


def _unpacked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the values of a packed FP4 tensor, two along its last axis in every element."""
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)
