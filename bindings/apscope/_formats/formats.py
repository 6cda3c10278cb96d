"""The formats the field has names for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _core
from .._arrays.inputs import as_format
from .._core import FloatFormat

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FloatFormat", "format_table", "named_formats"]


def _repr_html_(self: FloatFormat) -> str:
    """The format's ranges as a picture, in notebooks."""
    from .ruler import format_html  # with html's table of entities

    return format_html(self)


FloatFormat._repr_html_ = _repr_html_  # the class is made in C++, its picture here


def named_formats() -> dict[str, FloatFormat]:
    """The formats that the field has names for.

    Returns
    -------
    dict
        Canonical name -> format, in the table's order; aliases are left out, `FloatFormat` knows them.
    """
    return {row["name"]: row["format"] for row in _core.named_formats()}


def specials_of(f: FloatFormat) -> str:
    """The format's infinities, NaNs, zeros and what it lacks, in words."""
    words = []
    if f.has_infinity:
        words.append("inf")
    if f.has_nan:
        words.append("NaN at -0" if f.nan_at_negative_zero else f"{f.nan_codes} NaN" if f.nan_codes < 8 else "NaN")
    words.append({"both_signs": "+-0", "single": "0", "none": "no 0"}[f.zero])
    if not f.subnormals:
        words.append("no subnormals")
    if not f.is_signed:
        words.append("unsigned")
    return ", ".join(words)


def format_table(names: list[str] | None = None) -> pd.DataFrame:
    """Bits, precision, bias, limits and special values of formats.

    Parameters
    ----------
    names : list of str, optional
        Names or aliases; by default every named format.

    Returns
    -------
    pandas.DataFrame
        One row a format: name, bits, precision (with the hidden bit), bias, largest,
        smallest_normal, smallest_subnormal (NaN without subnormals), specials, aliases.
    """
    import pandas as pd

    rows = {row["name"]: row for row in _core.named_formats()}
    chosen = [as_format(n) for n in names] if names else [row["format"] for row in rows.values()]
    table = []
    for f in chosen:
        row = rows.get(f.name)
        table.append(
            {
                "name": f.name,
                "bits": f.storage_bits,
                "exponent": f.exponent_bits,
                "precision": f.precision,
                "bias": f.bias,
                "largest": f.largest,
                "smallest_normal": f.smallest_normal if f.smallest_normal > 0 else float("nan"),
                "smallest_subnormal": f.smallest_positive if f.subnormals and f.mantissa_bits > 0 else float("nan"),
                "specials": specials_of(f),
                "aliases": row["aliases"] if row else "",
            }
        )
    return pd.DataFrame(table)
