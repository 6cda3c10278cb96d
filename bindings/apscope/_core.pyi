"""
apscope's C++ core; use the apscope package.
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import os
import pathlib
import typing
__all__: list[str] = ['AFTER_GAP', 'BlockFormat', 'COLUMNS', 'ChosenRows', 'FileInfo', 'FloatEnvironment', 'FloatFormat', 'LEAST_OBSERVATIONS', 'LIMITS', 'Manifest', 'NOT_MEASURABLE', 'NoiseTable', 'OPTIMIZERS', 'OWN_REDUCTIONS', 'Pairing', 'Projection', 'Quantizer', 'ReplayOptions', 'RowTable', 'SUMMARY_FIGURES', 'SafetensorsFile', 'StepExchange', 'StepInfo', 'TensorInfo', 'Trace', 'TrainingStep', 'WINDOW_LENGTHS', 'WindowTable', 'agreed_bits', 'all_schemes', 'allreduce', 'arithmetic', 'arithmetic_path', 'bench', 'best_simd_level', 'bias_of_log_variance', 'block_squares', 'blur_widths', 'blurred_entropies', 'canonical_topology', 'cast_plan', 'cast_statistics', 'check_memory', 'check_shard', 'collective_cost', 'collective_seconds', 'cpd_cast', 'cpd_exponent', 'cpd_gemm', 'decode', 'decode_blocks', 'encode', 'encode_blocks', 'exchange', 'fixed_exp2', 'fixed_log2', 'fsdp_divisors', 'guess_role', 'headline_topology', 'is_one_number', 'is_order', 'is_own_reduction', 'known_links', 'log_bias', 'losses_of_sums', 'machine_memory', 'main_schemes', 'make_scheme', 'matrix_unit_order', 'matrix_units', 'named_block_formats', 'named_formats', 'named_side', 'narrow', 'numerically_zero', 'optimal_levels', 'optimizer_told', 'ordered_dot', 'ordered_matmul', 'ordered_sum', 'orders', 'overflow_modes', 'pack', 'packed_size', 'parse_scheme', 'parse_topology', 'part_seconds', 'quantize', 'quantize_blocks', 'quantize_scaled', 'rate_limit', 'read_statistics', 'replay', 'require_matrix_unit', 'rounding_modes', 'rounding_word', 'scheme_definitions', 'set_share_of_a_thread', 'set_simd_level', 'simd_level', 'steps_between', 'steps_numbered', 'stream_seed', 'student_t', 'sum_path', 'tensors_matching', 'topologies', 'underflow_modes', 'unpack', 'usable_processors', 'widen', 'work_costs']
class FloatEnvironment:
    def __enter__(self) -> None:
        ...
    def __exit__(self, *args) -> None:
        ...
    def __init__(self) -> None:
        ...
class FloatFormat:
    """
    A floating-point number system as a value.

    FloatFormat("e4m3fn") reads a name: a row of `apscope formats`, an alias, a P3109 name such as
    binary8p3se, or a format of your own in the words that names are printed in,
    e<E>m<M>[fn|fnuz|finite][u][b<bias>][nosub|sub<exponent>][zero1|zero0][nan<codes>|nannz][inf|noinf][eventies],
    in this order: the words from `fn` to `b` are specials, is_signed=False and bias, the others the fields
    below. OCP's e3m2fn, e2m3fn and e2m1fn have no NaN, but before other words fn means one NaN: e3m2fnb4
    has one, e3m2finiteb4 none; e3m2fnb3, with the usual bias, is refused.
    FloatFormat(exponent_bits=4, mantissa_bits=3, ...) takes the fields; those left out follow from
    `specials`. FloatFormat(dtype) is the format of a floating-point dtype of NumPy, ml_dtypes or torch.

    Parameters
    ----------
    exponent_bits : int, 0 to 11
    mantissa_bits : int, 0 to 52
        Stored significand bits: the precision less one.
    bias : int, optional
        Value = 2^(field - bias) (1 + fraction).
    specials : str
        ieee (infinities and NaNs in the top exponent field), fn (the top code is NaN, no infinity),
        fnuz (NaN at the code of -0, one zero), finite, e8m0, p3109, p3109_finite.
    is_signed : bool
    subnormals : bool, optional
        False: exponent field 0 is an ordinary binade.
    subnormal_exponent : int, optional
        1 - bias, or -bias.
    zero : str, optional
        both_signs, single or none.
    nan_codes : int, optional
        Codes per sign, from the top, that are NaN.
    has_infinity : bool, optional
        Whether the code below the NaNs is an infinity. False needs specials "fn" or "finite", or
        nan_codes: beside "ieee" it would turn that one code into a number and leave the rest of its
        binade NaN.
    nan_at_negative_zero, even_code_ties : bool, optional

    Raises
    ------
    ValueError
        An unknown or ambiguous name; fields that contradict each other; a format with values that fp64
        does not hold.
    TypeError
        Neither a name nor a floating-point dtype; fields that there are not, of a wrong kind, or beside a name.

    Notes
    -----
    Immutable, hashable, equal by its fields; str() gives the shortest name that reads back the same,
    to_json() and from_json() the fields.
    """
    @staticmethod
    def from_json(text: str) -> typing.Any:
        """
        The format of a text that `to_json` made.
        """
    def __eq__(self, arg0: FloatFormat) -> bool:
        ...
    def __getstate__(self) -> str:
        ...
    def __hash__(self) -> int:
        ...
    @typing.overload
    def __init__(self, name: str) -> None:
        ...
    @typing.overload
    def __init__(self, *, exponent_bits: typing.SupportsInt | typing.SupportsIndex, mantissa_bits: typing.SupportsInt | typing.SupportsIndex, bias: typing.SupportsInt | typing.SupportsIndex | None = None, specials: str = 'ieee', is_signed: bool = True, subnormals: bool | None = None, subnormal_exponent: typing.SupportsInt | typing.SupportsIndex | None = None, zero: str | None = None, nan_codes: typing.SupportsInt | typing.SupportsIndex | None = None, has_infinity: bool | None = None, nan_at_negative_zero: bool | None = None, even_code_ties: bool | None = None) -> None:
        ...
    @typing.overload
    def __init__(self, dtype: typing.Any) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def __setstate__(self, arg0: str) -> None:
        ...
    def __str__(self) -> str:
        ...
    def _repr_html_(self) -> str:
        """
        The format's ranges as a picture, in notebooks.
        """
    def to_dict(self) -> dict:
        """
        The fields by name, as ``FloatFormat(**fields)`` takes them.
        """
    def to_json(self) -> str:
        """
        `to_dict` as text, which `from_json` reads.
        """
    @property
    def bias(self) -> int:
        """
        A normal value is 2^(field - bias) (1 + fraction).
        """
    @property
    def emax(self) -> int:
        """
        Exponent of the largest finite value, floor(log2(largest)).
        """
    @property
    def emin(self) -> int:
        """
        Exponent of the smallest normal value, 1 - bias, or -bias without subnormals; floor(log2(smallest_normal)) if there is one.
        """
    @property
    def even_code_ties(self) -> bool:
        """
        Only for precision 1: ties go to the even code (P3109), not to the larger magnitude (IEEE 754).
        """
    @property
    def exponent_bits(self) -> int:
        """
        Width of the exponent field in bits, 0 to 11. 0: no such field, all values in one binade of subnormals.
        """
    @property
    def fits_fp32(self) -> bool:
        """
        Whether every finite value is an fp32 number: arrays of such a format are float32, of others float64.
        """
    @property
    def has_infinity(self) -> bool:
        """
        Whether the code below the NaNs, or the top one, is an infinity, one of each sign.
        """
    @property
    def has_nan(self) -> bool:
        """
        Whether any code is a NaN.
        """
    @property
    def infinity_code(self) -> int:
        """
        The code of +infinity. ValueError in a format without infinity.
        """
    @property
    def is_signed(self) -> bool:
        """
        Whether there is a sign bit above the exponent field.
        """
    @property
    def largest(self) -> float:
        """
        The largest finite value.
        """
    @property
    def mantissa_bits(self) -> int:
        """
        Stored significand bits, 0 to 52: `precision` less one.
        """
    @property
    def name(self) -> str:
        """
        The shortest name that reads back the same, as ``apscope formats`` writes it; also ``str()`` of the format.
        """
    @property
    def nan_at_negative_zero(self) -> bool:
        """
        Whether the code of -0 is the NaN, as in fnuz and P3109 formats.
        """
    @property
    def nan_code(self) -> int:
        """
        The code of the canonical NaN, with sign bit 0 except if the NaN is at -0. ValueError in a format without NaN.
        """
    @property
    def nan_codes(self) -> int:
        """
        How many codes of each sign, from the top, are NaN. The one at the code of -0 is not counted.
        """
    @property
    def precision(self) -> int:
        """
        Significant bits of a normal value, including the hidden one.
        """
    @property
    def smallest_normal(self) -> float:
        """
        The smallest positive normal value; 0 in a format that has only subnormal values.
        """
    @property
    def smallest_positive(self) -> float:
        """
        The smallest positive value: a subnormal one if the format has any.
        """
    @property
    def storage_bits(self) -> int:
        """
        Width of a code in bits: sign, exponent field and stored significand.
        """
    @property
    def subnormal_exponent(self) -> int:
        """
        Exponent of field 0, whose values are 2^subnormal_exponent times the fraction: 1 - bias, or -bias.
        """
    @property
    def subnormals(self) -> bool:
        """
        Whether exponent field 0 holds zero and subnormal values; False: it is an ordinary binade.
        """
    @property
    def zero(self) -> str:
        """
        Which codes are zero: both_signs (+0 and -0), single (+0 alone) or none (code 0 is an ordinary value, as in e8m0).
        """
class Projection:
    def __init__(self, rounding: str, overflow: str, underflow: str, keep_payload: bool, random_bits: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def keep_payload(self) -> bool:
        ...
    @property
    def overflow(self) -> str:
        ...
    @property
    def random_bits(self) -> int:
        ...
    @property
    def rounding(self) -> str:
        ...
    @property
    def underflow(self) -> str:
        ...
class Quantizer:
    def __call__(self, x: typing.Any, out: typing.Any, seed: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        ...
    def __init__(self, format: FloatFormat, projection: Projection, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class BlockFormat:
    """
    Elements that share a scale, as a value.

    `name`: mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4, mxint8, nvfp4, bfp:<bits>:<block> or
    blocks:<element>, each followed by any of ,scale=<format> ,block=<size> ,rule=<rule>
    ,nonfinite=<rule> ,tensor. Or the fields by keyword: `element` and `scale` (formats of at most 8 bits),
    `block_size`, `rule` (floor, ceil, rceil, even, nearest: powers of two; ratio: amax over the largest
    element), `twos_complement` (element codes are two's complement integers), `tensor_scale` (one float32
    scale more for the whole array), `nonfinite` (what an infinity or a NaN does to its block: apart,
    torchao, torchao_0.18 or transformer_engine; docs/definitions.md, section 11).
    """
    @staticmethod
    def from_json(text: str) -> BlockFormat:
        """
        The block format of a text that `to_json` made.
        """
    def __eq__(self, arg0: BlockFormat) -> bool:
        ...
    def __getstate__(self) -> str:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, *given: typing.Any, **fields: typing.Any) -> None:
        """
        __init__(*args, **kwargs)
        Overloaded function.

        1. __init__(self: apscope._core.BlockFormat, name: str) -> None

        2. __init__(self: apscope._core.BlockFormat, name: object) -> None

        3. __init__(self: apscope._core.BlockFormat, *, element: apscope._core.FloatFormat, scale: apscope._core.FloatFormat, block_size: typing.SupportsInt | typing.SupportsIndex = 32, rule: str = 'floor', twos_complement: bool = False, tensor_scale: bool = False, nonfinite: str = 'apart') -> None
        """
    def __repr__(self) -> str:
        ...
    def __setstate__(self, arg0: str) -> None:
        ...
    def __str__(self) -> str:
        ...
    def to_dict(self) -> dict:
        """
        The fields by name, the formats as names.
        """
    def to_json(self) -> str:
        """
        `to_dict` as text, which `from_json` reads.
        """
    @property
    def bits_per_element(self) -> float:
        """
        Bits of storage per element: its code and its share of the scale of a whole block, without the tensor scale.
        """
    @property
    def block_size(self) -> int:
        """
        Elements that share a scale; the last block of a line may be shorter.
        """
    @property
    def element(self) -> FloatFormat:
        """
        The format of the elements, at most 8 bits.
        """
    @property
    def name(self) -> str:
        """
        The shortest name that reads back the same; also ``str()`` of the format.
        """
    @property
    def nonfinite(self) -> str:
        """
        What an infinity or a NaN does to its block: apart, torchao, torchao_0.18 or transformer_engine.
        """
    @property
    def rule(self) -> str:
        """
        How a scale is computed from the largest magnitude of its block: floor, ceil, rceil, even, nearest or ratio.
        """
    @property
    def scale(self) -> FloatFormat:
        """
        The format of the scales, at most 8 bits.
        """
    @property
    def tensor_scale(self) -> bool:
        """
        Whether the whole array has an additional float32 scale.
        """
    @property
    def twos_complement(self) -> bool:
        """
        Whether element codes are two's complement integers, not sign and magnitude.
        """
class SafetensorsFile:
    @staticmethod
    def open(path: os.PathLike | str | bytes) -> SafetensorsFile:
        ...
    def bytes(self, name: str) -> bytes:
        ...
    def dtype(self, name: str) -> str:
        ...
    def read(self, name: str) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
        ...
    def shape(self, name: str) -> tuple:
        ...
    @property
    def metadata(self) -> dict[str, str]:
        ...
    @property
    def names(self) -> list[str]:
        ...
class TensorInfo:
    def __repr__(self) -> str:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def role(self) -> str:
        ...
    @property
    def sampled_from(self) -> int | None:
        ...
    @property
    def shape(self) -> tuple:
        ...
    @property
    def size(self) -> int:
        ...
class FileInfo:
    @property
    def bytes(self) -> int:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def sha256(self) -> str:
        ...
class StepInfo:
    def __repr__(self) -> str:
        ...
    @property
    def files(self) -> list[FileInfo]:
        ...
    @property
    def learning_rate(self) -> float | None:
        ...
    @property
    def loss(self) -> float | None:
        ...
    @property
    def loss_scale(self) -> float | None:
        ...
    @property
    def number(self) -> int:
        ...
class Manifest:
    @property
    def loss_divided_by_workers(self) -> bool:
        ...
    @property
    def metadata(self) -> dict[str, str]:
        ...
    @property
    def model(self) -> str:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def reduction(self) -> str:
        ...
    @property
    def schema_version(self) -> int:
        ...
    @property
    def stage(self) -> str:
        ...
    @property
    def steps(self) -> list[StepInfo]:
        ...
    @property
    def tensors(self) -> list[TensorInfo]:
        ...
    @property
    def workers(self) -> int:
        ...
class Trace:
    @staticmethod
    def open(path: os.PathLike | str | bytes, arriving: bool = False) -> Trace:
        ...
    def check_unchanged(self) -> None:
        ...
    def has(self, step_index: typing.SupportsInt | typing.SupportsIndex, kind: str) -> bool:
        ...
    def names(self, step_index: typing.SupportsInt | typing.SupportsIndex, kind: str) -> list[str]:
        ...
    def read(self, step: typing.SupportsInt | typing.SupportsIndex, name: str, worker: typing.SupportsInt | typing.SupportsIndex, kind: str = 'gradient') -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
        ...
    @property
    def manifest(self) -> Manifest:
        ...
    @property
    def manifest_bytes(self) -> bytes:
        ...
    @property
    def path(self) -> pathlib.Path:
        ...
class TrainingStep:
    def __init__(self, tensor: str, role: str, shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], number: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex, loss: typing.SupportsFloat | typing.SupportsIndex, learning_rate: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    def random(self, worker: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, bits: typing.SupportsInt | typing.SupportsIndex = 32, hop: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.uint64]:
        """
        Random integers of `bits` bits for the elements 0..count-1 of a worker, the same for every call.
        """
    @property
    def index(self) -> int:
        ...
    @property
    def learning_rate(self) -> float:
        ...
    @property
    def loss(self) -> float:
        ...
    @property
    def number(self) -> int:
        ...
    @property
    def role(self) -> str:
        ...
    @property
    def senders(self) -> int:
        ...
    @property
    def shape(self) -> list[int]:
        ...
    @property
    def tensor(self) -> str:
        ...
    @property
    def workers(self) -> int:
        ...
class StepExchange:
    """
    The gradients of all tensors of one step through a scheme.
    """
    def __init__(self, spec: str, names: collections.abc.Sequence[str], roles: collections.abc.Sequence[str], shapes: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]], workers: typing.SupportsInt | typing.SupportsIndex, topology: str, seed: typing.SupportsInt | typing.SupportsIndex, divide: bool) -> None:
        ...
    def choose(self, number: typing.SupportsInt | typing.SupportsIndex, amax: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex], nonfinite: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list:
        """
        The reductions of a step from the tensors' statistics; the memory advances.
        """
    def choose_in_phases(self, phase: typing.SupportsInt | typing.SupportsIndex, number: typing.SupportsInt | typing.SupportsIndex, amax: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]], nonfinite: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]) -> list:
        """
        The encodings of a phase of a step from the statistics of every tensor's rows.
        """
    def run(self, number: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex, gradients: list[numpy.typing.NDArray[numpy.float32]], out: list[numpy.typing.NDArray[numpy.float32]], weights: list[numpy.typing.NDArray[numpy.float32]], loss: typing.SupportsFloat | typing.SupportsIndex | None, learning_rate: typing.SupportsFloat | typing.SupportsIndex | None, threads: typing.SupportsInt | typing.SupportsIndex) -> list[bool]:
        """
        Fills `out`; returns whether the scheme dropped each tensor's step.
        """
    def set_state(self, state: dict) -> None:
        ...
    def state(self) -> dict:
        """
        The scheme's memory: arrays by name, by scheme and tensor.
        """
    @property
    def chooses_from_amax(self) -> bool:
        ...
    @property
    def chooses_in_phases(self) -> bool:
        ...
    @property
    def needs(self) -> list[str]:
        ...
class ReplayOptions:
    def __init__(self, schemes: collections.abc.Sequence[str], topologies: collections.abc.Sequence[str], steps: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], tensors: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], workers: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex = 0, shard: typing.SupportsInt | typing.SupportsIndex = 0, shards: typing.SupportsInt | typing.SupportsIndex = 1, draws: typing.SupportsInt | typing.SupportsIndex = 1, threads: typing.SupportsInt | typing.SupportsIndex = 0, memory: typing.SupportsInt | typing.SupportsIndex = 0, persistence: bool = False) -> None:
        ...
class NoiseTable:
    """
    The table of noise: docs/definitions.md, section 16.
    """
    def __init__(self, columns: dict, without: typing.Annotated[numpy.typing.ArrayLike, numpy.int64]) -> None:
        """
        `without`: -1 in rows of all workers.
        """
    def facts(self, by: collections.abc.Sequence[str], batch_factor: typing.SupportsFloat | typing.SupportsIndex) -> tuple[numpy.ndarray[typing.Any, numpy.dtype[typing.Any]], dict]:
        ...
    def pooled_interval(self, ratio_of_step: collections.abc.Sequence[tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex]]) -> tuple:
        ...
    def typical_interval(self) -> tuple:
        ...
class WindowTable:
    """
    The table of persistence: docs/definitions.md, section 16.
    """
    def __init__(self, columns: dict, optimizers: collections.abc.Mapping[str, str]) -> None:
        ...
class ChosenRows:
    """
    Rows of a table, and the topology of each.
    """
    def __len__(self) -> int:
        ...
    @property
    def row(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
        ...
    @property
    def topologies(self) -> list[str]:
        ...
    @property
    def topology(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
        ...
class RowTable:
    """
    Columns of a table of results: codes of texts, and numbers.
    """
    def __init__(self, texts: dict, step: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], wire: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], skipped: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], numbers: dict) -> None:
        ...
    def all_rows(self) -> ChosenRows:
        ...
    def by(self, part: str, topology: str | None, batch_factor: typing.SupportsFloat | typing.SupportsIndex, noise: NoiseTable, windows: WindowTable, optimizer: str | None = None) -> dict:
        ...
    def compared_rows(self) -> ChosenRows:
        ...
    def headline_rows(self) -> ChosenRows:
        ...
    def is_replaced(self, rows: ChosenRows) -> bool:
        """
        Whether a row counts for another topology than its own.
        """
    def losses(self) -> dict:
        ...
    def nonfinite_places(self) -> tuple[int, int]:
        """
        Numbers of layers and steps with gradients that are NaN or infinite, and of all.
        """
    def pool(self, rows: ChosenRows, by: list) -> tuple:
        ...
    def pooled_rows(self, by_stage: bool, by_topology: bool) -> ChosenRows:
        ...
    def rows_of_zero_layers(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
        """
        Which rows belong to a layer whose gradients are numerically zero.
        """
    def step_time(self, network: dict, elements: typing.SupportsFloat | typing.SupportsIndex | None, bucket_bytes: typing.SupportsFloat | typing.SupportsIndex | None, side: str, side_collective: str, baseline: str, not_measurable: str) -> dict:
        ...
    def summary(self, rows: ChosenRows, batch_factor: typing.SupportsFloat | typing.SupportsIndex, noise: NoiseTable, windows: WindowTable, by: str | None = None, optimizer: str | None = None) -> dict:
        ...
    def whole_sums(self) -> ChosenRows:
        ...
class Pairing:
    """
    Compares schemes of one table, or of two.
    """
    def __init__(self, first: RowTable, second: RowTable) -> None:
        ...
    def against(self, topology: str | None) -> list:
        ...
    def cells(self, a: tuple[str, str | None], b: tuple[str, str | None], topology: str | None) -> list:
        ...
    def compare(self, a: tuple[str, str | None], b: tuple[str, str | None], topology: str | None, layers: bool) -> list:
        ...
    def steps(self, a: tuple[str, str | None], b: tuple[str, str | None], topology: str | None) -> list:
        ...
def agreed_bits(scheme: str, grid: str, topology: str) -> int:
    """
    How many of a message's side bits are agreed before it is made; the others travel with it.
    """
def all_schemes() -> list[str]:
    ...
def allreduce(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, topology: str, accumulate: FloatFormat | None, hop_rounding: str | None, input_cast: bool, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def arithmetic(operation: str, a: numpy.typing.NDArray[numpy.float32], b: numpy.typing.NDArray[numpy.float32], c: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def arithmetic(operation: str, a: numpy.typing.NDArray[numpy.float64], b: numpy.typing.NDArray[numpy.float64], c: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def arithmetic_path(operation: str, format: FloatFormat, projection: Projection, narrow: bool) -> str:
    ...
def bench(l2_elements: typing.SupportsInt | typing.SupportsIndex, dram_elements: typing.SupportsInt | typing.SupportsIndex, matrix: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex, rounds: typing.SupportsInt | typing.SupportsIndex, visit_seconds: typing.SupportsFloat | typing.SupportsIndex, only: str, progress: typing.Any) -> list:
    ...
def best_simd_level() -> str:
    ...
def bias_of_log_variance(change: typing.SupportsFloat | typing.SupportsIndex, workers: typing.SupportsInt | typing.SupportsIndex) -> float:
    ...
def block_squares(x: numpy.typing.NDArray[numpy.float64], block: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.float64]:
    ...
def blur_widths() -> numpy.typing.NDArray[numpy.float64]:
    ...
def blurred_entropies(values: numpy.typing.NDArray[numpy.float64], widths: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.float64]:
    ...
def canonical_topology(text: str) -> str:
    ...
def cast_plan(format: FloatFormat, projection: Projection, in_float64: bool) -> typing.Annotated[list[str], "FixedSize(3)"]:
    ...
def cast_statistics(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float32] | None, format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> dict:
    ...
def check_memory(trace: Trace, options: ReplayOptions) -> None:
    ...
def check_shard(shard: typing.SupportsInt | typing.SupportsIndex, shards: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def collective_cost(collective: str, sent: typing.SupportsFloat | typing.SupportsIndex, partial: typing.SupportsFloat | typing.SupportsIndex, result: typing.SupportsFloat | typing.SupportsIndex, workers: typing.SupportsInt | typing.SupportsIndex, group: typing.SupportsInt | typing.SupportsIndex | None, nodes: typing.SupportsInt | typing.SupportsIndex | None) -> dict:
    """
    The work of one worker for one message per worker: messages sent one after another, and bytes sent, added and decoded.
    """
def collective_seconds(stages: collections.abc.Sequence[tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex]], messages: typing.SupportsFloat | typing.SupportsIndex, intra_messages: typing.SupportsFloat | typing.SupportsIndex, added: typing.SupportsFloat | typing.SupportsIndex, workers_of_node: typing.SupportsInt | typing.SupportsIndex, network: dict) -> float:
    ...
def cpd_cast(x: numpy.typing.NDArray[numpy.float32], exponent_bits: typing.SupportsInt | typing.SupportsIndex, mantissa_bits: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.float32]:
    ...
def cpd_exponent(x: typing.SupportsFloat | typing.SupportsIndex) -> float:
    ...
def cpd_gemm(a: numpy.typing.NDArray[numpy.float32], b: numpy.typing.NDArray[numpy.float32], exponent_bits: typing.SupportsInt | typing.SupportsIndex, mantissa_bits: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.float32]:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint8], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint16], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint32], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint8], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint16], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint32], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def decode(codes: numpy.typing.NDArray[numpy.uint64], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, keep_payload: bool, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def decode_blocks(codes: numpy.typing.NDArray[numpy.uint8], scales: numpy.typing.NDArray[numpy.uint8], tensor_scale: typing.SupportsFloat | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float32], shape: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], format: BlockFormat, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.uint8], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.uint16], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.uint32], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint8], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint16], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint32], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint64], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, nan: typing.SupportsInt | typing.SupportsIndex | None) -> None:
    ...
@typing.overload
def encode_blocks(x: numpy.typing.NDArray[numpy.float32], codes: numpy.typing.NDArray[numpy.uint8], scales: numpy.typing.NDArray[numpy.uint8], shape: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], format: BlockFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> float:
    ...
@typing.overload
def encode_blocks(x: numpy.typing.NDArray[numpy.float64], codes: numpy.typing.NDArray[numpy.uint8], scales: numpy.typing.NDArray[numpy.uint8], shape: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], format: BlockFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> float:
    ...
def exchange(scheme: str, x: typing.Annotated[numpy.typing.ArrayLike, numpy.float32], step: TrainingStep, state: dict, topology: str, weights: typing.Any, full_batch: typing.Any) -> dict:
    ...
def fixed_exp2(x: typing.SupportsFloat | typing.SupportsIndex) -> float:
    """
    2^x, by a fixed sequence of IEEE operations.
    """
def fixed_log2(x: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
    """
    log2 of positive finite numbers, by a fixed sequence of IEEE operations.
    """
def fsdp_divisors(workers: typing.SupportsInt | typing.SupportsIndex) -> tuple[float, float]:
    """
    FSDP2's divisors before and after an fp16 reduction.
    """
def guess_role(name: str, dimensions: typing.SupportsInt | typing.SupportsIndex) -> str:
    ...
def headline_topology(in_order: collections.abc.Sequence[str]) -> str:
    ...
def is_one_number(bits: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], codes: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], count: typing.SupportsInt | typing.SupportsIndex) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
    """
    Which groups' side information is one number per tensor, of any size.
    """
def is_order(topology: str) -> bool:
    """
    Whether a reduction sends what is summed exactly: two phases and hierarchies of levels send other messages.
    """
def is_own_reduction(topology: str) -> bool:
    ...
def known_links() -> dict:
    """
    Links of known hardware, by name.
    """
def log_bias(freedom: typing.SupportsFloat | typing.SupportsIndex) -> float:
    ...
def losses_of_sums(error: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], reference: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], overflow: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> tuple:
    ...
def machine_memory() -> int:
    """
    Bytes of memory: the least of those of this machine, of its control group and of its address limit.
    """
def main_schemes() -> list[str]:
    ...
def make_scheme(name: str, base: str, parts: dict, keeps_state: bool | None, compares_intended: bool, bits: typing.SupportsInt | typing.SupportsIndex, side_bits: typing.SupportsInt | typing.SupportsIndex, grid: str) -> None:
    ...
def matrix_unit_order(order: str) -> tuple[str, int, list[str], int, str]:
    ...
def matrix_units() -> list:
    ...
def named_block_formats() -> list:
    ...
def named_formats() -> list:
    ...
def named_side(text: str) -> tuple[str, str | None]:
    """
    SPEC@REDUCTION as the spec and the reduction; None without one.
    """
def narrow(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.float32]) -> None:
    ...
def numerically_zero(reference: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], noise: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], elements: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], layer: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], step: typing.Annotated[numpy.typing.ArrayLike, numpy.int64]) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]:
    """
    Which layers of one trace, numbered from 0, are numerically zero, from sums per step.
    """
def optimal_levels(x: numpy.typing.NDArray[numpy.float32], k: typing.SupportsInt | typing.SupportsIndex, method: str, candidates: typing.SupportsInt | typing.SupportsIndex) -> tuple[numpy.typing.NDArray[numpy.float64], float]:
    ...
def optimizer_told(text: str) -> str | None:
    """
    Of a trace's metadata: the name of a known optimizer, or None.
    """
@typing.overload
def ordered_dot(a: numpy.typing.NDArray[numpy.float32], b: numpy.typing.NDArray[numpy.float32], batches: typing.SupportsInt | typing.SupportsIndex, size: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, order: str, accumulate: FloatFormat | None, product: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex, c: numpy.typing.NDArray[numpy.float32], a_scales: numpy.typing.NDArray[numpy.float32] = ..., b_scales: numpy.typing.NDArray[numpy.float32] = ...) -> None:
    ...
@typing.overload
def ordered_dot(a: numpy.typing.NDArray[numpy.float64], b: numpy.typing.NDArray[numpy.float64], batches: typing.SupportsInt | typing.SupportsIndex, size: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, order: str, accumulate: FloatFormat | None, product: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex, c: numpy.typing.NDArray[numpy.float64], a_scales: numpy.typing.NDArray[numpy.float64] = ..., b_scales: numpy.typing.NDArray[numpy.float64] = ...) -> None:
    ...
@typing.overload
def ordered_matmul(a: numpy.typing.NDArray[numpy.float32], b: numpy.typing.NDArray[numpy.float32], batches: typing.SupportsInt | typing.SupportsIndex, size: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, order: str, accumulate: FloatFormat | None, product: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex, c: numpy.typing.NDArray[numpy.float32], a_scales: numpy.typing.NDArray[numpy.float32] = ..., b_scales: numpy.typing.NDArray[numpy.float32] = ...) -> None:
    ...
@typing.overload
def ordered_matmul(a: numpy.typing.NDArray[numpy.float64], b: numpy.typing.NDArray[numpy.float64], batches: typing.SupportsInt | typing.SupportsIndex, size: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, order: str, accumulate: FloatFormat | None, product: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex, c: numpy.typing.NDArray[numpy.float64], a_scales: numpy.typing.NDArray[numpy.float64] = ..., b_scales: numpy.typing.NDArray[numpy.float64] = ...) -> None:
    ...
@typing.overload
def ordered_sum(x: numpy.typing.NDArray[numpy.float32], terms: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, order: str, accumulate: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def ordered_sum(x: numpy.typing.NDArray[numpy.float64], terms: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, order: str, accumulate: FloatFormat | None, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def orders() -> list[str]:
    ...
def overflow_modes() -> list[str]:
    ...
def pack(codes: numpy.typing.NDArray[numpy.uint8], bytes: numpy.typing.NDArray[numpy.uint8], lines: typing.SupportsInt | typing.SupportsIndex, bits: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def packed_size(count: typing.SupportsInt | typing.SupportsIndex, bits: typing.SupportsInt | typing.SupportsIndex) -> int:
    ...
def parse_scheme(spec: str) -> dict:
    ...
def parse_topology(name: str) -> str:
    ...
def part_seconds(parts: collections.abc.Sequence[tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, str, str]], scheme: str, workers: typing.SupportsInt | typing.SupportsIndex, network: dict, side: str, side_collective: str) -> float | None:
    ...
@typing.overload
def quantize(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def quantize(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def quantize_blocks(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float32], shape: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], format: BlockFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def quantize_blocks(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.float64], shape: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], format: BlockFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
@typing.overload
def quantize_scaled(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float32], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, scale: typing.SupportsFloat | typing.SupportsIndex) -> None:
    ...
@typing.overload
def quantize_scaled(x: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.float64], format: FloatFormat, projection: Projection, seed: typing.SupportsInt | typing.SupportsIndex, random: numpy.typing.NDArray[numpy.uint64] | None, threads: typing.SupportsInt | typing.SupportsIndex, scale: typing.SupportsFloat | typing.SupportsIndex) -> None:
    ...
def rate_limit(entropies: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], widths: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], bits: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
    ...
def read_statistics(trace: Trace, options: ReplayOptions, pairs: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], progress: typing.Any = None) -> tuple[numpy.ndarray[typing.Any, numpy.dtype[typing.Any]], dict]:
    ...
def replay(trace: Trace, options: ReplayOptions, rows: collections.abc.Callable, items: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None, statistics: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]] | None = None, states: dict = {}, keep_states: bool = False, progress: typing.Any = None, device: typing.Any = None) -> tuple[dict, dict, dict, dict]:
    ...
def require_matrix_unit(name: str) -> None:
    ...
def rounding_modes() -> list[str]:
    ...
def rounding_word(word: str) -> str:
    """
    The name of a rounding, from any word for it; unknown words are returned unchanged. ValueError for an ambiguous word.
    """
def scheme_definitions() -> list:
    ...
def set_share_of_a_thread(seconds: typing.SupportsFloat | typing.SupportsIndex) -> None:
    """
    The work that must remain of an array for each further thread; 0: threads start at once.
    """
def set_simd_level(level: str) -> None:
    ...
def simd_level() -> str:
    ...
def steps_between(trace: Trace, first: typing.SupportsInt | typing.SupportsIndex | None, end: typing.SupportsInt | typing.SupportsIndex | None) -> list[int]:
    ...
def steps_numbered(trace: Trace, numbers: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list[int]:
    ...
def stream_seed(seed: typing.SupportsInt | typing.SupportsIndex, number: typing.SupportsInt | typing.SupportsIndex) -> int:
    ...
def student_t(freedom: typing.SupportsFloat | typing.SupportsIndex) -> float:
    """
    Student's t at 0.975; NaN below one degree of freedom.
    """
def sum_path(products: bool, format: FloatFormat, order: str, accumulate: FloatFormat | None, product: FloatFormat | None, operands: FloatFormat | None, projection: Projection) -> str:
    ...
def tensors_matching(trace: Trace, pattern: str) -> list[int]:
    ...
def topologies() -> list[str]:
    ...
def underflow_modes() -> list[str]:
    ...
def unpack(bytes: numpy.typing.NDArray[numpy.uint8], codes: numpy.typing.NDArray[numpy.uint8], lines: typing.SupportsInt | typing.SupportsIndex, bits: typing.SupportsInt | typing.SupportsIndex) -> None:
    ...
def usable_processors() -> int:
    ...
def widen(x: numpy.typing.NDArray[numpy.float32], out: numpy.typing.NDArray[numpy.float64]) -> None:
    ...
def work_costs(trace: Trace, options: ReplayOptions) -> list:
    ...
AFTER_GAP: str = 'memory of an earlier step'
COLUMNS: tuple[tuple[str, str, int, str], ...]
LEAST_OBSERVATIONS: int = 4
LIMITS: dict = {'spec_depth': 64, 'spec_length': 1000000, 'pattern_length': 100000, 'pattern_memory': 67108864, 'name_length': 4096, 'json_depth': 64, 'safetensors_header': 100000000, 'manifest_length': 1000000000, 'workers': 1000000, 'quoted': 100}
NOT_MEASURABLE: str = 'not measurable on this trace: needs '
OPTIMIZERS: tuple = ('sgd', 'adam', 'lars')
OWN_REDUCTIONS: tuple = ('gather', 'vote', 'code_sum', 'own:two_phase', 'linear', 'streams', 'own:ring', 'own:butterfly')
SUMMARY_FIGURES: tuple = (('error_over_noise', ('error_over_noise'), '', 16, 'part', "the typical block's squared error divided by the noise of the batch: the geometric mean over blocks of 32 elements, layers and steps. ``inf`` with overflow, NaN if the noise is unknown.", False), ('error_over_noise_corrected', ('error_over_noise_corrected'), '', 16, 'none', "``error_over_noise`` without the bias of the noise's estimate, which is low in the typical block. NaN for fewer than three workers, and for a bare table of rows.", False), ('error_over_noise_low', ('error_over_noise_low'), '', 16, 'none', '', False), ('error_over_noise_high', ('error_over_noise_high'), '', 16, 'none', 'the ends of its 95 % interval, because the noise is estimated from the workers; the error is taken as exact. NaN where ``error_over_noise_corrected`` is.', False), ('pooled_error_over_noise', ('pooled_error_over_noise'), '', 16, 'none', "mean over the steps of the step's squared error divided by its noise.", False), ('pooled_error_over_noise_corrected', ('pooled_error_over_noise_corrected'), '', 16, 'none', '', False), ('pooled_error_over_noise_low', ('pooled_error_over_noise_low'), '', 16, 'none', '', False), ('pooled_error_over_noise_high', ('pooled_error_over_noise_high'), '', 16, 'none', "``pooled_error_over_noise`` without the bias of the noise's estimate, and the ends of its 95 % interval.", False), ('step_nmse', ('step_nmse'), '', 14, 'part', "mean over the steps of the step's NMSE, its squared errors divided by its squared references, all layers: the figure that ranks. A skipped layer counts as y = 0, so that of a skipped step is 1; at least 1 with overflow. Steps with a reference of zero are omitted.", False), ('layer_cosine', ('layer_cosine'), '', 14, 'part', 'mean over layers and steps of the cosine; 0 if skipped, overflowed or all zero. Layers whose gradients are numerically zero are omitted, except by layer.', False), ('gain', ('gain'), '', 14, 'none', "the share of the gradient that arrives: sum of x y over sum of x x, x the reference, y the result, over all layers and steps; y = 0 if skipped, NaN with overflow. SGD's learning rate times this factor.", False), ('gain_low', ('gain_low'), '', 14, 'none', '', False), ('gain_high', ('gain_high'), '', 14, 'none', 'the ends of its 95 % interval over the steps, as independent draws; NaN for fewer than four steps.', False), ('lost_gain', ('lost_gain'), '', 14, 'none', "the mean over the layers of abs(1 - the layer's ``gain`` over all steps): the share of the layers that is lost, where the others keep their gain; 1 for a layer with overflow. Layers whose gradients are 0 are omitted.", False), ('orthogonal_error_over_noise', ('orthogonal_error_over_noise'), '', 14, 'none', 'the squared error without the part along x, in every layer and step, over the noise; ``inf`` with overflow, NaN if the noise is unknown.', False), ('persistence', ('persistence_1', 'persistence_1_low', 'persistence_1_high', 'typical_persistence_1', 'persistence_3', 'persistence_3_low', 'persistence_3_high', 'typical_persistence_3', 'persistence_10', 'persistence_10_low', 'persistence_10_high', 'typical_persistence_10', 'persistence_30', 'persistence_30_low', 'persistence_30_high', 'typical_persistence_30'), '', 16, 'none', 'k = 1, 3, 10, 30: how much of the error stays over k steps: the squares of its sums over windows of k consecutive steps, over the sums of their noise. The same for every k if the error averages out; k times that of one step if it stays. ``..._low``, ``..._high``: the 95 % interval over the windows, NaN for fewer than four; ``typical_...``: the geometric mean over blocks of 32 elements in the place of the sums. NaN without `Results.persistence`, and by step.', False), ('update_loss', ('update_loss_3', 'update_loss_3_low', 'update_loss_3_high', 'update_loss_10', 'update_loss_10_low', 'update_loss_10_high', 'update_loss_30', 'update_loss_30_low', 'update_loss_30_high'), '', 16, 'none', "k = 3, 10, 30: how far the exchange turns what an optimizer does in k steps with the whole model: 1 - the cosine between the sums over k consecutive steps of its updates with the exchange and with exact sums, mean over the windows; 1 for a window with overflow. SGD's update is the gradient, Adam's has every element over the root of its mean square over all steps so far, LARS's every layer over its length. ``..._low``, ``..._high``: the 95 % interval over the windows, NaN for fewer than four. NaN where ``persistence_k`` is, apart from one worker, and without an optimizer.", False), ('worst_nmse', ('worst_nmse'), '', 14, 'part', '', False), ('worst_layer', ('worst_layer'), '', 14, 'part', '', False), ('worst_step', ('worst_step'), '', 14, 'part', 'the largest NMSE of one layer at one step, 1 if skipped, ``inf`` with overflow, and its first occurrence. Layers whose gradients are numerically zero are omitted, except by layer.', False), ('nmse', ('nmse'), '', 14, 'part', '', False), ('relative_bias', ('relative_bias'), '', 14, 'part', 'pooled over all layers and steps; y = 0 if skipped, ``nmse`` is ``inf`` with overflow.', False), ('expected_variance', ('expected_variance'), '', 14, 'part', 'mean of Var[y] over the random draws, divided by the mean squared reference.', False), ('underflow_wire', ('underflow_wire'), '', 14, 'part', '', False), ('underflow_reduced', ('underflow_reduced'), '', 14, 'part', 'shares of nonzero values that became 0, without skipped rows.', False), ('volume', ('volume'), '', 12, 'whole', 'bytes of the busiest rank (in a hierarchy: between nodes) divided by those of an fp32 ring all-reduce.', False), ('bits_above_limit', ('bits_above_limit'), 'bits', 14, 'none', 'by how many bits per value an ideal code could be shorter at the same ``error_over_noise``, 1/2 log2 of it over the limit of 32 ``volume`` bits. Only of reductions in which each value is sent once to the sum and once back, NaN for others, and for results without a `Results.limit`. docs/limit.md.', True), ('time', ('time'), 's', 12, 'whole', '', True), ('speedup', ('speedup'), '', 12, 'whole', 'modelled seconds per step, and relative to the fp32 ring; `cost.step_time`.', True), ('skipped', ('skipped'), 'steps', 14, 'part', '', False), ('overflowed', ('overflowed'), 'steps', 14, 'part', 'numbers of steps in which a row was skipped, had overflow.', False), ('nonfinite', ('nonfinite'), 'steps', 14, 'whole', "number of the trace's steps with gradients that are NaN or infinite. The numbers above do not include them: in such a step only finite values were compared.", False), ('gaps', ('gaps'), 'steps', 14, 'whole', 'number of steps at which a scheme with memory had that of an earlier step than the one before, which was not replayed. Its errors are not those of a run, and it has no rank.', False), ('lost_layers', ('lost_layers'), 'layers', 14, 'whole', 'number of layers of which less than half arrives: their ``gain`` over all steps is below 1/2, or a result overflows. Such a scheme is never the best of its bytes.', False))
WINDOW_LENGTHS: tuple = (1, 3, 10, 30)
__version__: str = '0.1.0'
