"""Short readable names of specs for pictures; a tooltip has the spec itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .scheme import Scheme, known_scheme

#: Schemes with other common names than in specs.
_NAMES = {
    "aps": "APS",
    "none": "",
    "qsgd": "QSGD",
    "mx": "MX",
    "nvfp4": "NVFP4",
    "ef": "EF",
    "powersgd": "PowerSGD",
    "signsgd": "signSGD",
}
#: Values that are unclear without their keys.
_VALUES = {
    "by=error_over_noise": "by error over noise",
    "rounding=stochastic": "stochastic rounding",
    "rounding=ties_to_even": "ties to even",
    "headroom=sqrt_workers": "room for √W",
    "headroom=one": "room for one",
    "unit=model": "a scale per step",
    "unit=row": "a scale per row",
}


def title(spec: str) -> str:
    """One spec as a name: the scheme, its format, and keys that are not at their defaults.

    Examples
    --------
    >>> title("aps:e3m4,rule=tight")
    'APS e3m4, tight'
    >>> title("none:bf16")
    'bf16'
    """
    scheme = known_scheme(spec)
    if scheme is None or scheme.body:
        return scheme.spec if scheme else spec
    name, keys = _NAMES.get(scheme.name, scheme.name.replace("_", " ")), _own(scheme)
    if scheme.name == "loss_scaling" and scheme.keys["scale"] in ("largest", "best"):
        name = f"{scheme.keys['scale']} constant"
        keys = [(key, value) for key, value in keys if key != "scale"]
    if scheme.name == "mx":
        name = scheme.keys["block_format"]
        name = name.upper() if name.startswith("mx") else name
        keys = [(key, value) for key, value in keys if key != "block_format"]
    head = f"{name} {_format(scheme)}".strip()
    return ", ".join([head, *(_value(key, value) for key, value in keys)])


def titles(specs: Iterable[str]) -> Callable[[str], str]:
    """The names of several specs; the spec itself if its name would be ambiguous."""
    names_of = {spec: title(spec) for spec in specs}
    names = list(names_of.values())
    return lambda spec: name if names.count(name := names_of.get(spec, spec)) < 2 else spec


def reduction(topology: str) -> str:
    """The name of a topology for people.

    Examples
    --------
    >>> reduction("two_phase,sum=exact"), reduction("gather"), reduction("ring")
    ('two phases, sum=exact', 'gathered', 'ring')
    """
    first, comma, keys = topology.partition(",")
    return {
        "two_phase": "two phases",
        "own:two_phase": "its own two phases",
        "own:ring": "its own ring",
        "own:butterfly": "its own butterfly",
        "gather": "gathered",
        "code_sum": "codes added",
        "streams": "sparse streams added",
    }.get(first, first) + (f", {keys}" if comma else "")


def scale(unit: str) -> str:
    """What shares a scale, for people: the value of the key ``unit``, or ``largest``."""
    if unit.isdecimal():
        return f"{int(unit):,} elements"
    return {"tensor": "a layer", "model": "a step", "row": "a row", "largest": "all steps"}.get(
        unit, unit
    )


#: The number of workers for whose sum a scale leaves room, by the key ``headroom``.
ROOMS = {"workers": "W", "sqrt_workers": "√W", "one": "one"}


def room(keys: str) -> str:
    """The room for the sum, for people: the keys ``headroom`` and ``overflow`` of a scheme.

    What becomes of larger sums is said where it is unusual: usually no sum exceeds the room for W
    workers, and sums that exceed less room saturate.

    Examples
    --------
    >>> room("headroom=sqrt_workers,overflow=saturate"), room("headroom=one,overflow=ieee")
    ('room for √W', 'room for one, overflow=ieee')
    """
    headroom, overflow = (part.partition("=")[2] for part in keys.split(","))
    usual = {"workers": "ieee"}.get(headroom, "saturate")
    told = "" if overflow == usual else f", overflow={overflow}"
    return f"room for {ROOMS.get(headroom, headroom)}{told}"


def format_of(spec: str) -> str:
    """The float format that a spec names, or ""."""
    scheme = known_scheme(spec)
    return _format(scheme) if scheme else ""


def _format(scheme: Scheme) -> str:
    return scheme.format if not scheme.body and f":{scheme.format}" in scheme.spec else ""


def _own(scheme: Scheme) -> list[tuple[str, str]]:
    """The keys of the canonical spec."""
    settings = scheme.spec.partition(":")[2].split(",")
    return [(key, value) for key, _, value in (part.partition("=") for part in settings) if value]


def _value(key: str, value: str) -> str:
    if known := _VALUES.get(f"{key}={value}"):
        return known
    if key == "unit" and value.isdecimal():
        return f"a scale for {int(value):,}"
    if value in ("true", "false"):  # of a value alone nobody knows what is true
        return f"{'no ' if value == 'false' else ''}{key.replace('_', ' ')}"
    return value if value.isalpha() and len(value) > 3 else f"{key} {value}"
