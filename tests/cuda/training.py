"""Training on a GPU beside training on the CPU, and what a step costs beside a plain one.

python tests/cuda/training.py --device cuda --json FILE. Bit for bit: the states of models whose sums
state their order, operands and results of every recipe's casts, weights in a format, exchanges.
Timed: a step of a recipe beside the same step in fp32, and a step of 8 workers with its exchange
beside the mean of their gradients. Exit status 1 if bits differ. --device cpu: a dry run.
"""

import argparse
import io
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional

from apscope.torch import LowPrecisionWeights
from apscope.train import (
    HALP,
    DoubleSampledLinear,
    ExchangeState,
    Recipe,
    Sum,
    Workers,
    exchange_hook,
    quantization,
    quantize_model,
    recipes,
)
from apscope.train._exchanger import Exchanger
from apscope.train._quantized.uses import Use

TIMED_RECIPES = ("mxfp8", "nvfp4", "te_current", "mixed_precision")
EXCHANGES = (
    "none:e5m2", "aps:e4m3", "aps:e4m3,unit=model", "aps:e5m2,accumulate=fp32",
    "current_scaling:e4m3fn", "delayed_scaling:e5m2",
)  # fmt: skip
TOPOLOGIES = ("sequential", "ring", "tree", "hierarchical:2", "sequential+kahan", "two_phase")


def tokens(width: int, layers: int) -> nn.Module:
    """A stack of linear layers as in a transformer's, which has no sum but its products."""
    torch.manual_seed(0)
    rows: list[nn.Module] = []
    for _ in range(layers):
        rows += [nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)]
    return nn.Sequential(*rows)


def generated(shape: tuple[int, ...], seed: int, wide: bool = False) -> torch.Tensor:
    """Normal numbers; `wide`: of every size, with a few that are not finite."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g)
    if wide:
        x *= 10.0 ** torch.randint(-44, 30, shape, generator=g)
        x.view(-1)[:: max(x.numel() // 5, 1)] = float("inf")
    return x


def on_cpu(x: Any) -> Any:
    """Tensors in a nest of mappings and sequences as bytes of the CPU."""
    if isinstance(x, torch.Tensor):
        return str(x.dtype), x.detach().cpu().contiguous().numpy().tobytes()
    if isinstance(x, dict):
        return {name: on_cpu(value) for name, value in x.items()}
    return [on_cpu(value) for value in x] if isinstance(x, list | tuple) else x


# ---- Bits ------------------------------------------------------------------------------------

Run = Callable[[torch.device], Any]


def ordered_sums() -> Iterator[tuple[str, Run]]:
    """Gradients, losses aside, of layers whose every sum has a stated order."""
    sums = {
        "sequential": Sum("bf16"), "pairwise": Sum("fp16", order="pairwise"),
        "chunked": Sum("e6m9", order="chunked:64"), "kahan": Sum("e4m3", order="kahan", product="e4m3"),
        "drawn": Sum("bf16", rounding="stochastic"), "h100": "h100:fp8",
        "h100 blocks": "h100:fp8,promote=32",
    }  # fmt: skip
    for name, each in sums.items():
        operand = "mxfp8_e4m3" if name == "h100 blocks" else "e4m3fn"

        def run(device: torch.device, each: Any = each, operand: str = operand) -> Any:
            model = tokens(32, 2).to(device)
            recipe = Recipe(input=operand, weight=operand, grad_output=operand, accumulate=each)
            quantize_model(model, recipe, say=None, seed=3)
            y = model(generated((24, 32), 1).to(device))
            y.backward(generated((24, 32), 2).to(device) * 1e-2)
            return y, [p.grad for p in model.parameters()]

        yield f"sums, {name}", run


def convolutions() -> Iterator[tuple[str, Run]]:
    """The same of a convolution, of which every product is unfolded into one of matrices."""
    for order in ("sequential", "pairwise", "kahan"):

        def run(device: torch.device, order: str = order) -> Any:
            torch.manual_seed(0)
            model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, stride=2))
            recipe = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2",
                            accumulate=Sum("bf16", order=order))  # fmt: skip
            quantize_model(model.to(device), recipe, say=None, seed=3)
            y = model(generated((5, 3, 9, 9), 1).to(device))
            y.backward(generated(tuple(y.shape), 2).to(device) * 1e-2)
            return y, [p.grad for p in model.parameters()]

        yield f"convolutions, {order}", run


def casts() -> Iterator[tuple[str, Run]]:
    """What every use of every recipe makes of the same operand."""
    for name in recipes():

        def run(device: torch.device, name: str = name) -> Any:
            torch.manual_seed(0)
            model = nn.Sequential(*(nn.Linear(48, 48) for _ in range(3))).to(device)
            options = {"optimizer": torch.optim.SGD(model.parameters())}
            found = quantization(quantize_model(model, name, say=None, seed=5, **options))
            uses: list[Use] = [u for u in found._all_uses() if u.cast is not None]
            x = generated((64, 48), 7).to(device)
            wide = generated((64, 48), 7, wide=True).to(device)
            plain = [u(t) for u in uses for t in (x, x * 1e-6, wide)]
            return plain, [p.detach() for p in model.parameters()]

        yield f"casts of {name}", run


def weights() -> Iterator[tuple[str, Run]]:
    for update in ("nearest", "stochastic", "stochastic_normal", "kahan", "residual"):

        def run(device: torch.device, update: str = update) -> Any:
            w = nn.Parameter(generated((1000,), 1).to(device))
            # A rate that is a power of two: its product is exact on every device.
            kept = LowPrecisionWeights(torch.optim.SGD([w], lr=2.0**-6), "bf16", update=update)
            for step in range(5):
                w.grad = generated((1000,), step).to(device)
                kept.step()
            return w, kept.state_dict()["left"]

        yield f"weights, {update}", run


def offsets() -> Iterator[tuple[str, Run]]:
    """HALP of a loss whose gradients are exact: products with powers of two."""
    for momentum in (0.0, 0.5):

        def run(device: torch.device, momentum: float = momentum) -> Any:
            w = nn.Parameter(generated((500,), 1).to(device))
            aims = [generated((500,), seed).to(device) for seed in (2, 3)]
            halp = HALP([w], rate=2.0**-4, bits="fp16", momentum=momentum, seed=9)
            for _ in range(3):
                halp.centre(lambda: sum(0.25 * (w - aim).square().sum() for aim in aims))
                for aim in aims:
                    halp.step(lambda aim=aim: 0.5 * (w - aim).square().sum())
            return w, halp.clipped

        yield f"halp, momentum {momentum}", run


def double_samples() -> Iterator[tuple[str, Run]]:
    """The two draws of a layer's inputs: products of one row and one column, which add nothing."""

    def run(device: torch.device) -> Any:
        torch.manual_seed(0)
        layer = DoubleSampledLinear(1, 6, bias=False, bits=3, seed=4).to(device)
        x = generated((1, 1), 5).to(device)
        results = []
        for _ in range(4):
            y = layer(x)
            layer.zero_grad()
            y.backward(torch.full_like(y, 0.5))
            assert layer.weight.grad is not None
            results += [y.detach(), layer.weight.grad.clone()]
        return results

    yield "double samples", run


def checkpoints() -> Iterator[tuple[str, Run]]:
    """A state that was saved on the CPU and is loaded onto the device, and trained on."""

    def run(device: torch.device) -> Any:
        def exchanger() -> Exchanger:
            return Exchanger("delayed_scaling:e4m3fn", {"a.weight": (300,)}, workers=4)

        def step(one: Exchanger, number: int, where: torch.device) -> list[torch.Tensor]:
            out = [torch.empty(300, device=where)]
            one.run([generated((4, 300), number).to(where)], out)
            return out

        before, after = exchanger(), exchanger()
        step(before, 0, torch.device("cpu"))
        file = io.BytesIO()
        torch.save(before.state_dict(), file)
        file.seek(0)
        after.load_state_dict(torch.load(file, map_location=device, weights_only=True))
        return [step(after, number, device) for number in (1, 2)], after.state_dict()

    yield "checkpoint with map_location", run


def hooks() -> Iterator[tuple[str, Run]]:
    """DDP's hook in a group of one process: NCCL on a GPU, its streams and buckets; else gloo."""
    for spec, topology in (("aps:e4m3", "ring"), ("current_scaling:e5m2", "two_phase")):

        def run(device: torch.device, spec: str = spec, topology: str = topology) -> Any:
            model = tokens(32, 2).to(device)
            quantize_model(model, Recipe(accumulate=Sum("fp32")), say=None)
            backend = "nccl" if device.type == "cuda" else "gloo"
            with tempfile.TemporaryDirectory() as folder:
                distributed.init_process_group(
                    backend, init_method=f"file://{folder}/store", rank=0, world_size=1
                )
                try:
                    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
                    state = ExchangeState(distributed.group.WORLD, spec, topology=topology, seed=1)
                    ddp.register_comm_hook(state, exchange_hook)
                    for step in range(2):
                        y = ddp(generated((24, 32), step).to(device))
                        y.backward(generated((24, 32), 2).to(device) * 1e-2)
                    return [p.grad for p in model.parameters()], state.state_dict()
                finally:
                    distributed.destroy_process_group()

        yield f"hook {spec}, {topology}", run


def exchanges() -> Iterator[tuple[str, Run]]:
    for spec in EXCHANGES:
        for topology in TOPOLOGIES:

            def run(device: torch.device, spec: str = spec, topology: str = topology) -> Any:
                shapes = {"a.weight": (3000,), "b.weight": (77,), "c.weight": (5,)}
                exchanger = Exchanger(spec, shapes, workers=6, topology=topology)
                results = []
                for step in range(3):
                    rows = [
                        generated((6, *shape), step, wide=step == 1).to(device)
                        for shape in shapes.values()
                    ]
                    out = [torch.empty(shape, device=device) for shape in shapes.values()]
                    results += [exchanger.run(rows, out), out]
                return results, exchanger.state_dict()

            yield f"exchange {spec}, {topology}", run


PARTS = (
    ordered_sums, convolutions, casts, weights, offsets, double_samples, checkpoints, hooks, exchanges,
)  # fmt: skip


def compare(device: torch.device) -> dict[str, Any]:
    """Every run on the CPU and on the device."""
    wrong, tried = [], 0
    for part in PARTS:
        for what, run in part():
            tried += 1
            try:
                if on_cpu(run(torch.device("cpu"))) != on_cpu(run(device)):
                    wrong.append(f"{what}: not the CPU's bits")
            except Exception as error:  # noqa: BLE001  # any is a failure of this run alone
                wrong.append(f"{what}: {type(error).__name__}: {error}")
            if wrong and wrong[-1].startswith(f"{what}:"):
                print(wrong[-1], flush=True)
    print(f"{tried} runs, {len(wrong)} differ", flush=True)
    return {"runs": tried, "wrong": wrong}


# ---- Times -----------------------------------------------------------------------------------


def milliseconds(step: Callable[[], Any], device: torch.device, times: int) -> float:
    """The median time of a step, after two that are not counted."""
    found = []
    for _ in range(times + 2):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found[2:])


def times_of(device: torch.device, part: int) -> list[dict[str, Any]]:
    """A step of each recipe beside the fp32 step, of each exchange beside a mean; `part`: narrower."""
    width, batch, count = 1024 // part, 4096 // part, 10 if part == 1 else 3
    x = generated((batch, width), 1).to(device)
    y = generated((batch, width), 2).to(device)
    rows = []

    def recipe_step(name: str | None) -> float:
        model = tokens(width, 4).to(device)
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=1e-3)
        found = None
        if name is not None:
            found = quantization(quantize_model(model, name, optimizer=optimizer, say=None))

        def step() -> None:
            loss = functional.mse_loss(model(x), y)
            if found is not None:
                found.step(loss)
                return
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return milliseconds(step, device, count)

    def exchange_step(name: str | None) -> float:
        spec, _, topology = (name or "none:fp32").partition(" ")
        model = tokens(width, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        workers = Workers(
            model, functional.mse_loss, optimizer, workers=8, exchange=spec,
            topology=topology or "ring", batched=False,
        )  # fmt: skip

        def step() -> None:
            if name is not None:
                workers.step(x, y)
                return
            workers.backward(x, y)
            for p, gradients in zip(model.parameters(), workers.gradients.values(), strict=True):
                p.grad = gradients.mean(0).reshape(p.shape)
            workers.skipped = False
            workers.update()

        return milliseconds(step, device, count)

    for kind, measure, names in (
        ("recipe", recipe_step, TIMED_RECIPES),
        ("exchange", exchange_step, (*EXCHANGES[:4], "aps:e4m3 two_phase")),
    ):
        plain = measure(None)
        for name in names:
            ms = measure(name)
            rows.append(
                {"job": f"{kind} {name}", "ms": ms, "plain_ms": plain, "of_plain": ms / plain}
            )
            print(f"{kind} {name}: {ms:.2f} ms, {ms / plain:.2f} of {plain:.2f} ms", flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, required=True, help="the file for the result")
    parser.add_argument("--part", type=int, default=1, help="that many times narrower layers")
    args = parser.parse_args(arguments)
    device = torch.device(args.device, 0) if args.device == "cuda" else torch.device("cpu")
    # What goes through the CPU is compared too.
    warnings.simplefilter("ignore")
    found = {"device": args.device, **compare(device)}
    found["times"] = times_of(device, args.part if args.device == "cuda" else max(args.part, 32))
    args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
