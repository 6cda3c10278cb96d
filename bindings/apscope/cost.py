"""Modelled time of a step's communication.

The usual alpha-beta-gamma model of collective algorithms, docs/definitions.md, section 12: ours,
not the model of any paper. It ignores congestion and overlap with computation; modelled seconds
compare schemes and are not a measurement.
"""

from ._results.cost import LINKS, CollectiveCost, Link, Network, collective, step_time

__all__ = ["LINKS", "CollectiveCost", "Link", "Network", "collective", "step_time"]
__dir__ = __all__.copy
