"""Schemes: specs, parsed and checked; and user-defined schemes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Protocol, TypedDict, cast

from .. import _core
from .._arrays.checks import integer, text
from .._folders.json import parse_json
from .._text import clip
from .plan_file import SUFFIX, read_plan_file

#: Names of lists of schemes that are accepted as specs: `apscope.schemes.main_schemes`,
#: `apscope.schemes.all_schemes`.
LISTS = ("main", "all")


class _Parsed(TypedDict):
    """A spec, taken apart."""

    spec: str
    name: str
    family: str
    format: str
    keys: dict[str, str]
    needs: list[str]
    keeps_state: bool
    branches: list[tuple[str, str]]
    grid: str
    body: str


class Scheme:
    """A scheme: a spec, parsed and checked.

    Parameters
    ----------
    spec : str
        ``name[:format][,key=value...]``, for instance ``aps:e4m3,headroom=one``.

    Raises
    ------
    ValueError
        An unknown name, key or value.
    """

    def __init__(self, spec: str) -> None:
        self._parsed: _Parsed = cast("_Parsed", _core.parse_scheme(text("scheme", spec)))

    @property
    def spec(self) -> str:
        """The canonical spec, without keys at their defaults."""
        return self._parsed["spec"]

    @property
    def name(self) -> str:
        """Its name in specs: the part before the format and the keys."""
        return self._parsed["name"]

    @property
    def family(self) -> str:
        """Its family, for summaries that show the best of each.

        ``baseline`` (``none`` in fp32, bf16 or fp16), ``unscaled`` (``none`` in other formats),
        ``loss scaling``, ``APS``, ``stochastic``, ``recipe``, ``one bit``, ``transform``, ``mixed``
        (``hybrid``), ``other`` (made with `define`). A combinator has the family of its inner
        scheme.
        """
        return self._parsed["family"]

    @property
    def format(self) -> str:
        """The format's name; empty for schemes without one."""
        return self._parsed["format"]

    @property
    def keys(self) -> dict[str, str]:
        """Every key with its value, including defaults."""
        return dict(self._parsed["keys"])

    @property
    def needs(self) -> list[str]:
        """Records needed besides gradients: weights, full_batch, loss, learning_rate."""
        return list(self._parsed["needs"])

    @property
    def keeps_state(self) -> bool:
        """Whether the scheme has memory from step to step."""
        return self._parsed["keeps_state"]

    @property
    def branches(self) -> list[tuple[str, str]]:
        """For a hybrid: each condition with its scheme's spec."""
        return list(self._parsed["branches"])

    @property
    def grid(self) -> str:
        """The column ``format``: the float format or another grid; empty for a hybrid."""
        return self._parsed["grid"]

    @property
    def body(self) -> str:
        """The content of the parentheses of a combinator or policy; empty for others."""
        return self._parsed["body"]

    def to_json(self) -> str:
        """Name, format, keys and body as a JSON object, which `from_json` reads."""
        return json.dumps(
            {
                "scheme": self.name,
                "format": self.format,
                "keys": self.keys,
                "body": self._parsed["body"],
            }
        )

    @staticmethod
    def from_json(text: str) -> Scheme:
        """The scheme of a text made by `to_json`."""
        d = parse_json(text)
        if (
            not isinstance(d, dict)
            or not isinstance(d.get("scheme"), str)
            or not isinstance(d.get("keys", {}), dict)
        ):
            raise ValueError(f"{clip(text)!r} is not a scheme; give a text made by to_json")
        return Scheme(
            spec_of(d["scheme"], d.get("format", ""), d.get("keys", {}), d.get("body", ""))
        )

    def __str__(self) -> str:
        return self.spec

    def __repr__(self) -> str:
        return f"Scheme({self.spec!r})"

    def _repr_html_(self) -> str:
        from .show import scheme_html

        return scheme_html(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheme) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)


class HasScheme(Protocol):
    """An object with a scheme, such as a plan."""

    @property
    def scheme(self) -> Scheme:
        """The scheme."""


def spec_of(name: str, format: str, keys: dict[str, Any], body: str = "") -> str:
    settings = ",".join(f"{key}={value}" for key, value in keys.items())
    if body:
        return f"{name}({body})" + ("," + settings if settings else "")
    if format:
        return f"{name}:{format}" + ("," + settings if settings else "")
    return name + (":" + settings if settings else "")


def as_scheme(scheme: Scheme | str | HasScheme) -> Scheme:
    """The scheme, or that of a spec, a plan or the path of a plan's file.

    Parameters
    ----------
    scheme : Scheme, str or Plan
        A text that ends in ``.json`` is the path of a plan written by `Plan.save`.

    Returns
    -------
    Scheme

    Raises
    ------
    ValueError
        An invalid spec.
    TypeError
        Neither a scheme nor text.
    """
    if isinstance(scheme, Scheme):
        return scheme
    if isinstance(scheme, str):
        return Scheme(read_plan_file(scheme)["scheme"] if scheme.endswith(SUFFIX) else scheme)
    if isinstance(inner := getattr(scheme, "scheme", None), Scheme):  # a plan's
        return inner
    raise TypeError(
        f"scheme is {type(scheme).__name__}; give a Scheme or a spec such as 'aps:e4m3'"
    )


def known_scheme(spec: Scheme | str) -> Scheme | None:
    """The scheme of a table's spec; None for one of another process with more schemes."""
    try:
        return as_scheme(spec)
    except ValueError:
        return None


def define(
    name: str,
    base: Scheme | str,
    *,
    compensate: Callable[..., Any] | None = None,
    forward: Callable[..., Any] | None = None,
    inverse: Callable[..., Any] | None = None,
    select: Callable[..., Any] | None = None,
    encode: Callable[..., Any] | None = None,
    reduce: Callable[..., Any] | None = None,
    update: Callable[..., Any] | None = None,
    keeps_state: bool | None = None,
    compares_intended: bool = False,
    bits: int = 32,
    side_bits: int = 0,
    grid: str = "",
) -> Scheme:
    """Define a scheme: another one with functions of its four parts replaced by NumPy functions.

    The parts are the choice of parameters, the memory from step to step, the basis in which the
    scheme encodes, and the encoding and reduction. Every function gets one tensor at one step, all
    workers, as float64 arrays that are finite everywhere: other elements bypass a scheme. ``step``
    has tensor, role, shape, number, index, workers, senders, loss and learning_rate, and
    ``step.random(worker, count, bits=32)`` draws; ``state`` is a dict of arrays that is kept from
    step to step, as float64 numbers in one row: reshape an array of several axes after reading. In two phases every row is encoded alone, by one of ``senders`` workers and owners
    of shards: ``worker`` is less than ``senders``, but ``workers`` is 1. docs/schemes.md describes
    each function.

    Parameters
    ----------
    name : str
        Its name in specs, from now on in this process; a second scheme of the same name replaces
        the first.
    base : Scheme or str
        The scheme of all other parts; not a ``hybrid``, nor ``aps`` with a unit of several tensors.
    select : f(step, state, x) -> dict of arrays
        The choice: parameters for all workers, ``theta``; a float scheme's needs ``scale``, one
        positive number.
    compensate : f(step, state, x) -> (workers, n)
        The memory: the values to send instead of the gradients x.
    update : f(step, state, intended, sent, reduced) -> None
        The memory: changes the state for the next step.
    keeps_state : bool, optional
        Whether steps must come in order; by default as the base, or True where `update` is given.
    compares_intended : bool
        The sent quantity (a momentum) has its own truth: ``own_nmse`` and ``own_cosine`` compare
        with it.
    forward, inverse : f(step, state, x) -> (workers, m); f(step, state, row) -> (n,)
        The basis: a change of it, and its linear inverse.
    encode : f(step, theta, row, worker) -> (m,), or a pair of it and the payload as bytes
        The encoding: the decoded message of one worker.
    reduce : f(step, state, theta, values) -> (m,)
        The encoding: the sum over the workers.
    bits : int
        Bits per value that `encode` sends, if it returns no payload; 0 to 64.
    side_bits : int
        Bits of side information of each message of `encode`, such as 32 for an fp32 scale; 0 to
        2^32. Volumes count them besides `bits` or the payload.
    grid : str
        The column ``format``; by default the base's.

    Returns
    -------
    Scheme

    Raises
    ------
    ValueError
        The name of a scheme of apscope, or one that is invalid in specs; a base that decides over
        several tensors; `forward` without an `inverse`, of its own or the base's, or the reverse. In
        a replay: a ``scale`` that is not one positive finite number.

    Notes
    -----
    An exception of a function ends the replay as it is, with a note of the scheme, function, tensor
    and step.

    Examples
    --------
    >>> sign = define("my_sign", "none:e4m3", encode=lambda step, theta, x, worker: np.sign(x) * np.abs(x).mean(), bits=1)
    >>> sign.spec
    'my_sign'
    """
    parts = dict(
        select=select,  # the choice
        compensate=compensate, update=update,  # the memory
        forward=forward, inverse=inverse,  # the basis
        encode=encode, reduce=reduce,  # the encoding
    )  # fmt: skip
    functions = {part: f for part, f in parts.items() if f is not None}
    for part, f in functions.items():
        if not callable(f):
            raise TypeError(f"{part}={f!r} must be a function")
    _core.make_scheme(
        text("name", name),
        as_scheme(base).spec,
        {part: _telling(name, part, f) for part, f in functions.items()},
        keeps_state,
        compares_intended,
        integer("bits", bits, 0, 64),
        integer("side_bits", side_bits, 0, 2**32),
        grid,
    )
    return Scheme(name)


def _telling(name: str, part: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a note on its exceptions about where they were raised."""

    @functools.wraps(f)
    def call(step: Any, *rest: Any) -> Any:
        try:
            return f(step, *rest)
        except Exception as error:
            error.add_note(
                f"in {part} of the scheme '{name}', tensor {clip(step.tensor)} at step "
                f"{step.number}"
            )
            raise

    return call
