"""Studies, one module per question from a paper.

- `activation_scales`: loss scales layer by layer, from recorded activation gradients and weights;
- `unit_scaling`: static scales from shapes, compared with recorded gradients;
- `weight_updates`: the effect of low precision on weight updates;
- `attribution`: the effect of a scheme's errors on the loss;
- `double_sampling`: gradients of a linear model with samples stored in few levels;
- `fractrain`: the cost of a step of mixed widths;
- `levels`: the codebook of minimum variance.
"""

from . import (
    activation_scales,
    attribution,
    double_sampling,
    fractrain,
    levels,
    unit_scaling,
    weight_updates,
)

__all__ = [
    "activation_scales", "attribution", "double_sampling", "fractrain", "levels", "unit_scaling",
    "weight_updates",
]  # fmt: skip
