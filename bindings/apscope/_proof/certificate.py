"""The results of `verify` as a JSON document, with a description of the machine."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._core import FloatFormat
from .._folders.writing import write_file
from .verify import Verification

KIND = "apscope certificate"
VERSION = 1


def certificate(results: Sequence[Verification], command: Sequence[str] = ()) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    results : sequence of Verification
        As `verify` returns them.
    command : sequence of str
        The command that produced them.

    Returns
    -------
    dict
        ``kind``, ``version``, ``apscope`` (its version), ``command``, ``created`` (UTC),
        ``machine`` (processor, system, MPFR's version or null, vector instructions, processors),
        ``formats`` (the fields of each format), ``results`` (one object per row), ``cases`` and
        ``mismatches`` (sums), ``proved`` (true if there are rows, none differs and all were
        compared with an oracle).
    """
    rows = [dataclasses.asdict(r) for r in results]
    return {
        "kind": KIND,
        "version": VERSION,
        "apscope": _core.__version__,
        "command": list(command),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": platform.machine(),
            "system": platform.system(),
            "mpfr": _mpfr_version(),
            "simd": _core.simd_level(),
            "processors": os.cpu_count(),
        },
        "formats": {
            name: FloatFormat(name).to_dict() for name in dict.fromkeys(r.format for r in results)
        },
        "results": rows,
        "cases": sum(r.cases for r in results),
        "mismatches": sum(r.mismatches for r in results),
        "proved": bool(rows) and all(r.mismatches == 0 and r.oracle != "none" for r in results),
    }


def _mpfr_version() -> str | None:
    try:
        from .. import _oracle
    except ImportError:
        return None
    return _oracle.mpfr_version()


def write_certificate(
    path: str | Path, results: Sequence[Verification], command: Sequence[str] = ()
) -> None:
    """Write `certificate` to a file, all or nothing."""
    write_file(path, json.dumps(certificate(results, command), indent=1) + "\n", "apscope verify")
