"""Written by .ci/stubs.py: make stubs."""

from collections.abc import Mapping

from numpy.typing import DTypeLike

from ._arrays.projection import Projection
from ._core import FloatFormat
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
    "LossScaling",
    "CurrentScaling",
    "DelayedScaling",
    "FP8AllReduce",
    "MX",
    "NVFP4",
    "BitCentering",
    "FracTrain",
    "Natural",
    "QSGD",
    "Stochastic",
    "TernGrad",
    "ZipML",
    "Birder",
    "Multipoint",
    "OneBitAdam",
    "Sign",
    "SignVote",
    "Residual",
    "FFTSparse",
    "IntegerAllReduce",
    "PowerSGD",
    "RandomK",
    "THC",
    "TopK",
    "ZeroBlocks",
]

class Unscaled(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class ErrorFeedback(Scheme):
    def __init__(self, scheme: Scheme | str, *, decay: float | str = 1) -> None: ...

class Hybrid(Scheme):
    def __init__(self, branches: Mapping[str, Scheme | str]) -> None: ...

class APS(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        headroom: str | float | FloatFormat = "workers",
        rule: str | float | FloatFormat = "ceil",
        unit: str | float | FloatFormat = "tensor",
        frozen: float | str = 0,
        delay: float | str = 0,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class CPD(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        aps: bool = True,
        kahan: bool = False,
        input_cast: str | float | FloatFormat = "as_aps",
    ) -> None: ...

class AdaptiveLossScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        distribution: str | float | FloatFormat = "lognormal",
        target: float | str = 0.001,
        u_min: str | float | FloatFormat = "format",
        u_max: str | float | FloatFormat = "format",
        upper: float | str = 16,
        interval: float | str = 1,
        headroom: str | float | FloatFormat = "workers",
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class DeepSpeedLossScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        init: str | float | FloatFormat = "auto",
        factor: float | str = 2,
        window: float | str = 1000,
        hysteresis: float | str = 2,
        consecutive_hysteresis: bool = False,
        min_scale: float | str = 1,
        at_minimum: str | float | FloatFormat = "stop",
        version: float | str = 2025,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class DynamicLossScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        init: str | float | FloatFormat = "auto",
        growth: float | str = 2,
        backoff: float | str = 0.5,
        growth_interval: float | str = 2000,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class EnhancedLossScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        init: str | float | FloatFormat = "auto",
        growth: float | str = 2,
        backoff: float | str = 0.5,
        growth_interval: float | str = 2000,
        minimum: str | float | FloatFormat = "0:1024",
        projection: Projection | None = None,
        rounding: str = "stochastic",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class HFP8(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        scale: float | str = 1024,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "dlfloat16",
        hop_rounding: str = "same",
    ) -> None: ...

class LossScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        scale: float | str = 1024,
        headroom: str | float | FloatFormat = "workers",
        rule: str | float | FloatFormat = "ceil",
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "ieee",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class CurrentScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        pow2: bool = False,
        agree: str | float | FloatFormat = "max",
        block: float | str = 0,
        eps: float | str = 0,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "saturate",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "fp32",
        hop_rounding: str = "same",
    ) -> None: ...

class DelayedScaling(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        history: float | str = 1024,
        algo: str | float | FloatFormat = "max",
        margin: float | str = 0,
        zero: str | float | FloatFormat = "enter",
        nonfinite: str | float | FloatFormat = "infinity",
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "saturate",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "fp32",
        hop_rounding: str = "same",
    ) -> None: ...

class FP8AllReduce(Scheme):
    def __init__(
        self,
        format: FloatFormat | str | DTypeLike,
        *,
        headroom: str | float | FloatFormat = "sqrt_workers",
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        overflow: str = "saturate",
        random_bits: float | str = 32,
        accumulate: str | float | FloatFormat = "format",
        hop_rounding: str = "same",
    ) -> None: ...

class MX(Scheme):
    def __init__(
        self,
        *,
        block_format: str | float | FloatFormat = "mxfp8_e4m3",
        block: float | str = 0,
        rule: str | float | FloatFormat = "format",
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        random_bits: float | str = 32,
    ) -> None: ...

class NVFP4(Scheme):
    def __init__(
        self,
        *,
        projection: Projection | None = None,
        rounding: str = "stochastic",
        rht: bool = True,
        four_over_six: bool = False,
        agree: str | float | FloatFormat = "max",
        random_bits: float | str = 32,
    ) -> None: ...

class BitCentering(Scheme):
    def __init__(
        self,
        *,
        bits: float | str = 8,
        mu: float | str = 0.1,
        period: float | str = 10,
        random_bits: float | str = 32,
    ) -> None: ...

class FracTrain(Scheme):
    def __init__(
        self,
        *,
        bits: str | float | FloatFormat = "6/6/8/8",
        epsilon: float | str = 0.05,
        alpha: float | str = 0.3,
        least_scale: float | str = 1e-08,
        random_bits: float | str = 32,
    ) -> None: ...

class Natural(Scheme):
    def __init__(self, *, random_bits: float | str = 32) -> None: ...

class QSGD(Scheme):
    def __init__(
        self,
        *,
        levels: float | str = 7,
        bucket: float | str = 512,
        random_bits: float | str = 32,
        norm: str | float | FloatFormat = "l2",
        code: str | float | FloatFormat = "fixed",
    ) -> None: ...

class Stochastic(Scheme):
    def __init__(self, format: FloatFormat | str | DTypeLike, *, random_bits: float | str = 32, overflow: str = "ieee") -> None: ...

class TernGrad(Scheme):
    def __init__(self, *, clip: float | str = 2.5, random_bits: float | str = 32) -> None: ...

class ZipML(Scheme):
    def __init__(
        self,
        *,
        levels: float | str = 16,
        bucket: float | str = 0,
        method: str | float | FloatFormat = "candidates",
        candidates: float | str = 512,
        random_bits: float | str = 32,
    ) -> None: ...

class Birder(Scheme):
    def __init__(self, *, beta: float | str = 0.9, amsgrad: bool = False, group: float | str = 1) -> None: ...

class Multipoint(Scheme):
    def __init__(
        self,
        *,
        bits: float | str = 4,
        points: float | str = 2,
        nmse: float | str = 0,
        search: float | str = 16,
        zero: bool = True,
    ) -> None: ...

class OneBitAdam(Scheme):
    def __init__(self, *, beta1: float | str = 0.9, warmup: float | str = 0, warmup_format: str | float | FloatFormat = "fp32") -> None: ...

class Sign(Scheme):
    def __init__(self, *, scale: str | float | FloatFormat = "l1", padding: str | float | FloatFormat = "none") -> None: ...

class SignVote(Scheme):
    def __init__(self, *, momentum: float | str = 0, tie: str | float | FloatFormat = "plus") -> None: ...

class Residual(Scheme):
    def __init__(self, scheme: Scheme | str, *, points: float | str = 2, nmse: float | str = 0) -> None: ...

class FFTSparse(Scheme):
    def __init__(self, *, keep: float | str = 0.15, bits: float | str = 8, mantissa: float | str = 3, bucket: float | str = 0) -> None: ...

class IntegerAllReduce(Scheme):
    def __init__(
        self,
        *,
        bits: float | str = 32,
        chunk: float | str = 256,
        projection: Projection | None = None,
        rounding: str = "ties_to_even",
        scale: str | float | FloatFormat = "power_of_two",
        random_bits: float | str = 32,
    ) -> None: ...

class PowerSGD(Scheme):
    def __init__(self, *, rank: float | str = 2) -> None: ...

class RandomK(Scheme):
    def __init__(self, *, keep: float | str = 0.01, scale: bool = True) -> None: ...

class THC(Scheme):
    def __init__(self, *, bits: float | str = 4, granularity: float | str = 30) -> None: ...

class TopK(Scheme):
    def __init__(self, *, keep: float | str = 0.01, index: float | str = 32) -> None: ...

class ZeroBlocks(Scheme):
    def __init__(self, *, block: float | str = 256) -> None: ...
