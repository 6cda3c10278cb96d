"""``apscope schemes [NAME...]``: describes each scheme and its keys."""

from __future__ import annotations

import argparse
import textwrap

from .. import schemes
from ._arguments import adder

EXAMPLE = "apscope schemes aps loss_scaling"
HELP = "the schemes, their keys with defaults, and the recordings that they need"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("names NAME", "names or specs of schemes; by default all", nargs="*")


def run(args: argparse.Namespace) -> int:
    rows = {d.name: d for d in schemes.definitions()}
    for name in [
        name if name in rows else schemes.as_scheme(name).name for name in args.names
    ] or rows:
        d = rows[name]
        form = {
            "scheme": f"{name}(SCHEME)[,key=value...]",
            "policy": f"{name}(CONDITION=SCHEME;...;else=SCHEME)",
        }.get(d.body)
        if form is None:
            first = "FORMAT" if d.takes_format else d.grid_key.upper()
            form = f"{name}:{first}[,key=value...]" if first else f"{name}[:key=value,...]"
        print(f"{form}   (Python: apscope.schemes.{d.class_name})")
        print(textwrap.fill(d.summary, 100, initial_indent="    ", subsequent_indent="    "))
        print(f"    source  {d.source}\n    needs   {d.needs}")
        width = max((len(f"{key.name}={key.default}") for key in d.keys), default=0)
        for key in d.keys:
            print(f"      {f'{key.name}={key.default}':{width}}  {key.meaning}")
        print()
    return 0
