"""Readable names and numbers for terminals, pages and pictures."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence

_RAISED = str.maketrans("0123456789-\N{MINUS SIGN}", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


_ODD = re.compile(r"[^\n -~]")
#: Characters that control a terminal, or change a text's direction or lines, unseen.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def clip(name: str, longest: int = 60) -> str:
    """A name that fits: a long one keeps its beginning and its end."""
    return (
        name
        if len(name) <= longest
        else f"{name[: math.ceil(longest * 0.55)]}…{name[-math.floor(longest * 0.4) :]}"
    )


def plain_number(value: float) -> str:
    """A number with all its digits: an integer below 2^53 as one, else the shortest that is it."""
    value = float(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 2**53 else repr(value)


def escaped(text: str, bytes_too: bool = True) -> str:
    r"""Lines whose control characters, and those that change a text's direction, are escaped.

    Line feeds stay. A byte of a path that is not UTF-8 becomes ``\xFF``; without `bytes_too` it
    stays the half of a surrogate pair that Python has for it.
    """
    if not _ODD.search(text):
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escape(c, bytes_too) for c in text)


def _escape(c: str, bytes_too: bool) -> str:
    if 0xDC80 <= ord(c) <= 0xDCFF:
        return f"\\x{ord(c) - 0xDC00:02X}" if bytes_too else c
    return repr(c)[1:-1]


def visible(text: str) -> str:
    """The text of a page, with escapes in place of invisible control characters."""
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


def printable(name: str, longest: int = 200) -> str:
    """A name on one line: escaped, as also line feeds are; a long name is clipped."""
    return clip(escaped(name).replace("\n", "\\n"), longest)


def raised(exponent: int | str) -> str:
    """An integer in superscripts."""
    return str(exponent).translate(_RAISED)


def count_of(count: int, noun: str) -> str:
    """1 step, 1,000 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def hint(word: str, names: Sequence[str], shown: int = 6, have: str = "they have") -> str:
    """A hint: the nearest of the existing names, else the first of them."""
    near = [name for name in names if name.startswith(word)][:1] or difflib.get_close_matches(
        word, names, n=1, cutoff=0.5
    )
    if near:
        return f"did you mean '{near[0]}'?"
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{have} {', '.join(clip(name, 80) for name in names[:shown]) or 'none'}{more}"


def wrapped(spec: str, width: int = 22, lines: int = 4) -> list[str]:
    """A spec on lines of at most `width` letters, broken after punctuation; clipped to `lines`."""
    return broken(printable(spec, width * lines), width)


def broken(text: str, width: int) -> list[str]:
    """A text on as few lines of at most `width` letters as possible, broken after punctuation."""
    lines = [""]
    for piece in re.findall(rf"[^,;:(]{{0,{width - 1}}}[,;:(]|[^,;:(]{{1,{width}}}", text):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def numbered(names: Sequence[str], longest: int) -> tuple[list[str], list[str]]:
    """Names for a column, and lines for below the table that have the shortened ones whole.

    A name of more than `longest` letters keeps its beginning and its end behind a number, under
    which the line has all of it, to be copied.
    """
    lines = [escaped(name).replace("\n", "\\n") for name in names]
    long = [name for name in dict.fromkeys(lines) if len(name) > longest]
    marks = {name: f"[{i}] " for i, name in enumerate(long, 1)}
    short = {name: mark + clip(name, max(longest - len(mark), 4)) for name, mark in marks.items()}
    return [short.get(name, name) for name in lines], [mark + name for name, mark in marks.items()]


def aligned(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Collection[str] = (),
    width: int | None = None,
) -> tuple[list[str], int]:
    """The lines of a table, two spaces between its columns, and the number of columns.

    Parameters
    ----------
    heads : sequence of str
        May have several lines.
    rows : sequence of sequences of str
        As many cells as heads.
    words : collection of str
        Heads of left-aligned columns; numbers are right-aligned.
    width : int, optional
        Omit the last columns that do not fit into this many letters; the first one is always kept.
    """
    tall = [head.split("\n") for head in heads]
    depth = max(map(len, tall), default=0)
    above = [list(line) for line in zip(*([""] * (depth - len(head)) + head for head in tall))]
    lines = [*above, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    shown = len(heads)
    while width is not None and shown > 1 and sum(widths[:shown]) + 2 * (shown - 1) > width:
        shown -= 1
    return [
        "  ".join(
            c.ljust(w) if h in words else c.rjust(w) for c, w, h in zip(line[:shown], widths, heads)
        ).rstrip()
        for line in lines
    ], shown


def short_names(names: Sequence[str], longest: int) -> list[str]:
    """Names shortened to fit side by side: long ones are cut at the front, and stay distinct.

    If the ends of several are equal, each keeps the part in which it differs, and its end after an
    ellipsis; if that is not enough, the whole name is kept.
    """
    longest = max(longest, 4)
    short = [
        name if len(name) <= longest else f"…{name[1 - longest :].lstrip('._/')}" for name in names
    ]
    clashing: dict[str, set[str]] = {}
    for name, text in zip(names, short):
        clashing.setdefault(text, set()).add(name)
    for alike in clashing.values():
        if len(alike) < 2:
            continue
        shared = next(
            (i for i, letters in enumerate(zip(*alike)) if len(set(letters)) > 1),
            min(map(len, alike)),
        )
        for name in alike:
            start = max(name.rfind(mark, 0, shared) for mark in "._/") + 1
            # it matches the empty text
            part = re.match(r"[^._/]*[._/]?", name[start:])[0]  # type: ignore[index]
            end = name[-max(longest - len(part) - 2, 3) :]
            shortened = f"{'…' if start else ''}{part}…{end}"
            short = [shortened if n == name else t for n, t in zip(names, short)]
    # Names of several such groups may still be equal: a longer end, or the whole name, tells them
    # apart.
    for length in range(longest + 1, max(map(len, names), default=0) + 1):
        meant: dict[str, set[str]] = {}
        for name, text in zip(names, short):
            meant.setdefault(text, set()).add(name)
        if all(len(same) == 1 for same in meant.values()):
            break
        for i, (name, text) in enumerate(zip(names, short)):
            if len(meant[text]) > 1:
                begin = text.rpartition("…")[0]
                start = len(name) - max(length - len(begin) - 1, 3)
                start -= name[start] in "._/"  # three dots in a row are one too many
                short[i] = f"{begin}…{name[start:]}" if length < len(name) else name
    return short
