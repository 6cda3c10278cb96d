"""Recording under Lightning's Trainer: a callback that attaches a recorder when training begins."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ._recorder import Recorder

__all__ = ["RecorderCallback"]


class RecorderCallback(Callback):  # type: ignore[misc]  # from a package without types
    """``Trainer(..., callbacks=[RecorderCallback(Recorder("trace", every=100))])``.

    Steps are the trainer's ``global_step``, which continues that of a checkpoint. Hooks get the
    loss scaled by the precision plugin: call ``recorder.log(loss=loss)`` in ``training_step`` to
    record it.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attaches the recorder to the module."""
        self.recorder.attach(pl_module, first_step=trainer.global_step or None)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Ends the recording."""
        self.recorder.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Ends the recording without waiting for other processes."""
        self.recorder.close(whole=False)
