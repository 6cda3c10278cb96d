"""A progress bar: the share done, the rate and the time left."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """A tqdm bar on standard error, or nothing.

    Its context returns ``update(done, total)``, or None if nothing is shown. A replay counts
    visited values: every recorded value once by the statistics, then once by every scheme. The time
    left is computed from the recent rate because schemes differ in time per value.
    """

    def __init__(self, name: str, show: bool, unit: str = "value") -> None:
        self.name, self.show, self.unit = name, show, unit

    def __enter__(self) -> Any:
        if not self.show:
            return None
        if "IPython" in sys.modules:  # maybe a notebook's bar
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm

        self.bar = tqdm(total=0, desc=self.name, unit=self.unit, unit_scale=True, leave=False)

        def update(done: int, total: int) -> None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)

        return update

    def clear(self) -> None:
        """Removes the bar from the line until its next update, to make room for a sentence."""
        if self.show:
            self.bar.clear()

    def __exit__(self, *error: Any) -> None:
        if self.show:
            self.bar.close()
