"""Written by .ci/stubs.py: make stubs."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from ._arrays.inputs import FormatLike
from ._arrays.projection import Projection
from ._core import BlockFormat
from ._schemes.definitions import SchemeDefinition, SchemeKey, definitions
from ._schemes.lists import all_schemes, main_schemes
from ._schemes.scheme import Scheme, as_scheme, define

__all__ = [
    "Scheme",
    "SchemeDefinition",
    "SchemeKey",
    "all_schemes",
    "as_scheme",
    "define",
    "definitions",
    "main_schemes",
    "Unscaled",
    "ErrorFeedback",
    "Hybrid",
    "APS",
    "CPD",
    "AdaptiveLossScaling",
    "DeepSpeedLossScaling",
    "DynamicLossScaling",
    "EnhancedLossScaling",
    "HFP8",
    "LogMaxLossScaling",
    "LossScaling",
    "CurrentScaling",
    "DelayedScaling",
    "FP8AllReduce",
    "FP8TwoShot",
    "MX",
    "NVFP4",
    "QuickReduce",
    "BitCentering",
    "FracTrain",
    "Natural",
    "QSGD",
    "Stochastic",
    "TernGrad",
    "ThreeLC",
    "ZipML",
    "Birder",
    "Multipoint",
    "OneBitAdam",
    "Sign",
    "SignVote",
    "Residual",
    "DynamiQ",
    "FFTSparse",
    "IntegerAllReduce",
    "OkTopk",
    "PowerSGD",
    "RandomK",
    "SparCML",
    "THC",
    "TopK",
    "ZeroBlocks",
]

_Rounding: TypeAlias = Literal[
    "ties_to_even",
    "ties_to_away",
    "ties_to_zero",
    "toward_zero",
    "toward_positive",
    "toward_negative",
    "away_from_zero",
    "to_odd",
    "stochastic",
    "stochastic_b",
    "stochastic_c",
    "stochastic_equal",
]
_Overflow: TypeAlias = Literal[
    "ieee",
    "saturate",
    "propagate",
    "infinity",
    "nan",
]

class Unscaled(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class ErrorFeedback(Scheme):
    def __init__(self, scheme: Scheme | str, *, decay: float = 1) -> None: ...

class Hybrid(Scheme):
    def __init__(self, branches: Mapping[str, Scheme | str]) -> None: ...

class APS(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        headroom: str = "workers",
        rule: str = "ceil",
        unit: int | str = "tensor",
        bucket: int | str = "none",
        frozen: int = 0,
        delay: int = 0,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class CPD(Scheme):
    def __init__(self, format: FormatLike, *, aps: bool = True, kahan: bool = False, input_cast: bool | str = "as_aps") -> None: ...

class AdaptiveLossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        distribution: str = "lognormal",
        target: float = 0.001,
        u_min: float | str = "format",
        u_max: float | str = "format",
        upper: float = 16,
        interval: int = 1,
        headroom: str = "workers",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class DeepSpeedLossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        init: float | str = "auto",
        factor: float = 2,
        window: int = 1000,
        hysteresis: int = 2,
        consecutive_hysteresis: bool = False,
        min_scale: float = 1,
        at_minimum: str = "stop",
        version: int = 2025,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class DynamicLossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        init: float | str = "auto",
        growth: float = 2,
        backoff: float = 0.5,
        growth_interval: int = 2000,
        min_scale: float | Literal["none"] = "none",
        max_scale: float | Literal["none"] = "none",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class EnhancedLossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        init: float | str = "auto",
        growth: float = 2,
        backoff: float = 0.5,
        growth_interval: int = 2000,
        minimum: str = "0:1024",
        projection: Projection | None = None,
        rounding: _Rounding = "stochastic",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class HFP8(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        scale: float = 1024,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "dlfloat16",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class LogMaxLossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        init: float = 1,
        beta1: float = 0.99,
        beta2: float = 0.999,
        deviations: float = 3.09,
        target: float = 16,
        overflow_log2: float = 65536,
        min_scale: float = 1,
        max_scale: float = 16384,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class LossScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        scale: float | Literal["largest", "best"] = 1024,
        headroom: str = "workers",
        rule: str = "ceil",
        by: str = "step_nmse",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "ieee",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class CurrentScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        pow2: bool = False,
        agree: str = "max",
        block: int = 0,
        bucket: int | str = "none",
        eps: float = 0,
        nonfinite: str = "finite",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "saturate",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "fp32",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class DelayedScaling(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        history: int = 1024,
        algo: str = "max",
        margin: int = 0,
        zero: str = "enter",
        nonfinite: str = "infinity",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "saturate",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "fp32",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class FP8AllReduce(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        headroom: str = "sqrt_workers",
        no_amax: str = "keep",
        agree: str = "amax",
        auto_scaling: float = 0,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        overflow: _Overflow = "saturate",
        random_bits: int = 32,
        correlated: bool = False,
        accumulate: FormatLike = "format",
        hop_rounding: _Rounding | Literal["same"] = "same",
        divide: float | str = "after",
    ) -> None: ...

class FP8TwoShot(Scheme):
    def __init__(
        self,
        format: FormatLike,
        *,
        group: int | Literal["row"] = 0,
        bucket: int | str = "none",
        overflow: Literal["pytorch", "saturate", "ieee"] = "pytorch",
    ) -> None: ...

class MX(Scheme):
    def __init__(
        self,
        block_format: BlockFormat | str = "mxfp8_e4m3",
        *,
        block: int = 0,
        rule: str = "format",
        along: str = "tensor",
        bucket: int | str = "none",
        nonfinite: str = "format",
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class NVFP4(Scheme):
    def __init__(
        self,
        *,
        projection: Projection | None = None,
        rounding: _Rounding = "stochastic",
        scale: str = "e4m3fn",
        tensor_scale: bool = True,
        nonfinite: str = "apart",
        rht: bool = True,
        four_over_six: Literal[False, "mse", "mae"] = False,
        agree: str = "max",
        bucket: int | str = "none",
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class QuickReduce(Scheme):
    def __init__(
        self,
        *,
        codec: str = "int8",
        epsilon: float = 6e-08,
        epsilon_as: str = "add",
        input: FormatLike = "fp16",
        overflow: Literal["saturate", "ieee"] = "saturate",
        bucket: int | str = "none",
    ) -> None: ...

class BitCentering(Scheme):
    def __init__(self, *, bits: int = 8, mu: float = 0.1, period: int = 10, random_bits: int = 32, correlated: bool = False) -> None: ...

class FracTrain(Scheme):
    def __init__(
        self,
        *,
        bits: int | str = "6/6/8/8",
        epsilon: float = 0.05,
        alpha: float = 0.3,
        least_scale: float = 1e-08,
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class Natural(Scheme):
    def __init__(self, *, random_bits: int = 32, correlated: bool = False) -> None: ...

class QSGD(Scheme):
    def __init__(
        self,
        *,
        levels: int = 7,
        bucket: int = 512,
        random_bits: int = 32,
        correlated: bool = False,
        norm: str = "l2",
        code: str = "fixed",
    ) -> None: ...

class Stochastic(Scheme):
    def __init__(self, format: FormatLike, *, random_bits: int = 32, correlated: bool = False, overflow: _Overflow = "ieee") -> None: ...

class TernGrad(Scheme):
    def __init__(self, *, clip: float = 2.5, random_bits: int = 32, correlated: bool = False) -> None: ...

class ThreeLC(Scheme):
    def __init__(
        self,
        *,
        sparsity: float = 1,
        projection: Projection | None = None,
        rounding: _Rounding = "ties_to_even",
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class ZipML(Scheme):
    def __init__(
        self,
        *,
        levels: int = 16,
        bucket: int = 0,
        method: str = "candidates",
        candidates: int = 512,
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class Birder(Scheme):
    def __init__(self, *, beta: float = 0.9, amsgrad: bool = False, group: int = 1, correlated: bool = False) -> None: ...

class Multipoint(Scheme):
    def __init__(self, *, bits: int = 4, points: int = 2, nmse: float = 0, search: int = 16, zero: bool = True) -> None: ...

class OneBitAdam(Scheme):
    def __init__(self, *, beta1: float = 0.9, warmup: int = 0, warmup_format: FormatLike = "fp32") -> None: ...

class Sign(Scheme):
    def __init__(self, *, scale: str = "l1", padding: str = "none") -> None: ...

class SignVote(Scheme):
    def __init__(self, *, momentum: float = 0, tie: str = "plus") -> None: ...

class Residual(Scheme):
    def __init__(self, scheme: Scheme | str, *, points: int = 2, nmse: float = 0) -> None: ...

class DynamiQ(Scheme):
    def __init__(
        self,
        *,
        widths: str = "shares",
        budget: int = 5,
        quantizer: str = "mee",
        rules: str = "code",
        topology: str = "ring",
        correlated: bool = True,
    ) -> None: ...

class FFTSparse(Scheme):
    def __init__(self, *, keep: float = 0.15, bits: int = 8, mantissa: int = 3, bucket: int = 0) -> None: ...

class IntegerAllReduce(Scheme):
    def __init__(
        self,
        *,
        bits: int = 32,
        chunk: int = 256,
        projection: Projection | None = None,
        rounding: Literal["ties_to_even", "stochastic"] = "ties_to_even",
        scale: str = "power_of_two",
        headroom: str = "workers",
        sum_overflow: str = "wrap",
        random_bits: int = 32,
        correlated: bool = False,
    ) -> None: ...

class OkTopk(Scheme):
    def __init__(self, *, keep: float = 0.01, warmup: int = 512, threshold_period: int = 32, region_period: int = 64) -> None: ...

class PowerSGD(Scheme):
    def __init__(self, *, rank: int = 2) -> None: ...

class RandomK(Scheme):
    def __init__(self, *, keep: float = 0.01, scale: bool = True) -> None: ...

class SparCML(Scheme):
    def __init__(self, *, keep: float = 0.01, algorithm: str = "recursive_doubling") -> None: ...

class THC(Scheme):
    def __init__(
        self,
        *,
        bits: int = 4,
        granularity: int = 30,
        table: str = "optimal",
        clamp: float = 2.1538746940614573,
        grid: int = 0,
        rotation: int | str = "full",
        signs: str = "step",
        correlated: bool = False,
    ) -> None: ...

class TopK(Scheme):
    def __init__(self, *, keep: float = 0.01, index: int | Literal["packed"] = 32) -> None: ...

class ZeroBlocks(Scheme):
    def __init__(self, *, block: int = 256) -> None: ...
