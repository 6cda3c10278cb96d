"""Recording under Hugging Face's Trainer: a callback attaches a recorder when training begins."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._recorder import Recorder

__all__ = ["RecorderCallback"]


class RecorderCallback(TrainerCallback):  # type: ignore[misc]  # from a package without types
    """``Trainer(..., callbacks=[RecorderCallback(Recorder("trace", every=100))])``.

    Steps are the trainer's ``global_step``, which continues that of a checkpoint. Callbacks
    do not see a step's loss: call ``recorder.log(loss=loss)`` in ``compute_loss`` to record it.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder

    def on_train_begin(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        model: Any = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Attaches the recorder to the model."""
        self.recorder.attach(model, first_step=state.global_step or None)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Ends the recording."""
        self.recorder.close()
