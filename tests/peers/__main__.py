"""`python -m tests.peers walk` makes the record, `python -m tests.peers page` the tables."""

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from docs.tools.page import write

from . import page, record
from .everyone import everyone
from .reasons import reason

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers", description=__doc__, allow_abbrev=False
    )
    does = parser.add_subparsers(dest="does", required=True)
    walker = does.add_parser(
        "walk", help="compare on all 2^32 inputs; exits with 1 if a difference has no known reason"
    )
    walker.add_argument(
        "peers", nargs="*", metavar="PEER", help="names, with * and ?; all that are here if none"
    )
    walker.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="the record, such as tests/peers/recorded.json; keeps entries of other PEERs",
    )
    walker.add_argument("--processes", type=int, default=2, metavar="N")
    writer = does.add_parser("page", help="put the record's tables into the page")
    writer.add_argument(
        "--json", type=Path, default=record.RECORD, metavar="FILE", help="the record"
    )
    writer.add_argument("--into", type=Path, default=PAGE, metavar="FILE")
    args = parser.parse_args()
    if args.does == "page":
        write(args.into, {"all inputs": [page.render(record.read(args.json))]})
        return 0
    peers, missing = everyone()
    for name, why in missing.items():
        print(f"left out {name}: {why}")
    chosen = [n for n in peers if not args.peers or any(fnmatchcase(n, p) for p in args.peers)]
    if not chosen:
        print(
            f"no peer is named {', '.join(args.peers)}; here are {', '.join(peers)}",
            file=sys.stderr,
        )
        return 2
    made = record.make(chosen, args.processes, lambda line: print(line, flush=True))
    if args.json:
        keep = args.peers and args.json.is_file()
        record.write(record.update(record.read(args.json), made) if keep else made, args.json)
    unknown = 0
    for e in made["float32"]:
        if e["intervals_left_out"] or None in [reason(e["name"], i) for i in record.intervals(e)]:
            print(f"{e['name']} differs, and tests/peers/reasons.py does not say why")
            unknown += 1
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
