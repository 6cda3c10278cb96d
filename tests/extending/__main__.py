"""Executes docs/extending.md's examples: python -m tests.extending [NAME...] [--keep] [--page]."""

import argparse
import subprocess
import sys
import time

from . import page
from .examples import EXAMPLES
from .run import in_a_new_folder


def main() -> int:
    """0, or 1 if an example fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.extending", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples; by default all")
    parser.add_argument("--keep", action="store_true", help="leave the copies of the tree")
    parser.add_argument(
        "--page", action="store_true", help="write the patches into docs/extending.md, run nothing"
    )
    args = parser.parse_args()
    if args.page:
        page.PAGE.write_text(page.written(page.PAGE.read_text()))
        return 0
    known = {example.name: example for example in EXAMPLES}
    if unknown := [name for name in args.names if name not in known]:
        parser.error(f"there is no example {unknown[0]}; there are {', '.join(known)}")
    failed = []
    for name in args.names or known:
        start = time.monotonic()
        try:
            in_a_new_folder(known[name], args.keep)
            outcome = "passed"
        except (subprocess.CalledProcessError, AssertionError) as error:
            print(error)
            failed.append(name)
            outcome = "failed"
        print(f"{name}: {outcome}, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
