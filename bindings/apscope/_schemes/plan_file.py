"""Reads the scheme of a plan's file, whose path is accepted wherever a spec is (docs/advice.md)."""

from __future__ import annotations

import json
import os
from typing import Any

from .._folders.json import read_json
from .._text import clip

#: The key that marks a plan, and its version.
MARK, SCHEMA = "apscope_plan", 1
#: The extension that distinguishes a path from a spec.
SUFFIX = ".json"


def read_plan_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a plan's file: an object of this version with a scheme.

    Raises
    ------
    ValueError
        It is missing, cannot be read, or is not a plan.
    """
    try:
        plan = read_json(path)
    except FileNotFoundError:
        raise ValueError(f"there is no plan {path}; apscope recommend writes one") from None
    except OSError as error:
        raise ValueError(f"the plan {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{error}; so it is not a plan") from None
    if not isinstance(plan, dict) or MARK not in plan:
        raise ValueError(
            f"{path} is not a plan: it has no key {MARK}; apscope recommend writes plans"
        )
    if plan[MARK] != SCHEMA or isinstance(plan[MARK], bool):
        raise ValueError(
            f"{path} is a plan of version {clip(json.dumps(plan[MARK]))}; this apscope reads "
            f"version {SCHEMA}"
        )
    if not isinstance(plan.get("scheme"), str):
        raise ValueError(
            f"{path}: scheme is {clip(json.dumps(plan.get('scheme')))}; it must be a text"
        )
    return plan
