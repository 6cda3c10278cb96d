"""Compares numbers, and a replay's frame with the reference's rows, cell by cell."""

import math

import numpy as np
import pandas as pd


def as_cell(value):
    """None for every kind of empty."""
    return (
        None
        if value is pd.NA or value is None or (isinstance(value, float) and math.isnan(value))
        else value
    )


def differences(frame: pd.DataFrame, rows: list[dict]) -> list[str]:
    """One sentence per differing cell: bit for bit, except for the stated tolerance of
    expectations."""
    if len(frame) != len(rows):
        return [f"{len(frame)} rows, expected {len(rows)}"]
    found = []
    for got, expected in zip(frame.to_dict("records"), rows):
        for column, value in expected.items():
            cell, tolerance = (
                as_cell(got.get(column, f"no column {column}")),
                expected.get(column + "_tolerance"),
            )
            if column.endswith("_tolerance") or cell == value:
                continue
            if (
                tolerance is not None
                and None not in (cell, value)
                and abs(cell - value) <= tolerance
            ):
                continue
            where = " ".join(str(got[k]) for k in ("step", "tensor", "scheme", "stage", "topology"))
            found.append(f"{where}: {column} is {cell!r}, expected {value!r}")
    return found


def equal(a, b):
    """Equal as numbers and in the signs of zeros; NaN equals NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """The same dtype, shape and numbers, as `equal` compares them."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    wrong = ~equal(got, expected)
    assert not wrong.any(), (got[wrong], expected[wrong])


def same(a, b):
    """Of arrays: every element is `equal`."""
    return np.shape(a) == np.shape(b) and bool(equal(a, b).all())
