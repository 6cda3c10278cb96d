"""A plan as a scheme: the spec of a `hybrid`, its most common scheme last."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..hybrid import exactly
from .units import Unit


def spec_of_plan(
    units: Sequence[Unit], schemes: Sequence[str], sizes: dict[str, int], by_role: bool
) -> str:
    """The scheme's spec.

    Parameters
    ----------
    units : sequence of Unit
    schemes : sequence of str
        Of every unit.
    sizes : dict
        Elements by tensor: the scheme of most elements follows ``else``.
    by_role : bool
        Whether a unit's name is a role, which also fits other models.
    """
    weight: dict[str, int] = dict.fromkeys(schemes, 0)
    for unit, scheme in zip(units, schemes):
        weight[scheme] += sum(sizes[name] for name in unit.tensors)
    common = max(weight, key=lambda scheme: weight[scheme])  # the first of equals
    if len(weight) == 1:
        return common
    of_name: dict[tuple[str, ...], list[tuple[Unit, str]]] = {}
    for unit, scheme in zip(units, schemes):
        of_name.setdefault(unit.tensors, []).append((unit, scheme))
    members_of: dict[tuple[str, str], list[Unit]] = {}  # (range of steps, scheme) -> units
    for periods in of_name.values():
        same = len({scheme for _, scheme in periods}) == 1
        for unit, scheme in periods[:1] if same else periods:
            if scheme != common:
                members_of.setdefault(("" if same else unit.steps, scheme), []).append(unit)
    branches = []
    for (steps, scheme), members in members_of.items():
        names = [name for unit in members for name in unit.tensors]
        roles = (
            [unit.name for unit in members]
            if by_role and all(re.fullmatch(r"[\w-]+", unit.name) for unit in members)
            else []
        )
        for condition in [f"role:{role}" for role in roles] or [exactly(names)]:
            branches.append(condition + (f"&steps:{steps}" if steps else "") + f"={scheme}")
    return f"hybrid({';'.join(branches)};else={common})"
