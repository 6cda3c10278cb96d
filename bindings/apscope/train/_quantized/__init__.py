"""Models whose layers round their tensors: recipes, what they do to modules, what they lose."""

from .model import QuantizedModel, quantization, quantize_model
from .presets import recipes
from .recipe import Recipe
from .registry import is_quantized, register_module
from .specs import Cast, LossScale, Sum, Weights

__all__ = [
    "Cast",
    "LossScale",
    "QuantizedModel",
    "Recipe",
    "Sum",
    "Weights",
    "is_quantized",
    "quantization",
    "quantize_model",
    "recipes",
    "register_module",
]
