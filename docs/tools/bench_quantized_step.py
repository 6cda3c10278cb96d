"""A quantized model's training step beside the same step in fp32, and beside fake quantization with
torch alone.

    python -m docs.tools.bench_quantized_step [--steps 200] [--model digits|wide] [--observe]

`digits` is the task of `apscope train` (1,906 parameters), 64 images a step; `wide` three linear
layers of 512, 64 rows. Steps of all loops run in turn on one thread, each from the same weights on
the same batch: forward, backward, SGD's update. Processor time, medians over the steps after one
that is not counted; `ratio` is over the fp32 step. The baseline of torch alone casts with its own
float8 dtypes (``x.clamp(-448, 448).to(torch.float8_e4m3fn).float()``), straight through, and the
gradient to e5m2, which is the work of the recipe `fp8`, and has its bits. `emulated`: sums by
`apscope.matmul` in a format. `--observe`: with statistics of every use at every step.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from apscope.train import Cast, Recipe, Sum, _tasks, quantization, quantize_model

FP8 = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2")
DRAWN = Recipe(input="e4m3fn", weight="e4m3fn", grad_output=Cast("e5m2", rounding="stochastic"))


def with_sums(*sums: object, **options: object) -> Recipe:
    """The recipe fp8 with emulated accumulators."""
    return Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2",
                  accumulate=Sum(*sums, **options))  # fmt: skip


POINTWISE = {"fp8": FP8, "fp8, stochastic gradients": DRAWN, "mixed_precision": "mixed_precision",
             "fp8_training": "fp8_training"}  # fmt: skip
SCALED = {
    name: name for name in ("te_delayed", "te_current", "mxfp8", "mxfp4", "nvfp4", "te_blockwise")
}
EMULATED = {
    "fp8, sums fp32 sequential": with_sums("fp32"),
    "fp8, sums fp32 chunked:64": with_sums("fp32", "chunked:64"),
    "fp8, sums fp16 chunked:64": with_sums("fp16", "chunked:64"),
    "fp8, sums bf16 sequential": with_sums("bf16"),
    "deepseek": "deepseek",
    "hfp8": "hfp8",
    "fp8, sums fp32 exact": with_sums("fp32", "exact"),
}


class Fake(torch.autograd.Function):
    """A cast forward by one of torch's dtypes, a cast backward by another."""

    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        return x if there is None else x.clamp(-448, 448).to(there).float()

    @staticmethod
    def backward(ctx, g):
        if ctx.back is None:
            return g, None, None
        return g.clamp(-57344, 57344).to(ctx.back).float(), None, None


class FakeLinear(nn.Linear):
    """Operands in e4m3fn, the output's gradient in e5m2."""

    def forward(self, x):
        q = Fake.apply
        y = functional.linear(
            q(x, torch.float8_e4m3fn, None), q(self.weight, torch.float8_e4m3fn, None)
        )
        y = q(y, None, torch.float8_e5m2)
        return y if self.bias is None else y + self.bias


class FakeConv2d(nn.Conv2d):
    """The same."""

    def forward(self, x):
        q = Fake.apply
        y = self._conv_forward(q(x, torch.float8_e4m3fn, None),
                               q(self.weight, torch.float8_e4m3fn, None), None)  # fmt: skip
        y = q(y, None, torch.float8_e5m2)
        return y if self.bias is None else y + self.bias[:, None, None]


def faked(model: nn.Module) -> nn.Module:
    """The model with these layers."""
    for m in model.modules():
        if type(m) is nn.Linear:
            m.__class__ = FakeLinear
        elif type(m) is nn.Conv2d:
            m.__class__ = FakeConv2d
    return model


def models(name: str) -> tuple[Callable[[], nn.Module], torch.Tensor, torch.Tensor]:
    """A new model with the same weights each time, and a batch."""
    data = _tasks.load("digits", "convolutional")

    def wide() -> nn.Module:
        return nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(512, 512), nn.ReLU())))

    make = data.model if name == "digits" else wide
    torch.manual_seed(0)
    first = make()

    def again() -> nn.Module:
        model = make()
        model.load_state_dict(first.state_dict())
        return model

    if name == "digits":
        return again, *data.batch(torch.arange(64))
    return again, torch.randn(64, 512), torch.randint(512, (64,))


def measure(name: str, steps: int, observe: bool) -> dict[str, object]:
    """Medians of processor milliseconds a step."""
    torch.set_num_threads(1)
    make, x, y = models(name)
    loops: dict[str, Callable[[], object]] = {}
    weights: dict[str, nn.Module] = {}

    def add(title: str, model: nn.Module, recipe: object) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        weights[title] = model
        if recipe is None:

            def step() -> None:
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()

            loops[title] = step
            return
        quantized = quantization(quantize_model(model, recipe, optimizer=optimizer, say=None))
        if observe:
            quantized.observe(1)
        loops[title] = lambda: quantized.step(functional.cross_entropy(model(x), y))

    add("fp32", make(), None)
    add("torch's float8 dtypes", faked(make()), None)
    for title, recipe in {**POINTWISE, **SCALED, **EMULATED}.items():
        add(title, make(), recipe)
    times: dict[str, list[float]] = {title: [] for title in loops}
    for step in range(steps + 1):
        for title, loop in loops.items():
            began = time.process_time()
            loop()
            if step:
                times[title].append(1e3 * (time.process_time() - began))
    one, other = (list(weights[t].parameters()) for t in ("torch's float8 dtypes", "fp8"))
    same = all(torch.equal(a, b) for a, b in zip(one, other))
    found = {title: statistics.median(t) for title, t in times.items()}
    return {
        "model": name,
        "steps": steps,
        "observe": observe,
        "fp8_has_the_bits_of_torchs_dtypes": same,
        "rows": {
            t: {"ms": round(ms, 3), "ratio": round(ms / found["fp32"], 2)}
            for t, ms in found.items()
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("digits", "wide"), default="digits")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--observe", action="store_true")
    asked = parser.parse_args()
    print(json.dumps(measure(asked.model, asked.steps, asked.observe), indent=1))
