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
from .projection import FIELDS, Projection, checked

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
        types = kind.__annotations__
        self.types: dict[str, str] = {
            name: types[name].__forward_arg__
            for name in ("projection", *FIELDS, "seed", "threads")
            if name in types and name not in without
        }
        self.in_full = in_full
        self.defaults: dict[str, Any] = {
            "projection": None,
            **Projection(**defaults).to_dict(),
            "seed": 0,
            "threads": 1,
        }
        self._keywords: dict[CodeType, tuple[str, ...]] = {}  # of the functions, without options
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
            settings = self._checked(**options)
        except TypeError:  # a wrong kind, or not hashable: checked again
            settings = self._check(**options)
        if seed == 0 and type(seed) is int:
            return settings
        return settings._replace(seed=integer("seed", seed, 0, 2**64 - 1))

    def _check(self, **options: Any) -> Settings:
        for name in options:
            if name not in self.types:
                import difflib

                keywords = self._keywords_of_caller(sys._getframe())
                near = difflib.get_close_matches(name, keywords, n=1)
                raise TypeError(
                    f"unexpected keyword argument '{name}'; "
                    f"{f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(keywords)}"
                )
        threads = options.pop("threads", 1)
        p = self._projection(options.pop("projection", None), options)
        threads = integer("threads", threads, 0, 2**20)
        return Settings(p._in_core(), 0, threads)

    def _keywords_of_caller(self, frame: FrameType | None) -> tuple[str, ...]:
        """All keywords of the function whose options are checked; it is among the callers."""
        while frame is not None and frame.f_code not in self._keywords:
            frame = frame.f_back
        return (*(() if frame is None else self._keywords[frame.f_code]), *self.types)

    def _projection(self, projection: Projection | None, parts: dict[str, Any]) -> Projection:
        if projection is None:
            return Projection(**{name: parts.get(name, self.defaults[name]) for name in FIELDS})
        return checked(projection, parts, self.types, "this function")

    def __call__(self, function: Function) -> Function:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()  # the last one is **options
        keyword = inspect.Parameter.KEYWORD_ONLY
        self._keywords[function.__code__] = tuple(p.name for p in parameters if p.kind is keyword)
        options = [
            inspect.Parameter(name, keyword, default=self.defaults[name], annotation=annotation)
            for name, annotation in self.types.items()
        ]
        function.__signature__ = signature.replace(parameters=parameters + options)  # type: ignore[attr-defined]
        if function.__doc__:
            function.__doc__ = re.sub(
                r"^( *)\*\*options\n((?:\1 +.*\n)*)",
                self._entries,
                function.__doc__,
                count=1,
                flags=re.MULTILINE,
            )
        return function

    def _entries(self, match: re.Match[str]) -> str:
        """A docstring's parameters; remarks below ``**options`` join those of the projection."""
        indent, remark = match[1], inspect.cleandoc(match[2])
        fields = [name for name in FIELDS if name in self.types]
        entries = [
            "projection : Projection, optional",
            "    How numbers are rounded, as one value; give it, or the parts that follow.",
            *(f"    {line}" for line in remark.splitlines()),
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
                    entries += [f"{name} : {self.types[name]}", "    As for `Projection`."]
        if "seed" in self.types:
            entries += (
                _SEED.split("\n")
                if self.in_full
                else [
                    "seed : int or Draws",
                    "    For stochastic rounding, the same in every call unless it is a `Draws`: "
                    "as for `quantize`.",
                ]
            )
        if "threads" in self.types:
            entries += _THREADS.split("\n")
        return "".join(f"{indent}{line}\n" for line in entries)
