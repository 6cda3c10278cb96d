"""Pages from Jinja templates: all names are escaped, and a missing name is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def render(path: Path, filters: dict[str, Callable[..., Any]], **names: Any) -> str:
    """The template at `path` with these filters and names, as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(path.name).render(**names)
