"""A recipe: a short form of a function of a part's name, its module and a tensor's role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from torch import nn

from .parts import POINTWISE, PRODUCT, SUMS
from .registry import kind_of
from .specs import LossScale, as_cast, as_sum, as_weights

WEIGHT_UPDATE = "weight_update"
ROLES = (*PRODUCT, *POINTWISE, *SUMS, WEIGHT_UPDATE)
#: Tensors that a recipe names; `other` is the second operand of attention's products.
TENSORS = ("input", "weight", "other", "grad_output", "output", "grad_input", "grad_weight")

#: (part's name, module, role) -> spec or None
FormatFor: TypeAlias = Callable[[str, nn.Module, str], Any]


@dataclass(frozen=True)
class Recipe:
    """How a model's layers round their tensors.

    Parameters
    ----------
    input, weight, grad_output : Cast, format or str, optional
        Operands of the products: `input` of the forward product and the weight gradient, `weight`
        of the forward product and the input gradient, `grad_output` of both gradients. None: fp32.
    other : Cast, format or str, optional
        The second operand of a product of two activations (attention's keys and values); by default
        as `input`.
    output, grad_input, grad_weight : Cast, format or str, optional
        Results: the layer's output, its input gradient, its parameters' gradients.
    uses : mapping of role to Cast, format, str or None
        Specs of single uses, which override the above: ``forward.input``, ``forward.weight``,
        ``input_gradient.grad_output``, ``input_gradient.weight``, ``weight_gradient.grad_output``,
        ``weight_gradient.input``.
    accumulate : Sum, format, str, or mapping of product to one of them, optional
        The sums of the products ``forward``, ``input_gradient``, ``weight_gradient``; None:
        PyTorch's sums in fp32, in PyTorch's order. The name of a matrix unit (`apscope.units`), such
        as ``h100:fp8`` or ``h100:fp8,promote=128``, stands for sums as it adds them (`Sum`).
    weight_update : Weights, format or str, optional
        The format of the weights between steps; None: fp32.
    also : tuple of str
        Names of classes without products that are quantized too (``"LayerNorm"``,
        ``"BatchNorm2d"``, ``"Embedding"``). Layers with products always are.
    where : mapping of pattern to Recipe or None
        Another recipe for modules or parts whose name matches the pattern; None: fp32. The first
        match counts. ``first`` and ``last`` are the model's first and last layer with a product.
    loss_scale : LossScale, optional
    about : str
        Its content and its source.

    Raises
    ------
    ValueError
        An unknown format, role or product.
    """

    input: Any = None
    weight: Any = None
    grad_output: Any = None
    other: Any = None
    output: Any = None
    grad_input: Any = None
    grad_weight: Any = None
    uses: Mapping[str, Any] = field(default_factory=dict)
    accumulate: Any = None
    weight_update: Any = None
    also: tuple[str, ...] = ()
    where: Mapping[str, Recipe | None] = field(default_factory=dict)
    loss_scale: LossScale | None = None
    about: str = ""

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for name in TENSORS:
            put(name, as_cast(getattr(self, name)))
        for role in self.uses:
            if role not in PRODUCT and role not in POINTWISE:
                raise ValueError(f"uses has {role!r}; roles are {', '.join(PRODUCT)}")
        put("uses", {role: as_cast(given) for role, given in self.uses.items()})
        given = self.accumulate
        if not isinstance(given, Mapping):
            given = {role.partition(".")[0]: given for role in SUMS} if given is not None else {}
        for product in given:
            if f"{product}.sum" not in SUMS:
                raise ValueError(
                    f"accumulate has {product!r}; products are forward, input_gradient and "
                    "weight_gradient"
                )
        put("accumulate", {product: as_sum(s) for product, s in given.items()})
        put("weight_update", as_weights(self.weight_update))
        if isinstance(self.also, str):
            raise ValueError(f"also={self.also!r} must be a tuple of names: ({self.also!r},)")
        put("where", dict(self.where))
        for pattern, other in self.where.items():
            if other is not None and not isinstance(other, Recipe):
                raise TypeError(
                    f"where[{pattern!r}] is {type(other).__name__}; give a Recipe, or None"
                )
            if other is not None and (other.where or other.loss_scale):
                raise ValueError(
                    f"where[{pattern!r}] has patterns or a loss scale of its own, which belong to "
                    "the outer recipe"
                )

    def spec(self, role: str, name: str) -> Any:
        """The spec of a role of the part with this name, without patterns."""
        if role == WEIGHT_UPDATE:
            return self.weight_update
        if role in SUMS:
            return self.accumulate.get(role.partition(".")[0])
        if role in self.uses:
            return self.uses[role]
        tensor = role.rpartition(".")[2]
        if tensor == "weight" and name.endswith((":scores", ":values")):
            return self.other or self.input
        return getattr(self, tensor)


@dataclass(frozen=True)
class Patterns:
    """Recipes by patterns of names; the first that matches a layer with a product counts."""

    recipes: Mapping[str, Recipe | None]


def by_patterns(recipes: Mapping[str, Any]) -> Recipe | Patterns | None:
    """Patterns of names as one recipe; ``"*"`` alone is its recipe.

    Raises
    ------
    TypeError
        A value is not a Recipe or None.
    ValueError
        One of several recipes has patterns or a loss scale of its own.
    """
    for pattern, one in recipes.items():
        if one is not None and not isinstance(one, Recipe):
            raise TypeError(
                f"the recipe of {pattern!r} is {type(one).__name__}; give a Recipe, a preset's "
                "name, or None"
            )
        if len(recipes) > 1 and one is not None and (one.where or one.loss_scale):
            raise ValueError(
                f"the recipe of {pattern!r} has patterns or a loss scale of its own; give it "
                "alone, with where="
            )
    return recipes["*"] if list(recipes) == ["*"] else Patterns(dict(recipes))


@dataclass
class Bound:
    """A recipe for one model: the function, and the matches of its patterns."""

    format_for: FormatFor
    matched: dict[str, list[str]]  # pattern -> names of modules and parts, filled as it is asked
    loss_scale: LossScale | None = None


def bind(spec: Any, model: nn.Module) -> Bound:
    """The function of a recipe for a model; a function is used unchanged."""
    if spec is None:
        return Bound(lambda *_: None, {})
    if isinstance(spec, Patterns):
        return _bind_patterns(spec.recipes, model)
    if not isinstance(spec, Recipe):
        if not callable(spec):
            raise TypeError(
                f"recipe is {type(spec).__name__}; give a Recipe, a preset's name, "
                "f(name, module, role), or a mapping of pattern or first step to one of them"
            )
        return Bound(spec, {})
    recipe, ends = spec, _ends(model)
    matched: dict[str, list[str]] = {name: [] for name in (*recipe.where, *recipe.also)}

    def chosen(name: str, module: nn.Module) -> Recipe | None:
        kind = kind_of(module)
        assert kind is not None
        for pattern, other in recipe.where.items():
            if _matches(pattern, name, ends):
                matched[pattern].append(name)
                return other
        if kind.type.__name__ in recipe.also:
            matched[kind.type.__name__].append(name)
            return recipe
        return recipe if "product" in kind.parts(module).values() else None

    def format_for(name: str, module: nn.Module, role: str) -> Any:
        of_part = chosen(name, module)
        return None if of_part is None else of_part.spec(role, name)

    return Bound(format_for, matched, recipe.loss_scale)


def _bind_patterns(recipes: Mapping[str, Recipe | None], model: nn.Module) -> Bound:
    ends = _ends(model)
    matched: dict[str, list[str]] = {pattern: [] for pattern in recipes}

    def format_for(name: str, module: nn.Module, role: str) -> Any:
        kind = kind_of(module)
        assert kind is not None
        for pattern, one in recipes.items():
            is_quantized = "product" in kind.parts(module).values() or (
                one is not None and kind.type.__name__ in one.also
            )
            if is_quantized and _matches(pattern, name, ends):
                matched[pattern].append(name)
                return None if one is None else one.spec(role, name)
        return None

    return Bound(format_for, matched)


def _matches(pattern: str, name: str, ends: Mapping[str, str]) -> bool:
    """Whether a pattern matches a part's name, or its module's."""
    layer = name.partition(":")[0]
    if pattern in ("first", "last"):
        return ends.get(pattern) == layer
    return fnmatchcase(name, pattern) or fnmatchcase(layer, pattern)


def _ends(model: nn.Module) -> dict[str, str]:
    """The first and the last layer with a product, in the model's order."""
    names = []
    for name, module in model.named_modules():
        kind = kind_of(module)
        if kind is not None and "product" in kind.parts(module).values():
            names.append(name)
    return {"first": names[0], "last": names[-1]} if names else {}
