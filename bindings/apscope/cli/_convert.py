"""apscope convert: makes a trace from a dump."""

from __future__ import annotations

import argparse
import re

from .._dumps.conversion import convert
from .._dumps.patterns import BARE_PATTERN, DEFAULT_PATTERNS
from ._arguments import adder
from ._table import on_terminal, say

EXAMPLE = "apscope convert dump trace --reduction mean"
HELP = "make a trace from a dump (torch, npz, npy, safetensors, HDF5, zarr)"
DESCRIPTION = """\
Converts a dump of gradients to a trace: files of torch.save, npz, npy, safetensors (single or in
shards), HDF5, zarr, and torch distributed checkpoints, recognised by their content. SRC is a
folder, a file, or an address that fsspec opens (s3://bucket/dump). The first printed line says how
the dump is understood; --dry-run stops there.
"""

_PATTERNS = """\
Names. Without --pattern, the first of these that matches folder/file/key of every array is used (no
extension; keys of nested dicts are joined by /). A common prefix up to a slash, and parts inserted
by DDP, FSDP and torch.compile (module., _orig_mod.), are removed.

{patterns}

and, for one file, or for one array per file, {bare}
"""


#: Options that `convert` has by the same names.
_SAME = (
    "reduction", "pattern", "worker_axis", "step_axis", "workers", "steps", "tensors", "order",
    "sample", "stage", "loss_divided_by_workers", "loss_scale", "accumulation", "accumulate",
    "missing", "name", "model", "round_to_fp32", "densify", "trust_pickle", "python", "dry_run",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    patterns = "\n".join(f"  {pattern}" for pattern in DEFAULT_PATTERNS)
    parser.epilog = _PATTERNS.format(patterns=patterns, bare=BARE_PATTERN).replace("%", "%%")
    add = adder(parser)
    add("source SRC", "folder, file or address of the dump")
    add("destination DST", "the trace's folder; must not exist")
    add("--dry-run", "say how the dump is understood, and write nothing")

    what = adder(parser.add_argument_group("content of the dump"))
    what(
        "--reduction",
        "how training combined the workers' gradients: mean, divided by the number of workers, as "
        "DistributedDataParallel, FSDP and DeepSpeed do; sum, only added. Required",
        choices=("sum", "mean"),
    )
    what(
        "--stage",
        "where gradients were taken; by default local, before the all-reduce",
        choices=("local", "reduced", "clipped"),
    )
    what("--loss-divided-by-workers", "each worker's loss was divided by the number of workers")
    what(
        "--loss-scale X",
        "the factor that gradients still include, and are divided by, 1 for none; 'recorded': "
        "loss_scale of the files, from which another number than 1 must not differ",
        type=_loss_scale,
    )
    what(
        "--accumulation N",
        "each gradient is the sum of N backward passes; stored in the metadata",
    )
    what(
        "--accumulate TYPE",
        "add arrays that differ in the number of the micro-batch (micro_0, or the pattern's group "
        "micro), in ascending order, rounding after every addition, in fp32 or in their own dtype",
        choices=("fp32", "own"),
    )
    what(
        "--missing zeros",
        "what a tensor is that a worker lacks at a step, or that is None there; by default such a "
        "dump is refused",
        choices=("zeros",),
    )
    what("--name NAME", "the trace's name in reports; by default the folder's name")
    what("--model MODEL", "free text", default="")
    what(
        "--role REGEX=ROLE",
        "role of the tensors whose name REGEX matches; repeatable, first match wins",
        action="append",
        default=[],
    )

    where = adder(parser.add_argument_group("where steps, workers and tensors are"))
    where(
        "--pattern REGEX",
        "matches folder/file/key (no extension); named groups step, worker, micro, tensor; without "
        "a tensor group it matches folder/file and the key names the tensor",
    )
    where(
        "--worker-axis N",
        "the axis of every array, from 0, that counts the workers; 'none': there is none",
        type=_axis,
    )
    where(
        "--step-axis N",
        "the axis of every array that counts the steps; 'none': there is none",
        type=_axis,
    )
    where("--workers N", "number of workers; 1: each array belongs to one worker")
    where("--order FILE", "the tensors' names in the order of layers, one per line")

    part = adder(parser.add_argument_group("a part of it"))
    part("--steps A:B", "step numbers A <= step < B, or a list A,B,C")
    part("--tensors REGEX", "tensors whose name REGEX matches")
    part(
        "--sample X",
        "this fraction of every tensor, in whole blocks of 4096 elements; stored in the metadata",
        type=float,
    )

    values = adder(parser.add_argument_group("values"))
    values(
        "--round-to-fp32",
        "round float64 values, and quotients by the loss scale, that are not fp32 values instead "
        "of refusing them",
    )
    values(
        "--raw-dtype [REGEX=]NAME",
        "the type of integers or untyped bytes: bfloat16, float8_e4m3fn, float8_e5m2, ...; with "
        "REGEX, of the arrays whose folder/file/key it matches; repeatable, first match wins",
        action="append",
        default=[],
    )
    values("--densify", "fill sparse tensors with zeros instead of refusing them")
    values(
        "--trust-pickle",
        "open a torch distributed checkpoint, whose metadata is a pickle and can run code",
    )
    values(
        "--python PATH", "the interpreter that has torch, for files of torch; by default this one"
    )


def run(args: argparse.Namespace) -> int:
    rules = [_rule(text) for text in args.role]
    if args.reduction is None:
        raise ValueError(
            "--reduction is not given, and a dump does not say how training combined the workers' "
            "gradients; pass --reduction mean if their sum was divided by the number of workers, "
            "as DistributedDataParallel, FSDP and DeepSpeed do, or --reduction sum if not"
        )
    result = convert(
        args.source,
        args.destination,
        roles=lambda name, _: next((role for regex, role in rules if regex.search(name)), None),
        raw_dtype=_raw(args.raw_dtype),
        progress=on_terminal(),
        tell=say,
        **{name: getattr(args, name) for name in _SAME},
    )
    if result.trace is not None:
        size = sum(size for _, size, _ in result.trace.files())
        say(f"{args.destination}: {size:,} bytes; apscope info, replay and report read it")
    return 0


def _axis(text: str) -> int | str:
    return text if text == "none" or not text.isascii() or not text.isdigit() else int(text)


def _loss_scale(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _raw(texts: list[str]) -> list[tuple[str, str]]:
    """Every REGEX and NAME; the empty expression matches everything."""
    return [(text.rpartition("=")[0], text.rpartition("=")[2]) for text in texts]


def _rule(text: str) -> tuple[re.Pattern, str]:
    expression, separator, role = text.rpartition("=")
    if not separator or not role or not expression:
        raise ValueError(f"--role {text!r} is not of the form REGEX=ROLE")
    try:
        return re.compile(expression), role
    except re.error as error:
        raise ValueError(
            f"--role {text!r}: {expression!r} is not a regular expression: {error}"
        ) from None
