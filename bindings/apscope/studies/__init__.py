"""Studies, one module a question that somebody's paper asked.

- `activation_scales`: loss scales layer by layer, from recorded activation gradients and weights;
- `unit_scaling`: static scales from shapes, held against recorded gradients;
- `weight_updates`: what low precision does to weights as they are updated;
- `attribution`: what the errors of a scheme do to the loss;
- `double_sampling`: gradients of a linear model whose samples are stored in few levels;
- `fractrain`: what a step of mixed widths costs;
- `levels`: the codebook of minimum variance.
"""

from . import activation_scales, attribution, double_sampling, fractrain, levels, unit_scaling, weight_updates

__all__ = ["activation_scales", "attribution", "double_sampling", "fractrain", "levels", "unit_scaling", "weight_updates"]
