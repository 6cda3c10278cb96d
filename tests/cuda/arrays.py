"""The Python package on torch tensors of a GPU against itself on the CPU, bit for bit.

python tests/cuda/arrays.py --device cuda --json FILE. Every format and rounding, every block
format, topology and order of sums, on small arrays with every kind of number. Exit status 1 if a
result differs or a call fails on one of the two alone. Timed: calls on a small array. --device cpu:
a dry run.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apscope
import apscope.torch
from apscope import _core

Call = Callable[[Any], Any]

ROUNDINGS = _core.rounding_modes()
#: Numbers of an array whose time is that of the call, not of its numbers.
SMALL = 1000


def numbers(count: int) -> np.ndarray:
    """Every exponent and sign, zeros, infinities and NaN, and numbers like gradients."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**32, count // 2, dtype=np.uint32).view(np.float32)
    gradients = generator.standard_normal(count - count // 2, dtype=np.float32)
    return np.concatenate([bits, gradients * np.float32(0.01)])


def casts() -> Iterator[tuple[str, Call]]:
    formats = [name for name, f in apscope.named_formats().items() if f.fits_fp32]
    for name, rounding, overflow in itertools.product(formats, ROUNDINGS, ("ieee", "saturate")):
        how: Any = {"rounding": rounding, "overflow": overflow, "seed": 7}
        what = f"{name}, {rounding}, {overflow}"
        yield f"quantize {what}", lambda x, n=name, h=how: apscope.quantize(x, n, **h)
        if apscope.FloatFormat(name).storage_bits <= 16 and overflow == "ieee":
            yield f"encode {what}", lambda x, n=name, h=how: apscope.encode(x, n, nan=0, **h)
            yield (
                f"decode {what}",
                lambda x, n=name, h=how: apscope.decode(apscope.encode(x, n, nan=0, **h), n),
            )


def blocks() -> Iterator[tuple[str, Call]]:
    for name, axis in itertools.product(apscope.named_block_formats(), (-1, 0)):
        for rounding in ("ties_to_even", "stochastic"):
            how: Any = {"axis": axis, "rounding": rounding, "seed": 5}
            what = f"{name}, {rounding}, axis {axis}"
            yield (
                f"quantize_blocks {what}",
                lambda x, n=name, h=how: apscope.quantize_blocks(x.reshape(64, -1), n, **h),
            )
            for part in ("codes", "scales"):
                yield (
                    f"{part} {what}",
                    lambda x, n=name, h=how, p=part: getattr(
                        apscope.encode_blocks(x.reshape(64, -1), n, **h), p
                    ),
                )


def sums() -> Iterator[tuple[str, Call]]:
    topologies = ("sequential", "ring", "tree", "hierarchical:4", "sequential+kahan")
    for name, topology, rounding in itertools.product(
        ("e4m3", "bf16"), topologies, ("ties_to_even", "stochastic")
    ):
        how: Any = {"topology": topology, "rounding": rounding, "seed": 9}
        yield (
            f"allreduce {name}, {topology}, {rounding}",
            lambda x, n=name, h=how: apscope.allreduce(x.reshape(8, -1), n, **h),
        )
    for name, order, product in itertools.product(
        ("fp16", "e5m2"), ("sequential", "pairwise", "kahan", "chunked:16"), (None, "e4m3")
    ):
        more: Any = {"order": order, **({"product": product} if product else {})}
        yield (
            f"matmul {name}, {order}, {product or 'exact'}",
            lambda x, n=name, h=more: apscope.matmul(
                x[-2048:].reshape(32, 64), x[-2048:].reshape(64, 32), n, **h
            ),
        )
    for unit in ("h100", "h100:fp8,promote=32", "h100:mma_fp8", "mi300x", "mi250x"):
        yield (
            f"matmul fp32, unit:{unit}",
            lambda x, u=unit: apscope.matmul(
                *(
                    apscope.quantize(x[-2048:], "e5m2", overflow="saturate").reshape(shape)
                    for shape in ((32, 64), (64, 32))
                ),
                "fp32", order=f"unit:{u}", c=x[:1024].reshape(32, 32),
            ),
        )  # fmt: skip


def outcome(call: Call, x: Any) -> tuple[str, Any]:
    """The bits of a result, or the kind of the exception."""
    try:
        y = call(x)
    except Exception as error:  # noqa: BLE001  # compared below: both must refuse, or neither
        return type(error).__name__, str(error)
    y = y.cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
    return f"{y.dtype} {y.shape}", y.tobytes()


def small_calls(device: str) -> list[dict[str, Any]]:
    """Microseconds of a call on `SMALL` numbers, one call behind another, the median of five runs."""
    x = torch.from_numpy(numbers(SMALL)).to(device)
    calls: dict[str, Callable[[], Any]] = {
        "quantize": lambda: apscope.quantize(x, "e4m3fn"),
        "encode": lambda: apscope.encode(x, "e4m3fn"),
        "quantize_blocks": lambda: apscope.quantize_blocks(x, "mxfp8_e4m3"),
        "torch.quantize": lambda: apscope.torch.quantize(x, "e4m3fn"),
        "PyTorch's cast and back": lambda: x.to(torch.float8_e4m3fn).to(torch.float32),
    }

    def microseconds(call: Callable[[], Any], times: int = 500) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times * 1e6

    found = []
    for name, call in calls.items():
        microseconds(call, 20)
        found.append({"call": name, "us": statistics.median(microseconds(call) for _ in range(5))})
        print(f"{name} of {SMALL} numbers: {found[-1]['us']:.1f} us", flush=True)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, required=True, help="the file for the result")
    args = parser.parse_args(arguments)
    x = numbers(1 << 15)
    on_device = torch.from_numpy(x.copy()).to(args.device)
    tried, wrong = 0, []
    for what, call in itertools.chain(casts(), blocks(), sums()):
        expected, found = outcome(call, x), outcome(call, on_device)
        tried += 1
        if expected != found:
            words = found[1] if isinstance(found[1], str) else f"not the CPU's bits ({found[0]})"
            wrong.append(f"{what}: {words}")
            print(wrong[-1], flush=True)
    found = {"device": args.device, "calls": tried, "wrong": wrong, "small_calls": []}
    args.json.write_text(json.dumps(found) + "\n")  # whatever becomes of the times
    found["small_calls"] = small_calls(args.device)
    args.json.write_text(json.dumps(found) + "\n")
    print(f"{tried} calls, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
