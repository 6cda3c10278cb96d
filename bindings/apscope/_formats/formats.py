"""The named formats."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .. import _core
from .._arrays.inputs import as_format
from .._core import BlockFormat, FloatFormat
from .words import specials_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FloatFormat", "format_table", "named_formats"]


def _repr_html_(self: FloatFormat) -> str:
    """The format's ranges as a picture, in notebooks."""
    from .ruler import format_html  # with html's table of entities

    return format_html(self)


_make = FloatFormat.__init__


@functools.wraps(_make)
def _init(self: FloatFormat, *given: Any, **fields: Any) -> None:
    try:
        _make(self, *given, **fields)
    except TypeError as error:
        if "incompatible constructor arguments" not in str(error):
            raise
        from .arguments import explained

        raise TypeError(explained(given, fields)) from None


def _worded(of: type, name: str, takes: str) -> None:
    """Puts a sentence in place of pybind11's list of signatures, which a wrong argument gives."""
    made = vars(of)[name]
    called = made.__func__ if isinstance(made, staticmethod) else made

    @functools.wraps(called)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return called(*given, **named)
        except TypeError as error:
            if "incompatible" not in str(error):
                raise
            called_as = of.__name__ if name == "__init__" else f"{of.__name__}.{name}"
            raise TypeError(f"{called_as} {takes}") from None

    setattr(of, name, staticmethod(call) if isinstance(made, staticmethod) else call)


#: What the methods take of classes that are made in C++.
_TAKES = {
    "from_json": "takes one string",
    "to_dict": "takes no argument",
    "to_json": "takes no argument",
}
WORDED = {(of, name): takes for of in (FloatFormat, BlockFormat) for name, takes in _TAKES.items()}
WORDED[BlockFormat, "__init__"] = (
    "takes a format's name alone, such as BlockFormat('mxfp8_e4m3'), or its fields by name: "
    "element and scale, which are FloatFormats, block_size, rule, twos_complement, tensor_scale"
)
for (_class, _name), _text in WORDED.items():
    _worded(_class, _name, _text)

# The class is made in C++, its picture and its messages here.
FloatFormat._repr_html_ = _repr_html_  # type: ignore[method-assign]
FloatFormat.__init__ = _init  # type: ignore[method-assign]


def named_formats() -> dict[str, FloatFormat]:
    """The named formats.

    Returns
    -------
    dict
        Canonical name -> format, in the table's order; aliases are not listed, but `FloatFormat`
        accepts them.
    """
    return {row["name"]: row["format"] for row in _core.named_formats()}


def format_table(names: list[str] | None = None) -> pd.DataFrame:
    """Bits, precision, bias, limits and special values of formats.

    Parameters
    ----------
    names : list of str, optional
        Names or aliases; by default every named format.

    Returns
    -------
    pandas.DataFrame
        One row per format: name, bits, precision (with the hidden bit), bias, largest,
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
                "smallest_subnormal": f.smallest_positive
                if f.subnormals and f.mantissa_bits > 0
                else float("nan"),
                "specials": specials_of(f),
                "aliases": row["aliases"] if row else "",
            }
        )
    return pd.DataFrame(table)
