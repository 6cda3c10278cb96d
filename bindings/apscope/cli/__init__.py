"""The command line: ``apscope VERB ...``. Every verb is a file: its help, `arguments` and `run`."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import difflib
import importlib
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from .._interrupt import interrupts
from .._text import escaped
from ._output import NAME as OUTPUT
from ._output import escaping, give_up

__all__ = ["main"]
__dir__ = __all__.copy

VERBS = (
    "formats", "schemes", "info", "convert", "cut", "replay", "merge", "report", "summary", "compare",
    "ladder", "recommend", "search", "limit", "train", "check", "verify", "fingerprint",
    "conformance", "units", "bench",
)  # fmt: skip

#: Options besides a verb.
OPTIONS = ("--help", "--version")

#: Bytes of address space below which nothing is loaded; docs/limits.md.
ADDRESSES = 768 * 2**20


class Parser(argparse.ArgumentParser):
    """Errors are one sentence with the nearest word; no abbreviations; examples in the help."""

    example = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def format_help(self) -> str:
        lines = "".join(f"  {line}\n" for line in self.example.splitlines())
        return super().format_help() + (f"\nexample:\n{lines}" if lines else "")

    def error(self, message: str) -> NoReturn:
        raise ValueError(self._with_hint(message))

    def _with_hint(self, message: str) -> str:
        verb = self.prog.removeprefix("apscope").strip()  # the sentence already begins with apscope
        if message.startswith("unrecognized arguments: "):
            word = message.split(": ", 1)[1].split(maxsplit=1)[0]
            known = [option for action in self._actions for option in action.option_strings]
            near = difflib.get_close_matches(word.split("=")[0], known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; see {self.prog} --help"
            return f"{f'{verb} has' if verb else 'there is'} no argument '{word}'{hint}"
        if found := re.fullmatch(r"argument (.+): invalid (int|float) value: (.*)", message):
            message = (
                f"{found[1]} {found[3]} must be {'an integer' if found[2] == 'int' else 'a number'}"
            )
        return f"{verb}: {message}" if verb else message


def _parser(only: str | None = None) -> Parser:
    """The parser of all verbs, or of one, which imports only that one."""
    from .._core import __version__

    parser = Parser(
        prog="apscope", description="Shows what a low-precision gradient loses, exactly."
    )
    parser.example = "apscope help summary"
    parser.add_argument("--version", action="version", version=f"apscope {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in VERBS if only is None else [only]:
        module = importlib.import_module(f"._{verb}", __name__)
        description = getattr(module, "DESCRIPTION", None)
        one = verbs.add_parser(verb, help=module.HELP, description=description)
        one.example = module.EXAMPLE
        module.arguments(one)
        one.set_defaults(run=module.run)
    return parser


def _parse(arguments: list[str]) -> argparse.Namespace:
    if arguments[:1] == ["help"]:  # as in other tools, for --help
        arguments = [*arguments[1:2], "--help"]
    word = next((a for a in arguments if not a.startswith("-")), None)
    parser = _parser(word if word in VERBS and arguments[0] == word else None)
    if not arguments:
        raise ValueError(f"give a verb, one of {', '.join(VERBS)}; --help describes them")
    if arguments[0].startswith("-") and arguments[0] not in ("-h", *OPTIONS):
        parser.error(f"unrecognized arguments: {arguments[0]}")
    if word is not None and word not in VERBS:
        near = difflib.get_close_matches(word, (*VERBS, *OPTIONS), n=1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(VERBS)}"
        raise ValueError(f"unknown verb '{word}'; {hint}")
    args, extra = parser.parse_known_args(arguments)
    if extra:
        verbs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        one = verbs.choices[args.verb]
        # Words that an option parted from the others before it; not of a verb with verbs of its own.
        if not any(isinstance(a, argparse._SubParsersAction) for a in one._actions):
            args, extra = one.parse_known_intermixed_args(
                arguments[arguments.index(args.verb) + 1 :], argparse.Namespace(verb=args.verb)
            )
        if extra:
            one.error(f"unrecognized arguments: {' '.join(extra)}")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line. Errors are printed, not raised.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``apscope``; by default those of the process.

    Returns
    -------
    int
        0; 1 if `verify` or `conformance check` found a mismatch, or `check` a problem; 2 after an
        error, printed as one sentence on standard error; 130 when interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with _any_character(), escaping():
        return _run(arguments)


def _check_addresses() -> None:
    """Refuses to load the libraries if the address space is so small that loading could abort."""
    try:
        import resource
    except ImportError:
        return  # not on Linux or similar
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < ADDRESSES:
        raise ValueError(
            f"there is not enough memory: ulimit -v allows this process {limit / 2**20:,.1f} MiB "
            f"of address space, and apscope's libraries need {ADDRESSES / 2**20:,.1f} MiB to load; "
            "allow more"
        )


def _answer(arguments: list[str]) -> int:
    try:
        args = _parse(arguments)
    except SystemExit:  # of --help and --version
        sys.stdout.flush()
        raise
    args.words = arguments
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _tell(f"warning: {message}")
        code: int = args.run(args)
        sys.stdout.flush()
        return code


def _run(arguments: list[str]) -> int:
    try:
        _check_addresses()
        with interrupts():
            return _answer(arguments)
    except (ValueError, TypeError) as error:
        _tell(str(error))
        return 2
    except BrokenPipeError:
        # The reader has closed the pipe (apscope formats | head), so a message would not be read.
        give_up()
        return 0
    except OSError as error:
        if error.filename == OUTPUT:
            give_up()
        name = (
            f" {error.filename}"
            if error.filename and str(error.filename) not in str(error.strerror or "")
            else ""
        )
        _tell(f"{error.strerror or error}{name and ':' + name}")
        return 2
    except (MemoryError, ImportError, RuntimeError, SystemError) as error:
        from .._limits import is_of_memory, memory_sentence

        if not is_of_memory(error):
            raise
        _tell(memory_sentence(error))
        return 2
    except KeyboardInterrupt:
        _tell("interrupted")
        return 130


def _written(error: UnicodeError) -> tuple[bytes, int]:
    """Error handler of encodings: writes a path's raw bytes, and codes of other characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    parts = (
        bytes([ord(c) - 0xDC00])
        if 0xDC80 <= ord(c) <= 0xDCFF
        else c.encode("ascii", "backslashreplace")
        for c in text
    )
    return b"".join(parts), error.end


codecs.register_error("apscope", _written)


@contextlib.contextmanager
def _any_character() -> Iterator[None]:
    """Makes streams print characters that their encodings lack, instead of failing."""
    changed = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            changed.append((stream, stream.errors))
            stream.reconfigure(errors="apscope")
    try:
        yield
    finally:
        for stream, errors in changed:
            if not stream.closed:
                stream.reconfigure(errors=errors)


def _tell(text: str) -> None:
    """Prints one line on standard error, if it exists: else print() would use standard output."""
    if sys.stderr is not None:
        print(f"apscope: {escaped(' '.join(text.split()))}", file=sys.stderr)
