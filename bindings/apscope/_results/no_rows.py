"""Tables of results without rows, where a trace or a replay has none."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import Columns


def _no_rows(kind: Any, names: str) -> Columns:
    return {name: np.zeros(0, kind) for name in names.split()}


#: The table of noise if it is unknown.
NO_NOISE: Columns = {
    **_no_rows(object, "trace tensor role"),
    **_no_rows(np.int64, "step workers elements blocks noise_blocks lone_blocks"),
    "without": (np.zeros(0, np.int64), np.zeros(0, bool)),
    **_no_rows(float, "sum_squared_reference sum_noise sum_log2_ratio"),
}

#: The table of the limit if it is unknown.
NO_LIMIT: Columns = {
    **_no_rows(object, "trace kind"),
    **_no_rows(np.int64, "elements values"),
    **_no_rows(float, "unit width entropy bits error"),
}

#: The table of persistence if it is unknown.
NO_PERSISTENCE: Columns = {
    **_no_rows(object, "trace"),
    **_no_rows(np.int64, "step"),
    **_no_rows(object, "tensor scheme topology"),
    **_no_rows(np.int64, "steps"),
    **_no_rows(float, "sum_squared_error sum_noise"),
    **_no_rows(np.int64, "noise_blocks"),
    **_no_rows(float, "sum_log2_error_over_noise"),
    **_no_rows(float, "sum_product sum_squared_reference sum_squared_result"),
    **_no_rows(float, "adam_product adam_squared_reference adam_squared_result"),
}
