"""C++ as the compiler takes it apart, so that a digest of sources changes with what they say and with nothing else.

Moving a file, editing a comment, wrapping a line otherwise or including a project's header by another path leaves the tokens as
they are. Follows translation phases 2, 3 and 6 of the C++20 standard ([lex.phases]): lines that end in a backslash are joined,
except inside raw strings; comments and blank space separate tokens and are gone; preprocessing numbers, literals with their
prefixes and suffixes, and operators by the longest match ([lex.pptoken]); adjacent string literals are one. A directive ends where
its line does, and blank space before a parenthesis tells a macro's text from its parameters: both are tokens here.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PREFIX = r"(?:u8|[uUL])?"
_RAW = re.compile(_PREFIX + r'R"(?P<delimiter>[^ ()\\\t\v\f\n"]{0,16})\(.*?\)(?P=delimiter)"\w*', re.DOTALL)
#: What may hold something that looks like a raw string: raw strings are looked for from the left, past these.
_NOT_RAW = re.compile(r'//(?:\\[ \t]*\n|[^\n])*|/\*.*?\*/|"(?:[^"\\\n]|\\.|\\[ \t]*\n)*"|(?<!\w)' + _PREFIX + r"'(?:[^'\\\n]|\\.)+'|\w+", re.DOTALL)
_SPLICE = re.compile(r"\\[ \t]*\n")
_BLANK = re.compile(r"[ \t\v\f\r]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADER = re.compile(r'<[^>\n]+>|"[^"\n]+"')
_TOKEN = re.compile(
    "|".join(
        [
            _PREFIX + r'"(?:[^"\\\n]|\\.)*"\w*',
            _PREFIX + r"'(?:[^'\\\n]|\\.)+'\w*",
            r"\.?\d(?:[eEpP][+-]|'\w|[\w.])*",  # a preprocessing number: 0x1p-3f, 1'000, .5e+3
            r"[^\W\d]\w*",
            r"%:%:|<=>|\.\.\.|->\*|<<=|>>=|<:(?=::[^:>])|<(?=::[^:>])",
            r"::|->|\.\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|\^=|&=|\|=|##|<%|%>|<:|:>|%:",
            r"[^\s]",
        ]
    )
)
#: Strings that are joined: without a prefix or suffix, and none whose escape of several digits might go on in the next.
_PLAIN_STRING = re.compile(r'"(?:[^"\\]|\\[^xuUN0-7])*"')
END_OF_DIRECTIVE = "\n"
#: Between a macro's name and a parenthesis that begins its text, not its parameters.
NOT_PARAMETERS = " "


class NotCpp(ValueError):
    """What stands in a file is not C++."""


@dataclass(frozen=True)
class Source:
    """What stands in a file."""

    tokens: tuple[str, ...]  #: without ``#pragma once`` and `includes`
    includes: tuple[str, ...]  #: the paths in quotation marks, which are the project's own


@functools.cache
def parse(text: str) -> Source:
    """A file's tokens and includes; `NotCpp` where there are none to be made."""
    found: list[str] = []
    includes: list[str] = []
    for line in _lines(_pieces(text)):
        if line[:2] == ["#", "include"] and line[2].startswith('"'):
            includes.append(line[2][1:-1])
        elif line[:3] != ["#", "pragma", "once"]:
            found += _joined(line)
    return Source(tuple(found), tuple(includes))


def _joined(line: list[str]) -> Iterator[str]:
    """A line's tokens, plain strings beside each other as one."""
    for is_string, group in itertools.groupby(line, lambda token: _PLAIN_STRING.fullmatch(token) is not None):
        some = list(group)
        yield from ['"' + "".join(token[1:-1] for token in some) + '"'] if is_string else some


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text cut into raw strings (True), which keep every character, and what is between them, lines joined."""
    text = text.replace("\r\n", "\n")
    at = begin = 0
    while at < len(text):
        raw = _RAW.match(text, at)
        if raw:
            yield False, _SPLICE.sub("", text[begin:at])
            yield True, raw[0]
            at = begin = raw.end()
            continue
        passed = _NOT_RAW.match(text, at)
        at = passed.end() if passed else at + 1
    yield False, _SPLICE.sub("", text[begin:])


def _lines(pieces: Iterable[tuple[bool, str]]) -> Iterator[list[str]]:
    """Directives, each with its end, and what is between them."""
    line: list[str] = []
    starts, in_directive, spaced = True, False, False
    for is_raw, text in pieces:
        if is_raw:
            line.append(text)
            starts = spaced = False
            continue
        at = 0
        while at < len(text):
            if blank := _BLANK.match(text, at):
                at, spaced = blank.end(), True
                continue
            if text[at] == "\n":
                if in_directive:
                    yield [*line, END_OF_DIRECTIVE]
                    line = []
                at, starts, in_directive, spaced = at + 1, True, False, True
                continue
            if starts and (text[at] == "#" or text.startswith("%:", at)):
                if line:
                    yield line
                line, in_directive = [], True
            is_header = in_directive and line[1:] in (["include"], ["include_next"], ["import"])
            token = (is_header and _HEADER.match(text, at)) or _TOKEN.match(text, at)
            if token is None or token[0] == '"' or text.startswith("/*", at):
                raise NotCpp(f"no token begins with {text[at : at + 20]!r}")
            if in_directive and line[1:2] == ["define"] and len(line) == 3 and token[0] == "(" and spaced:
                line.append(NOT_PARAMETERS)
            line.append(token[0])
            at, starts, spaced = token.end(), False, False
    if line:
        yield [*line, END_OF_DIRECTIVE] if in_directive else line


def digest(sources: Iterable[Source]) -> str:
    """SHA-256 over the tokens of files, whatever their names, their places and their order."""
    each = sorted(hashlib.sha256("\0".join(source.tokens).encode()).digest() for source in sources)
    return hashlib.sha256(b"".join(each)).hexdigest()
