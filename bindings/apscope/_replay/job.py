"""What a replay does with one trace: its options, for C++ and for Dask workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import _core


@dataclass(frozen=True)
class Job:
    """The data shared by all parts of a replay of one trace."""

    # Specs, topologies, steps and tensors by index, workers, seed.
    arguments: tuple[list[str], list[str], list[int], list[int], int, int]
    shard: tuple[int, int]
    draws: int
    threads: int  # 0: as many as a Dask worker has
    memory: int  # bytes; 0: half of a Dask worker's limit
    states: Mapping[str, Any]
    keep_states: bool
    device: str
    kinds: list[str]  # of files that are read
    check: bool  # whether to compare them with their SHA-256
    persistence: bool = False

    def options(self, threads: int = 0, memory: int = 0) -> _core.ReplayOptions:
        return _core.ReplayOptions(
            *self.arguments,
            *self.shard,
            self.draws,
            self.threads or threads,
            self.memory or memory,
            self.persistence,
        )

    def options_of(self, worker: Any) -> _core.ReplayOptions:
        """With the threads and the memory of this Dask worker."""
        return self.options(worker.state.nthreads, (worker.memory_manager.memory_limit or 0) // 2)

    def device_here(self) -> Any:
        """The GPU, if requested."""
        if self.device != "cuda":
            return None
        from .._arrays.gpu import row_device

        return row_device()
