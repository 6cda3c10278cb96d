"""The schemes of the lists ``main`` and ``all``, which are accepted wherever specs are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .definitions import SchemeDefinition, definitions
from .scheme import LISTS, Scheme, as_scheme

__all__ = ["all_schemes", "main_schemes", "schemes_of"]

#: Hardware's two first (e4m3fn ends at 448, IEEE's e4m3 at 240), then fewer exponent bits; 8 bits,
#: except e3m0 with 4.
_FORMATS = ("e5m2", "e4m3fn", "e4m3", "e3m4", "e3m0")

#: Formats for which `main_schemes` has three rungs of the ladder, by the rule without a spare
#: binade.
_LADDERS = ("e5m2", "e4m3fn", "e3m4")


def main_schemes() -> list[Scheme]:
    """The schemes that show which formats and scales these gradients allow; ``main`` in specs.

    Baselines without a scale; then for every format: no scaling; one scale for all steps, the best
    in hindsight; APS, by its own rule; stochastic rounding with partial sums rounded in the ring,
    and with gathered codes, at fp32's volume. For hardware's two formats and e3m4, by the rule
    without a spare binade, one scale for all steps, one per step and one per layer (APS): three
    rungs of the ladder that differ in nothing else. Loss scales as in training systems; QSGD with 4
    and 8 bits.

    Returns
    -------
    list of Scheme
    """
    specs = ["none:fp32", "none:bf16", "none:fp16"]
    for f in _FORMATS:
        constant, aps = f"loss_scaling:{f},scale=best", f"aps:{f}"
        specs += [f"none:{f}", constant, aps]
        if f in _LADDERS:
            specs += [f"{constant},rule=tight", f"{aps},rule=tight,unit=model", f"{aps},rule=tight"]
        if f != "e4m3":  # e4m3fn represents it
            specs += [f"{aps},rounding=stochastic", f"stochastic:{f}"]
    specs += ["dynamic_loss_scaling:e5m2", "dynamic_loss_scaling:e4m3", "qsgd", "qsgd:levels=127"]
    return [Scheme(spec) for spec in specs]


def all_schemes() -> list[Scheme]:
    """Those of `main_schemes`, then every other scheme of the registry; ``all`` in specs.

    Schemes that are not named here use their default keys, e4m3 if they take a format, and
    ``aps:e4m3`` as an inner scheme.

    Returns
    -------
    list of Scheme
    """
    others = (
        "aps:e4m3,rounding=stochastic",
        "stochastic:e4m3",
        *(
            f"{scheme}:{f},{scale}headroom=one"
            for scheme, scale in (("loss_scaling", "scale=best,"), ("aps", ""))
            for f in ("e4m3", "e3m4")
        ),
        "dynamic_loss_scaling:fp16",
        "aps:e4m3,accumulate=fp32",
        *(
            f"aps:e3m4,rule=tight,unit={unit}"
            for unit in ("bucket:25MB", "row", "1024", "32", "16")
        ),
        "aps:e3m4,rule=tight,unit=model,delay=1",
        "hybrid(last=none:fp16;else=aps:e4m3)",
        "cpd:e4m3",
        "deepspeed_loss_scaling:fp16",
        "enhanced_loss_scaling:e5m2",
        "adaptive_loss_scaling:fp16",
        "hfp8:e5m2",
        "delayed_scaling:e5m2",
        "current_scaling:e5m2",
        "fp8_allreduce:e4m3fn",
        "mx",
        "nvfp4",
        "natural",
        "terngrad",
        "zipml:bucket=512",
        "bit_centering",
        "fractrain",
        "error_feedback(sign)",
        "sign",
        "sign_vote",
        "onebit_adam",
        "birder",
        "multipoint",
        "residual(sign)",
        "fft_sparse",
        "top_k",
        "error_feedback(top_k)",
        "error_feedback(powersgd)",
        "powersgd",
        "thc",
        "integer_allreduce:bits=8",
        "zero_blocks",
    )
    schemes = [*main_schemes(), *(Scheme(spec) for spec in others)]
    known = {scheme.name for scheme in schemes}
    return schemes + [Scheme(_usual(d)) for d in definitions() if d.name not in known]


def _usual(definition: SchemeDefinition) -> str:
    """A default spec of a scheme."""
    inside = {"scheme": "aps:e4m3", "policy": "else=aps:e4m3"}.get(definition.body, "")
    return (
        definition.name
        + (f"({inside})" if inside else "")
        + (":e4m3" if definition.takes_format else "")
    )


def schemes_of(given: Iterable[Scheme | str]) -> list[Scheme]:
    """Schemes and specs, including ``main`` and ``all``, as schemes, each once."""
    lists = dict(zip(LISTS, (main_schemes, all_schemes)))
    found: list[Scheme] = []
    for one in given:
        if isinstance(one, str) and one in lists:
            found += lists[one]()
            continue
        try:
            found.append(as_scheme(one))
        except ValueError:
            if near := difflib.get_close_matches(str(one), LISTS, n=1, cutoff=0.7):
                raise ValueError(f"unknown scheme '{one}'; did you mean {near[0]}?") from None
            raise
    return list(dict.fromkeys(found))
