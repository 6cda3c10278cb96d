"""Reads torch files and distributed checkpoints for another process.

Started as a script, so that only torch is imported. Requests are lines of JSON on standard input,
answers are lines of JSON on standard output, followed by the bytes after an answer to "read".
Files are loaded with weights_only=True: nothing in them is executed. A distributed checkpoint's
metadata is a pickle, which is opened only if the request says that it is trusted.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator
from itertools import count
from typing import Any

requests = os.fdopen(0, "rb")
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # output of libraries is not an answer
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

if not requests.peek(1):
    sys.exit(0)  # the parent was interrupted before the first request, and cannot end this process
try:
    import torch
except ImportError as error:
    answers.write(
        json.dumps({"error": f"torch cannot be imported ({error})", "kind": "missing"}).encode()
        + b"\n"
    )
    answers.flush()
    sys.exit(0)


def numpy_globals() -> list[Any]:
    """Globals that rebuild NumPy's arrays and numbers: data, and no code."""
    try:
        import numpy
        from numpy._core import multiarray
    except ImportError:
        return []
    kinds = [
        getattr(numpy.dtypes, f"{name}DType")
        for name in ("Float16", "Float32", "Float64", "Int32", "Int64", "Bool")
    ]
    return [multiarray._reconstruct, multiarray.scalar, numpy.ndarray, numpy.dtype, *kinds]


#: Key, dtype, shape, layout, and why it has no values.
Listed = tuple[str, str, list[int], str, str]


class RefusedError(Exception):
    """The file cannot be used; the words follow its name."""


def put(tensors: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Keeps a tensor under its path, whose parts are joined by slashes."""
    name = "/".join(path)
    if name in tensors:
        raise RefusedError(
            f"it has two arrays with the name {name!r}, their keys joined by slashes; save them "
            "under other keys"
        )
    tensors[name] = value


#: Of the objects in a file's dicts and lists: a file of 1 KB may name one list many times in
#: another, and so on.
MOST_OBJECTS, DEEPEST = 1_000_000, 64


def walk(
    value: Any,
    path: tuple[str, ...],
    tensors: dict[str, Any],
    scalars: dict[str, float],
    nones: list[str],
    seen: Iterator[int],
) -> None:
    """Collect the tensors of nested dicts and lists by their paths, and what is beside them.

    A list of pairs that begin with a text, as named_parameters() gives them, counts as a dict.
    """
    if next(seen) >= MOST_OBJECTS or len(path) > DEEPEST:
        raise RefusedError(
            f"its dicts and lists hold more than {MOST_OBJECTS} objects, or are nested more than "
            f"{DEEPEST} deep; save the tensors alone"
        )
    if (
        isinstance(value, list | tuple)
        and value
        and all(
            isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in value
        )
    ):
        for key, inner in value:
            walk(inner, (*path, key), tensors, scalars, nones, seen)
        return
    if isinstance(value, torch.Tensor):
        put(tensors, path, value)
    elif type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        put(tensors, path, torch.from_numpy(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            walk(inner, (*path, str(key)), tensors, scalars, nones, seen)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            walk(inner, (*path, str(i)), tensors, scalars, nones, seen)
    elif value is None:
        nones.append("/".join(path))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        scalars["/".join(path)] = float(value)


def check_stored(path: str) -> None:
    """Refuse compressed records: torch.save writes none, and maps or inflates them unlooked at."""
    with zipfile.ZipFile(path) as archive:
        for about in archive.infolist():
            if about.compress_type != zipfile.ZIP_STORED or about.file_size != about.compress_size:
                raise RefusedError(
                    f"its record {about.filename} is compressed, which torch.save does not do; "
                    "save it again"
                )


def check_records(path: str) -> None:
    """Check every record of a torch.save archive against its CRC-32; torch.load does not."""
    with zipfile.ZipFile(path) as archive:
        for about in archive.infolist():
            if about.CRC != 0:
                with archive.open(about) as record:
                    try:
                        while record.read(1 << 20):
                            pass
                    except zipfile.BadZipFile:
                        raise RefusedError(
                            f"its record {about.filename} is damaged: the "
                            "CRC-32 differs; dump it again"
                        ) from None


def load(path: str, mapped: bool) -> Any:
    """The content of a file; nothing in it is executed."""
    with torch.serialization.safe_globals(numpy_globals()):
        return torch.load(
            path, map_location="cpu", weights_only=True, **({"mmap": True} if mapped else {})
        )


def refusal(tensor: Any) -> str:
    """Why the file does not have the tensor's values, as words that follow its name; else ""."""
    if placements := getattr(tensor, "placements", None):  # a DTensor's
        split = [tensor.device_mesh.size(axis) > 1 for axis in range(len(placements))]
        if any(one.is_partial() and several for one, several in zip(placements, split)):
            return (
                "is a DTensor of partial sums, one of "
                f"{tensor.device_mesh.size()} processes'; save grad.full_tensor()"
            )
        if any(not one.is_replicate() and several for one, several in zip(placements, split)):
            return (
                f"is the shard {list(tensor.to_local().shape)} of a DTensor of shape "
                f"{list(tensor.shape)}, one of {tensor.device_mesh.size()} processes'; save "
                "grad.full_tensor()"
            )
    if tensor.is_meta:
        return (
            "is a tensor on the meta device, which has a shape and no values; dump the gradients "
            "of the model that is trained, or leave it out with --tensors"
        )
    return ""


class TorchFile:
    """One file that torch.save wrote."""

    def __init__(self, path: str):
        with open(path, "rb") as stream:
            mapped = stream.read(2) == b"PK"
        self._to_check = path if mapped else None
        if mapped:
            check_stored(path)
        try:
            loaded = load(path, mapped)
        except Exception as error:
            if "torch.distributed.tensor" not in f"{error}":
                raise
            # Takes seconds; registers DTensor as plain data.
            importlib.import_module("torch.distributed.tensor")
            loaded = load(path, mapped)
        self.tensors: dict[str, Any] = {}
        self.scalars: dict[str, float] = {}
        self.nones: list[str] = []
        walk(loaded, (), self.tensors, self.scalars, self.nones, count())
        self.ordered = not isinstance(loaded, torch.Tensor)

    def entries(self) -> Iterator[Listed]:
        for key, tensor in self.tensors.items():
            yield (
                key,
                str(tensor.dtype).removeprefix("torch."),
                list(tensor.shape),
                str(tensor.layout).removeprefix("torch."),
                refusal(tensor),
            )

    def tensor(self, key: str) -> Any:
        if self._to_check is not None:  # with the first values, not with their list
            check_records(self._to_check)
            self._to_check = None
        tensor = self.tensors[key].detach()
        return tensor.to_local() if hasattr(tensor, "placements") else tensor


class Checkpoint:
    """A folder that torch.distributed.checkpoint wrote."""

    ordered = True
    nones: tuple[str, ...] = ()

    def __init__(self, path: str, trusted: bool):
        if not trusted:
            raise PermissionError  # answered as "untrusted"
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint import FileSystemReader
        from torch.distributed.checkpoint.metadata import TensorStorageMetadata

        self.path = path
        metadata = FileSystemReader(path).read_metadata()
        paths = metadata.planner_data or {}
        self.names: dict[str, tuple[str, Any]] = {}
        self.scalars: dict[str, float] = {}
        seen = count()
        for name, about in metadata.state_dict_metadata.items():
            place = tuple(str(part) for part in paths.get(name, (name,)))
            if isinstance(about, TensorStorageMetadata):
                put(self.names, place, (name, about))
            else:  # a number, or any object; if it cannot be opened, it is not a number
                other: dict[str, Any] = {name: None}
                with contextlib.suppress(Exception, checkpoint.api.CheckpointException):
                    checkpoint.load(other, checkpoint_id=path)
                if other[name] is not None:
                    walk(other[name], place, {}, self.scalars, [], seen)

    def entries(self) -> Iterator[Listed]:
        for key, (_, about) in self.names.items():
            yield (
                key,
                str(about.properties.dtype).removeprefix("torch."),
                list(about.size),
                "strided",
                "",
            )

    def tensor(self, key: str) -> Any:
        from torch.distributed import checkpoint

        name, about = self.names[key]
        state = {name: torch.empty(about.size, dtype=about.properties.dtype)}
        checkpoint.load(state, checkpoint_id=self.path)
        return state[name]


def answer(request: dict[str, Any], opened: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The answer to one request, and the tensor whose bytes follow it."""
    path = request["path"]
    if request["do"] == "close":
        opened.pop(path, None)
        return {}, None
    if path not in opened:
        opened[path] = (
            Checkpoint(path, request["trusted"]) if os.path.isdir(path) else TorchFile(path)
        )
    file = opened[path]
    if request["do"] == "list":
        return {
            "entries": list(file.entries()),
            "scalars": file.scalars,
            "ordered": file.ordered,
            "nones": file.nones,
        }, None
    tensor = file.tensor(request["key"])
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if "float4" in str(tensor.dtype):  # torch selects no part of it
        tensor = tensor.contiguous().view(torch.uint8)
    # The last axis first: the others keep their positions.
    for axis, position in reversed(list(enumerate(request["index"]))):
        if position is not None:
            tensor = tensor.select(axis, position)
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    return {"bytes": tensor.numel() * tensor.element_size(), "shape": list(tensor.shape)}, tensor


def main() -> None:
    opened: dict[str, Any] = {}
    for line in requests:
        try:
            head, tensor = answer(json.loads(line), opened)
        except PermissionError:
            head, tensor = {"error": "it may not be opened", "kind": "untrusted"}, None
        # every message of torch is reported by the other process; CheckpointException is not an
        # Exception
        except BaseException as error:  # noqa: BLE001
            # Failures of reading a checkpoint, by rank.
            first = next((failure for failure, _ in getattr(error, "failures", {}).values()), error)
            head, tensor = (
                {"error": f"{first}" or type(first).__name__, "kind": type(first).__name__},
                None,
            )
        answers.write(json.dumps(head).encode() + b"\n")
        if tensor is not None and head["bytes"]:
            answers.write((ctypes.c_char * head["bytes"]).from_address(tensor.data_ptr()))
        answers.flush()


try:
    main()
except BrokenPipeError:
    os._exit(0)  # the parent is gone
