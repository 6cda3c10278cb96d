"""The time that recording takes from the training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overhead:
    """The time that recording takes from the training, measured in the training's thread.

    Attributes
    ----------
    seconds : float
        Time spent taking gradients and waiting for a free place, from the first step on.
    waited : float
        The part of it that was spent waiting for the disk.
    total : float
        Time from the beginning of the recording until now, or until its end.
    """

    seconds: float
    waited: float
    total: float

    @property
    def share(self) -> float:
        """The share of the total time spent on recording."""
        return self.seconds / self.total if self.total else 0.0

    def __str__(self) -> str:
        return (
            f"{self.seconds:.2f} s of {self.total:.2f} s ({100 * self.share:.1f} %), "
            f"{self.waited:.2f} s of them waiting for the disk"
        )
