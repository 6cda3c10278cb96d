"""The parts of a recipe: casts of operands, sums of products, weights' formats, a loss scale."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from ... import _core
from ..._arrays.checks import integer, number
from ..._arrays.inputs import FormatLike, as_format
from ..._arrays.projection import Projection
from ..._arrays.units import units
from ..._core import BlockFormat, FloatFormat
from ..._schemes.scheme import Scheme, as_scheme
from ..._text import plain_number
from ...torch._weights import STOCHASTIC_NORMAL, UPDATES


@dataclass(frozen=True)
class Cast:
    """How an operand is rounded.

    Parameters
    ----------
    format : FloatFormat, BlockFormat, Scheme or str
        A float format (``"e4m3fn"``), a block format (``"mxfp8_e4m3"``, ``"nvfp4"``), or a scheme
        (``"delayed_scaling:e5m2"``), which is run with one worker: the decoded message is the
        operand, and each use has its own memory of the scheme. A name of both kinds, such as
        ``nvfp4``, is the block format.
    rounding, overflow, random_bits
        For the elements, as for `apscope.Projection`, but an overflow saturates by default; a
        scheme has its own keys instead. A float format has the rounding ``stochastic_normal`` too:
        ``stochastic``, but magnitudes below its smallest normal number go to nearest, ties to even.
    through : FloatFormat or str, optional
        For a float format: the operand is first rounded to this format, to nearest, ties to even,
        with the same overflow.
    flush_below : float, optional
        For a float format: a result whose magnitude is below this number becomes a zero.
    tile : (int, int), optional
        For a block format: rows and columns of a block of the matrix that shares a scale, instead
        of runs along the product's sum. Tiles at the edge are padded with zeros.
    hadamard : bool
        Runs of 16 terms of the sum are transformed before the cast: signs, then a Hadamard matrix
        divided by 4. Only for both operands of the weight gradient, where the transforms cancel.

    Raises
    ------
    ValueError
        An unknown name, a rounding for a scheme, tiles without a block format, a tile that is not
        positive.
    TypeError
        A format of another kind.
    """

    format: Any
    rounding: str = "ties_to_even"
    overflow: str = "saturate"
    random_bits: int = 32
    tile: tuple[int, int] | None = None
    hadamard: bool = False
    through: Any = None
    flush_below: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", _format(self.format))
        self._check_float_parts()
        if self.kind == "scheme":
            if (self.rounding, self.overflow, self.random_bits) != (
                "ties_to_even",
                "saturate",
                32,
            ):
                raise ValueError(
                    f"rounding={self.rounding!r}, overflow={self.overflow!r} of the scheme "
                    f"{self.format}: give them as its own keys"
                )
        elif self.rounding != STOCHASTIC_NORMAL:
            object.__setattr__(self, "rounding", self.projection.rounding)
        if isinstance(self.format, FloatFormat) and not self.format.fits_fp32:
            raise ValueError(
                f"{self.format} has values beyond fp32, in which a model computes; "
                "give a format within fp32"
            )
        if self.tile is not None:
            rows, columns = self.tile
            sides = (integer("tile", rows, 1, 2**15), integer("tile", columns, 1, 2**15))
            object.__setattr__(self, "tile", sides)
            if self.kind != "blocks":
                raise ValueError(f"tile={self.tile} needs a block format, not {self.format}")

    def _check_float_parts(self) -> None:
        """Raises an error for a rounding, `through` or `flush_below` that cannot be."""
        parts = {
            f"rounding={STOCHASTIC_NORMAL!r}": self.rounding == STOCHASTIC_NORMAL,
            f"through={self.through}": self.through is not None,
            f"flush_below={self.flush_below}": self.flush_below is not None,
        }
        for part, given in parts.items():
            if given and self.kind != "float":
                raise ValueError(f"{part} needs a float format, not {self.format}")
        if self.through is not None:
            object.__setattr__(self, "through", as_format(self.through))
        if self.flush_below is not None and not 0 < number("flush_below", self.flush_below) < inf:
            raise ValueError(f"flush_below={self.flush_below} must be a positive and finite number")

    @property
    def kind(self) -> str:
        """``float``, ``blocks`` or ``scheme``."""
        if isinstance(self.format, FloatFormat):
            return "float"
        return "blocks" if isinstance(self.format, BlockFormat) else "scheme"

    @property
    def elements(self) -> FloatFormat:
        """The format of its elements; of a scheme, of its codes.

        Raises
        ------
        ValueError
            The codes of a scheme are not those of a float format.
        """
        if self.kind == "scheme":
            return FloatFormat(self.format.grid)
        return self.format.element if self.kind == "blocks" else self.format

    @property
    def projection(self) -> Projection:
        """The rounding of its elements, of normal numbers for ``stochastic_normal``."""
        rounding = "stochastic" if self.rounding == STOCHASTIC_NORMAL else self.rounding
        return Projection(rounding, overflow=self.overflow, random_bits=self.random_bits)

    @property
    def draws(self) -> bool:
        """Whether it uses random words."""
        return self.kind == "scheme" or "stochastic" in self.rounding

    @property
    def along_the_sum(self) -> bool:
        """Whether the result depends on the axis that the product sums over."""
        return self.hadamard or (self.kind == "blocks" and self.tile is None)

    def __str__(self) -> str:
        words = [str(self.format)]
        if self.tile is not None:
            words.append("tiles {} x {}".format(*self.tile))
        if self.rounding != "ties_to_even":
            words.append(self.rounding.replace("_", " "))
        if self.overflow != "saturate":
            words.append(f"overflow {self.overflow}")
        if self.hadamard:
            words.append("Hadamard")
        if self.through is not None:
            words.append(f"through {self.through}")
        if self.flush_below is not None:
            words.append(f"0 below {plain_number(self.flush_below)}")
        return " ".join(words)


def _format(value: Any) -> FloatFormat | BlockFormat | Scheme:
    """A float format, a block format or a scheme; a name is tried in this order."""
    if isinstance(value, FloatFormat | BlockFormat | Scheme):
        return value
    if not isinstance(value, str):
        return as_format(value)
    sentences = []
    for read in (as_format, BlockFormat, as_scheme):
        try:
            return read(value)
        except ValueError as error:
            sentences.append(str(error))
    raise ValueError(
        f"{value!r} is not a float format, block format or scheme: "
        f"{sentences[2] if ':' in value else sentences[0]}"
    )


def as_cast(value: Any) -> Cast | None:
    """A cast, from itself or its format; None is kept."""
    return value if value is None or isinstance(value, Cast) else Cast(value)


@dataclass(frozen=True)
class Sum:
    """The sums of a product: `apscope.matmul` in a format and an order.

    Parameters
    ----------
    format : FloatFormat, str or dtype
        Format of the result, whose values must be fp32 numbers.
    order, product, accumulate
        As for `apscope.matmul`.
    rounding, overflow : str
        For every rounding of the sum. Not ``stochastic_exact``.

    Raises
    ------
    ValueError
        An unknown format, order or rounding, a format beyond fp32.

    Notes
    -----
    With an order ``unit:NAME`` (`apscope.units`) operands are the elements of float formats, of
    block formats, or of schemes with one scale for a tensor (``current_scaling:e4m3fn``). Blocks
    need ``promote=N``: each chain of N terms of the sum has one scale of either operand, its result
    is multiplied by the product of both scales, and the chains are added in fp32. A unit whose
    operands have scales (``b200:nvfp4``) gets those of blocks along the sum's terms instead. What a
    tensor is divided by, the scale S of a scheme or of a block format with a tensor scale, comes after the
    sum: this is multiplied by fl32(fl32(1/S) fl32(1/S')), in fp32. Transformer Engine computes both
    quotients so; which product is rounded first is known of its NVFP4 alone, not of cuBLASLt, which
    gets both. The gradient
    of a bias, which is not a product, is then added up in fp32, row by row.
    """

    format: FormatLike
    order: str = "sequential"
    product: FormatLike | None = None
    accumulate: FormatLike | None = None
    rounding: str = "ties_to_even"
    overflow: str = "ieee"

    def __post_init__(self) -> None:
        for name in ("format", "product", "accumulate"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_format(value))
        if not as_format(self.format).fits_fp32:
            raise ValueError(f"sums in {self.format} are not fp32 numbers; give a format that is")
        from ..._arrays.sums import matmul

        matmul(
            [[1.0]], [[1.0]], self.format, order=self.order, product=self.product,
            accumulate=self.accumulate, rounding=self.rounding, overflow=self.overflow,
            scales=([[1.0]], [[1.0]]) if self.scaled else None,
        )  # fmt: skip

    @property
    def unit(self) -> bool:
        """Whether a matrix unit adds."""
        return self.order.startswith("unit:")

    @property
    def promote(self) -> int | None:
        """The number of terms of a matrix unit's chain; None: all are one chain."""
        return _core.matrix_unit_order(self.order)[1] or None

    @property
    def scaled(self) -> int:
        """The terms that share a scale, of a matrix unit whose operands have scales; else 0."""
        return _core.matrix_unit_order(self.order)[3] if self.unit else 0

    def order_of(self, a: Cast | None, b: Cast | None) -> str:
        """The order of a matrix unit for operands of these casts, whose formats it states.

        Raises
        ------
        ValueError
            A format of elements or of scales that the unit does not take.
        """
        *_, taken, scaled, scales = _core.matrix_unit_order(self.order)
        for cast in (a, b):
            if scaled and cast is not None and cast.kind == "blocks":
                given = cast.format.scale.name
                if given != scales:
                    raise ValueError(
                        f"order={self.order} takes scales of {scales}, not of {given}, those of "
                        f"{cast.format}"
                    )
        if ",inputs=" in self.order or a is None or b is None:
            return self.order
        names = [str(cast.elements) for cast in (a, b)]
        for name in names:
            if taken and name not in taken:
                raise ValueError(
                    f"order={self.order} takes operands of {' or '.join(taken)}, not of {name}"
                )
        return f"{self.order},inputs={names[0]}*{names[1]}"

    def __str__(self) -> str:
        inner = [f"products {self.product}"] if self.product is not None else []
        inner += [f"accumulator {self.accumulate}"] if self.accumulate is not None else []
        inner += [self.rounding.replace("_", " ")] if self.rounding != "ties_to_even" else []
        return " ".join([str(self.format), self.order, *inner])


def as_sum(value: Any) -> Sum | None:
    """A sum, from itself, its format, or a matrix unit's name or order; None is kept."""
    if value is None or isinstance(value, Sum):
        return value
    if isinstance(value, str):
        name = value.removeprefix("unit:")
        first = name.partition(",")[0]
        # No format's name has a colon.
        if name != value or ":" in first or first in {unit["name"] for unit in units()}:
            order = f"unit:{name}"
            return Sum(_core.matrix_unit_order(order)[0], order=order)
    return Sum(value)


@dataclass(frozen=True)
class Weights:
    """The format of weights between steps, by `apscope.torch.LowPrecisionWeights`.

    Parameters
    ----------
    format : FloatFormat, str or dtype
    update : {"nearest", "stochastic", "stochastic_normal", "kahan", "residual"}

    Raises
    ------
    ValueError
        An unknown format or update.
    """

    format: FormatLike
    update: str = "nearest"

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", as_format(self.format))
        if self.update not in UPDATES:
            raise ValueError(f"update={self.update!r} must be one of {', '.join(UPDATES)}")

    def __str__(self) -> str:
        return f"{self.format} {self.update}"


def as_weights(value: Any) -> Weights | None:
    """A format of weights, from itself or its format; None is kept."""
    return value if value is None or isinstance(value, Weights) else Weights(value)


@dataclass(frozen=True)
class LossScale:
    """A factor on the loss; gradients are divided by it before the optimizer's step.

    Parameters
    ----------
    initial : float
        The scale of the first step.
    dynamic : bool
        Whether it changes, by the rule of ``torch.amp.GradScaler``: it is halved if a gradient is
        not finite, and that step is left out; it is doubled after `interval` other steps.
    interval : int
    minimum : tuple of (step, scale)
        Lower bounds of the scale, each from its step on (enhanced loss scaling).

    Raises
    ------
    ValueError
        A scale that is not positive and finite.
    """

    initial: float = 2.0**16
    dynamic: bool = True
    interval: int = 2000
    minimum: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        for scale in (self.initial, *(s for _, s in self.minimum)):
            if not 0 < scale < float("inf"):
                raise ValueError(
                    f"a loss scale of {scale} is not allowed; it must be positive and finite"
                )
        integer("interval", self.interval, 1, 2**31 - 1)

    def least(self, step: int) -> float:
        """The minimum at a step; 0 without one."""
        return next((s for first, s in reversed(self.minimum) if step >= first), 0.0)

    def __str__(self) -> str:
        kind = "dynamic" if self.dynamic else "constant"
        return f"{kind}, at first {plain_number(self.initial)}" + (
            f", at least {', '.join(f'{plain_number(s)} from step {t}' for t, s in self.minimum)}"
            if self.minimum
            else ""
        )
