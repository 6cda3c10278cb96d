"""The record of a walk over all inputs: a JSON file, from which the page is made and with which
tests compare casts."""

import dataclasses
import datetime
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import apscope

from .compare import Found, Interval, apscope_codes, differing, values_of
from .everyone import everyone
from .peer import Peer
from .sample import float64_sample
from .walk import ALL, walk

RECORD = Path(__file__).parent / "recorded.json"


def example(peer: Peer, interval: Interval) -> dict[str, str]:
    """One input of an interval: 1 or -1 where it is inside, else the first; both results and
    MPFR's."""
    from apscope import _oracle

    one = 0xBF800000 if interval.is_negative else 0x3F800000
    bits = one if interval.first <= one <= interval.last else interval.first
    x = np.array([bits], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        code = int(peer.codes(x)[0])
    values = values_of(peer.format)
    mpfr = _oracle.project(float(x[0]), peer.format, rounding=peer.rounding, overflow=peer.overflow)
    # If the peer documents no code for NaN in a format without NaN, apscope's result is that of
    # quantize.
    no_code = bool(np.isnan(x[0])) and peer.nan is None and not np.isnan(values).any()
    ours = np.nan if no_code else values[apscope_codes(peer, x)[0]]
    return {
        "input": f"{bits:#010x}", "value": _text(x[0]),
        "peer": _text(values[code]) if code < len(values) else f"code {code:#x}",
        "apscope": _text(ours), "mpfr": _text(mpfr),
    }  # fmt: skip


def _text(value: float) -> str:
    return f"{float(value):.9g}"


def entry(peer: Peer, found: Found, seconds: float) -> dict[str, Any]:
    """The record's rows of one peer."""
    nans = dataclasses.asdict(found.nans)
    codes = sorted(found.nans.codes)
    nans["codes"] = {"different": len(codes), "first": [f"{c:#x}" for c in codes[:4]]}
    return {
        "name": peer.name,
        "version": peer.version,
        "format": peer.format,
        "rounding": peer.rounding,
        "overflow": peer.overflow,
        "inputs": found.inputs,
        "differing": found.differing,
        "seconds": round(seconds, 1),
        "date": datetime.date.today().isoformat(),
        "intervals": [
            {
                "first": f"{i.first:#010x}",
                "last": f"{i.last:#010x}",
                "inputs": i.last - i.first + 1,
                "kind": i.kind,
                "example": example(peer, i),
            }
            for i in found.intervals
        ],
        "intervals_left_out": found.dropped,
        "nan_inputs": nans,
    }


def float64_entry(peer: Peer) -> dict[str, Any]:
    """The same for a cast from float64, on the sample: how many differ, by the kind of input."""
    x = float64_sample(peer.format)
    where = differing(peer, x)[0]
    at = x[where]
    zeros, negative = int(np.count_nonzero(at == 0)), int(np.count_nonzero(at < 0))
    return {
        "name": peer.name, "version": peer.version, "format": peer.format,
        "rounding": peer.rounding, "overflow": peer.overflow,
        "inputs": len(x), "differing": len(at), "zeros": zeros, "negative": negative,
        "others": len(at) - zeros - negative,
    }  # fmt: skip


def make(names: Sequence[str], processes: int = 2, say=print) -> dict[str, Any]:
    """Walk the named peers and record what was found; `say` gets a line a peer."""
    peers, missing = everyone()
    entries = []
    for name, found, seconds in walk([n for n in names if peers[n].source == "float32"], processes):
        entries.append(entry(peers[name], found, seconds))
        count = len(found.intervals) + found.dropped
        say(
            f"{name}: {found.differing} of {found.inputs} inputs differ, in {count} intervals, "
            f"{seconds:.0f} s"
        )
    return {
        "kind": "apscope against its peers on all inputs",
        "inputs": ALL,
        "apscope": apscope.__version__,
        "processor": processor(),
        "processes": processes,
        "missing": missing,
        "float32": entries,
        "float64": [float64_entry(peers[n]) for n in names if peers[n].source == "float64"],
    }


def update(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new record, with the old one's entries of the peers that the new walk left out, in the
    old order.

    Raises
    ------
    ValueError
        The old record is of another apscope or another processor: they do not belong into one
        table.
    """
    for key in ("kind", "inputs", "apscope", "processor", "processes"):
        if old.get(key) != new[key]:
            raise ValueError(
                f"the record has {key} '{old.get(key)}', the walk '{new[key]}'; walk all peers, or "
                "write a new file"
            )
    merged = dict(new)
    for source in ("float32", "float64"):
        entries = {e["name"]: e for e in old[source]}
        entries.update({e["name"]: e for e in new[source]})
        merged[source] = list(entries.values())
    return merged


def processor() -> str:
    """The name of the processor, which is also the peer in two groups."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def intervals(entry: dict[str, Any]) -> list[Interval]:
    return [Interval(int(i["first"], 16), int(i["last"], 16)) for i in entry["intervals"]]


def read(path: Path = RECORD) -> dict[str, Any]:
    return json.loads(path.read_text())


def write(record: dict[str, Any], path: Path = RECORD) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n")
