"""A PyTorch model's layers: roles, layer inputs, activation gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from .._traces.roles import guess_role
from .._traces.writer import TraceWriter

_ROLES = (
    ("conv", torch.nn.modules.conv._ConvNd),
    ("embedding", (torch.nn.Embedding, torch.nn.EmbeddingBag)),
    (
        "norm",
        (
            torch.nn.modules.batchnorm._NormBase,
            torch.nn.GroupNorm,
            torch.nn.LayerNorm,
            *filter(None, [getattr(torch.nn, "RMSNorm", None)]),
        ),
    ),
    ("attention", torch.nn.MultiheadAttention),
    ("linear", (torch.nn.Linear, torch.nn.Bilinear)),
)
#: Information from names in addition to types: a layer of attention, the last one, an offset.
_BY_NAME = {
    "conv": ("bias", "head"),
    "attention": ("bias",),
    "linear": ("attention", "bias", "head"),
}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The values on the host; bfloat16, which NumPy lacks, widened to float32 (exact)."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def roles(model: torch.nn.Module) -> dict[str, str]:
    """Parameter name -> role, for parameters whose module's type determines it."""
    roles_of = {}
    for layer_name, layer in model.named_modules():
        known = next((role for role, types in _ROLES if isinstance(layer, types)), None)
        for name, p in layer.named_parameters(prefix=layer_name, recurse=False):
            if known is not None:
                named = str(guess_role(name, p.shape))
                roles_of[name] = named if named in _BY_NAME.get(known, ()) else known
    return roles_of


@contextmanager
def record_activations(
    model: torch.nn.Module, writer: TraceWriter, step: int, worker: int
) -> Iterator[None]:
    """While active, one forward and backward pass of `model` records its layers with parameters.

    ``layer_input`` is the layer's first argument, ``activation_gradient`` the gradient with respect
    to its output. A layer that is called twice within one pass is refused by the writer.
    """

    def forward(
        name: str,
    ) -> Callable[[torch.nn.Module, tuple[torch.Tensor, ...], torch.Tensor], None]:
        def hook(
            _: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
        ) -> None:
            writer.add(step, worker, name, to_numpy(inputs[0]), kind="layer_input")
            output.register_hook(
                lambda gradient: writer.add(
                    step, worker, name, to_numpy(gradient), kind="activation_gradient"
                )
            )

        return hook

    layers = [
        (n, m) for n, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))
    ]
    handles = [layer.register_forward_hook(forward(name)) for name, layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
