"""The options of every function that rounds: a projection or its parts, a seed, threads."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypedDict, TypeVar

from .. import _core
from .checks import integer, taken
from .draws import Draws
from .projection import FIELDS, Projection, whole

Function = TypeVar("Function", bound=Callable[..., Any])


class RoundingOptions(TypedDict, total=False):
    """Options of functions that round in any mode, with any overflow rule."""

    projection: Projection | None
    rounding: str
    overflow: str
    random_bits: int
    seed: int | Draws
    threads: int


class UnderflowOptions(RoundingOptions, total=False):
    """Options of functions that also have underflow rules."""

    underflow: str


class CastOptions(UnderflowOptions, total=False):
    """Options of casts, which may keep a NaN's payload."""

    keep_payload: bool


class Settings(NamedTuple):
    """Checked options, as C++ takes them for every operation, in its order."""

    projection: _core.Projection
    seed: int
    threads: int


_TYPES = {
    "projection": "Projection | None", "rounding": "str", "overflow": "str", "underflow": "str",
    "keep_payload": "bool",
    "random_bits": "int", "seed": "int | Draws", "threads": "int",
}  # fmt: skip
_SEED = """seed : int or Draws
    Key of the Philox stream that stochastic rounding draws from; element ``i`` (in C order)
    always draws the same word for the same seed. **So does every call with the default, 0**: two
    calls make the same errors, and sums over calls are biased. In a loop give each call its own
    seed, or give all of them one `Draws`, from which every call takes the next seed. Ignored by the
    other roundings."""
_THREADS = """threads : int
    0 uses all of the machine's. Their number never changes a bit."""


class Options:
    """The options of a function, or of several with the same options.

    As a decorator it writes them into the function's signature, and into its docstring in place of
    ``**options``;
    `settings` checks the arguments of a call.

    Parameters
    ----------
    kind : type
        One of the typed dicts above, for which the function has ``**options: Unpack[kind]``.
    without : sequence of str
        Options of `kind` that the function does not have.
    in_full : bool
        The docstring explains every word, instead of pointing to `Projection`.
    **defaults
        Defaults of a projection's parts, if not those of `Projection`.
    """

    def __init__(
        self, kind: Any, *, without: tuple[str, ...] = (), in_full: bool = False, **defaults: Any
    ) -> None:
        self.known = tuple(
            name for name in _TYPES if name in kind.__annotations__ and name not in without
        )
        self.in_full = in_full
        self.defaults: dict[str, Any] = {
            "projection": None,
            **Projection(**defaults).to_dict(),
            "seed": 0,
            "threads": 1,
        }
        self._own: dict[CodeType, tuple[str, ...]] = {}  # the functions' own keywords
        self._checked = functools.lru_cache(maxsize=256, typed=True)(self._check)
        self._plain = self._check()

    def settings(self, options: Any) -> Settings:
        """The checked arguments of a call. Takes the next seed of a `Draws`, even after an error.

        Raises
        ------
        TypeError
            An unknown option, or one of a wrong kind.
        ValueError
            A projection together with one of its parts, or with a part that the function does not
            have; a value out of range.
        """
        if not options:
            return self._plain
        seed = taken(options.pop("seed", 0))
        try:
            found = self._checked(**options)
        except TypeError:  # a wrong kind, or not hashable: checked again
            found = self._check(**options)
        return (
            found
            if seed == 0 and type(seed) is int
            else found._replace(seed=integer("seed", seed, 0, 2**64 - 1))
        )

    def _check(self, **options: Any) -> Settings:
        for name in options:
            if name not in self.known:
                import difflib

                known = self._keywords(sys._getframe())
                near = difflib.get_close_matches(name, known, n=1)
                raise TypeError(
                    f"unexpected keyword argument '{name}'; "
                    f"{f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(known)}"
                )
        threads = options.pop("threads", 1)
        p = self._projection(options.pop("projection", None), options)
        threads = integer("threads", threads, 0, 2**20)
        return Settings(p._in_core(), 0, threads)

    def _keywords(self, frame: FrameType | None) -> tuple[str, ...]:
        """All keywords of the function whose options are checked; it is among the callers."""
        while frame is not None and frame.f_code not in self._own:
            frame = frame.f_back
        return (*(() if frame is None else self._own[frame.f_code]), *self.known)

    def _projection(self, projection: Projection | None, parts: dict[str, Any]) -> Projection:
        if projection is None:
            return Projection(**{name: parts.get(name, self.defaults[name]) for name in FIELDS})
        return whole(projection, parts, self.known, "this function")

    def __call__(self, function: Function) -> Function:
        own = inspect.signature(function)
        keyword = inspect.Parameter.KEYWORD_ONLY
        self._own[function.__code__] = tuple(
            name for name, p in own.parameters.items() if p.kind is keyword
        )
        kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, keyword, default=self.defaults[name], annotation=_TYPES[name])
            for name in self.known
        ]
        function.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        if function.__doc__:
            function.__doc__ = re.sub(
                r"^( *)\*\*options\n((?:\1 +.*\n)*)",
                self._entries,
                function.__doc__,
                count=1,
                flags=re.MULTILINE,
            )
        return function

    def _entries(self, found: re.Match[str]) -> str:
        """A docstring's parameters; remarks below ``**options`` join those of the projection."""
        indent, remark = found[1], inspect.cleandoc(found[2])
        fields = [name for name in FIELDS if name in self.known]
        entries = [
            "projection : Projection, optional",
            "    How numbers are rounded, as one value; give it, or the parts that follow.",
        ]
        if self.in_full:
            entries += (
                inspect.cleandoc(Projection.__doc__ or "")
                .partition("----------\n")[2]
                .partition("\n\n")[0]
                .split("\n")
            )
        else:
            words = [name for name in fields if name in ("rounding", "overflow", "underflow")]
            entries += [
                f"{', '.join(words)} : str",
                "    As for `Projection`; by default "
                f"{', '.join(f'``{self.defaults[name]}``' for name in words)}.",
            ]
            for name in fields:
                if name not in words:
                    entries += [f"{name} : {_TYPES[name]}", "    As for `Projection`."]
        if remark:
            entries[2:2] = ["    " + line for line in remark.split("\n")]
        if "seed" in self.known:
            entries += (
                _SEED.split("\n")
                if self.in_full
                else [
                    "seed : int or Draws",
                    "    For stochastic rounding, the same in every call unless it is a `Draws`: "
                    "as for `quantize`.",
                ]
            )
        if "threads" in self.known:
            entries += _THREADS.split("\n")
        return "".join(f"{indent}{line}\n" for line in entries)
