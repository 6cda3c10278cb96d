"""Tables of results without rows, where a trace or a replay has none."""

from __future__ import annotations

import numpy as np

from .columns import Columns

#: The table of noise if it is unknown.
NO_NOISE: Columns = {
    **{name: np.zeros(0, object) for name in ("trace", "tensor", "role")},
    **{
        name: np.zeros(0, np.int64)
        for name in ("step", "workers", "elements", "blocks", "noise_blocks", "lone_blocks")
    },
    "without": (np.zeros(0, np.int64), np.zeros(0, bool)),
    **{name: np.zeros(0) for name in ("sum_squared_reference", "sum_noise", "sum_log2_ratio")},
}

#: The table of the limit if it is unknown.
NO_LIMIT: Columns = {
    **{name: np.zeros(0, object) for name in ("trace", "kind")},
    **{name: np.zeros(0, np.int64) for name in ("elements", "values")},
    **{name: np.zeros(0) for name in ("unit", "width", "entropy", "bits", "error")},
}

#: The table of persistence if it is unknown.
NO_PERSISTENCE: Columns = {
    "trace": np.zeros(0, object),
    "step": np.zeros(0, np.int64),
    **{name: np.zeros(0, object) for name in ("tensor", "scheme", "topology")},
    "steps": np.zeros(0, np.int64),
    **{name: np.zeros(0) for name in ("sum_squared_error", "sum_noise")},
    "noise_blocks": np.zeros(0, np.int64),
    "sum_log2_error_over_noise": np.zeros(0),
    **{
        f"{optimizer}_{name}": np.zeros(0)
        for optimizer in ("sum", "adam")
        for name in ("product", "squared_reference", "squared_result")
    },
}
