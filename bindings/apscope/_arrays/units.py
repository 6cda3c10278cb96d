"""Matrix units: how devices add the products of a matrix product."""

from __future__ import annotations

from typing import TypedDict

from .. import _core
from .checks import text


class MatrixUnit(TypedDict):
    """What is known of one matrix unit."""

    name: str  #: order="unit:NAME"
    instruction: str
    inputs: str  #: formats of the operands, separated by blanks
    k: int  #: products of an instruction, which are added at a time unless they are interleaved
    fraction: int | None  #: bits kept below the largest exponent; None: sums in fp32
    result: str  #: format of the results
    result_bits: int  #: fraction bits of the results
    c: str  #: "term": aligned with the products; "last": added to their sum
    scales: str  #: format of the operands' scales; "": none
    scaled: int  #: consecutive terms of an operand that share a scale; 0: no scales
    interleave: str  #: "none"; "mod4", "even_odd": which products are cut together
    evidence: str


def units(*names: str) -> list[MatrixUnit]:
    """The matrix units that orders ``unit:NAME`` of `dot` and `matmul` name, and their evidence.

    Parameters
    ----------
    *names : str
        Names such as ``h100:fp8``; by default all.

    Returns
    -------
    list of dict
        name; instruction; inputs (formats of the operands); k (products of an instruction);
        interleave ("none": all are cut alike and added at a time; "mod4", "even_odd": two halves
        are, in turn on NVIDIA's units); fraction (bits kept below the largest exponent; None if
        partial sums are fp32 numbers);
        result (format) and result_bits (its fraction bits that are kept); c ("term": aligned with
        the products, or "last": added to their sum); scales (format of the operands' scales, or ""),
        scaled (terms that share one, or 0); evidence ("recorded ...", or "a model's source
        only ..."). docs/definitions.md, section 10, has the rule.

    Raises
    ------
    ValueError
        A name without a model; the message says why for a device that was looked at.
    TypeError
        A name that is not a text.

    Examples
    --------
    >>> import apscope
    >>> [(u["k"], u["fraction"], u["result_bits"]) for u in apscope.units("h100", "h100:fp8")]
    [(16, 25, 23), (32, 13, 13)]
    """
    for name in names:
        _core.require_matrix_unit(text("names", name))
    found: dict[str, MatrixUnit] = {unit["name"]: unit for unit in _core.matrix_units()}
    return [found[name] for name in names] if names else list(found.values())
