"""Records besides gradients: weights before the update, layer inputs, activation gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch

from .._traces.manifest import file_name
from .._traces.safetensors import torch_array


class Extras:
    """Copies, at recorded steps, the kinds in `what`.

    A layer is a module with its own parameters; its input is the first positional argument of its
    last call in the step, its activation gradient that of the same call's output.
    """

    def __init__(
        self,
        what: Collection[str],
        parameters: dict[str, torch.nn.Parameter],
        due: Callable[[], bool],
    ):
        self._what, self._parameters, self._due = frozenset(what), parameters, due
        self._weights: dict[str, torch.Tensor] = {}
        self._seen: dict[str, torch.Tensor] = {}  # KIND/LAYER -> values

    def hooks(
        self,
        model: torch.nn.Module,
        guarded: Callable[..., Callable[..., None]],
        plain: Callable[[str], str],
    ) -> list[Any]:
        """Registers hooks on the layers; returns their handles."""
        if not self._what & {"layer_input", "activation_gradient"}:
            return []
        layers = [
            (plain(f"{name}.")[:-1], layer)
            for name, layer in model.named_modules()
            if any(True for _ in layer.parameters(recurse=False))
        ]
        return [
            layer.register_forward_hook(guarded(self._forward, guarded, name))
            for name, layer in layers
        ]

    def _forward(
        self,
        guarded: Callable[..., Callable[..., None]],
        name: str,
        _: Any,
        inputs: tuple[Any, ...],
        output: Any,
    ) -> None:
        if not self._due() or not isinstance(output, torch.Tensor) or not output.requires_grad:
            return
        if "layer_input" in self._what and inputs and isinstance(inputs[0], torch.Tensor):
            self._seen[f"layer_input/{name}"] = _copy(inputs[0])
        if "activation_gradient" in self._what:
            output.register_hook(guarded(self._backward, f"activation_gradient/{name}"))

    def _backward(self, key: str, gradient: torch.Tensor) -> None:
        self._seen[key] = _copy(gradient)

    def begin(self) -> None:
        """A recorded step's first gradient has arrived; the weights are not updated yet."""
        if "weights" in self._what:
            self._weights = {name: _copy(p) for name, p in self._parameters.items()}

    def drop(self) -> None:
        """The step is over."""
        self._weights, self._seen = {}, {}

    def files(self, process: int, divisor: float | None) -> dict[str, dict[str, np.ndarray]]:
        """File name -> name in it -> values."""
        files: dict[str, dict[str, np.ndarray]] = {}
        if self._weights and process == 0:
            files[file_name("weights", 0)] = {
                name: torch_array(p) for name, p in self._weights.items()
            }
        if self._seen:
            for key, values in self._seen.items():
                if divisor is not None and key.startswith("activation_gradient/"):
                    values.mul_(float(np.float32(1 / divisor)))
            files[file_name("layer_input", process)] = {
                key: torch_array(values) for key, values in self._seen.items()
            }
        return files


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)
