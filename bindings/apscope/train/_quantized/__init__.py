"""Models whose layers round their tensors: recipes, the changed modules, and their errors."""

from .model import QuantizedModel, quantization, quantize_model
from .presets import recipes
from .recipe import Recipe
from .registry import is_quantized, register_module
from .specs import Cast, LossScale, Sum, Weights

__all__ = [
    "Cast", "LossScale", "QuantizedModel", "Recipe", "Sum", "Weights", "is_quantized",
    "quantization", "quantize_model", "recipes", "register_module",
]  # fmt: skip
