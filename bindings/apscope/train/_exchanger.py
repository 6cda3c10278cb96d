"""One step's gradients of all parameters through a scheme, for training loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._arrays import gpu
from .._arrays.checks import integer, text
from .._arrays.options import Settings
from .._schemes.scheme import Scheme, as_scheme
from .._text import clip
from .._traces.roles import Roles, given_role, guess_role
from ..torch._devices import quotient, to_cpu
from ..torch._states import check_state

if TYPE_CHECKING:
    from .._advice.plan import Plan


def fsdp_factors(workers: int) -> tuple[float, float]:
    """The divisors of FSDP2 before and after an fp16 reduction: each about the square root of W.

    The first is the least power of two 2^k with workers / 2^k <= 2^k, or the greatest that divides
    2 workers if that is smaller.
    """
    before, after = _core.fsdp_divisors(workers)
    return before, after


#: The settings of a state, and all its keys.
_SAME = ("spec", "topology", "workers", "seed", "divide")
STATE = (*_SAME, "step", "memory")


class Exchanger:
    """The exchange that replaces an all-reduce, and its memory.

    Parameters
    ----------
    spec : Scheme, Plan or str
        Any scheme, hybrid or plan, except one that chooses in hindsight over all steps
        (``scale=largest``, ``scale=best``) or needs the full batch's gradient.
    shapes : mapping of str to shape
        The parameters' names, in the model's order.
    workers : int
    topology : str
        Order of additions of schemes that add in a format; other schemes have their own reduction.
    seed : int, 0 to 2**64 - 1
        Seed of all random draws, together with the parameter's name and the step's number.
    divide : bool or "fsdp"
        Whether the result is the sum over the workers divided by their number; "fsdp": as FSDP2
        divides an fp16 reduction, in fp16, before it (`sent`) and after it.
    roles : mapping or function, optional
        The parameters' roles, for hybrids; missing ones are guessed from names and shapes.
    threads : int
        0: as many as the machine has.

    Raises
    ------
    ValueError
        An unknown scheme or topology, no worker, a scheme that a training loop cannot run.
    """

    def __init__(
        self,
        spec: Scheme | Plan | str,
        shapes: Mapping[str, Sequence[int]],
        *,
        workers: int,
        topology: str = "ring",
        seed: int = 0,
        divide: bool | str = True,
        roles: Roles = None,
        threads: int = 0,
    ) -> None:
        if not isinstance(divide, bool) and divide != "fsdp":
            raise ValueError(f"divide={divide!r} is not one of True, False and 'fsdp'")
        self.divide = divide
        self.spec, self.topology = as_scheme(spec).spec, text("topology", topology)
        self.names = list(shapes)
        self.workers = integer("workers", workers, 1, 2**20)
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self.threads = integer("threads", threads, 0, 2**20)
        sizes = [tuple(int(n) for n in shapes[name]) for name in self.names]
        self._core = _core.StepExchange(
            self.spec,
            self.names,
            [
                str(given_role(roles, name, shape) or guess_role(name, shape))
                for name, shape in zip(self.names, sizes, strict=True)
            ],
            [list(shape) for shape in sizes],
            self.workers,
            self.topology,
            self.seed,
            divide is True,
        )
        self._before, self._after = fsdp_factors(self.workers)
        self.needs: list[str] = self._core.needs
        self.step = 0  #: Number of the next step.

    def sent(self, gradients: torch.Tensor) -> torch.Tensor:
        """The gradient that a worker sends; with ``divide="fsdp"`` divided once, in fp16."""
        if self.divide != "fsdp":
            return gradients
        return _divided(gradients, self._before).float()

    def run(
        self,
        gradients: Sequence[torch.Tensor],
        out: Sequence[torch.Tensor],
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
        weights: Sequence[torch.Tensor] = (),
    ) -> list[bool]:
        """Exchanges the gradients of the next step.

        Parameters
        ----------
        gradients : sequence of float32 tensors, shape (workers, n) each
            One per parameter, all on the CPU or all on one GPU, as `sent` gives them. Not changed.
        out : sequence of contiguous float32 tensors of n elements
            On the device of the gradients. Receives the scheme's sum over the workers, divided by
            their number in fp64 and rounded to fp32, or as `divide` says.
        loss, learning_rate, weights : optional
            For schemes that need them.

        Returns
        -------
        list of bool
            Whether the scheme dropped the step, for each parameter; `out` is 0 there.
        """
        devices = {g.device for g in gradients}
        on_gpu = len(devices) == 1 and devices.pop().type == "cuda"
        if on_gpu and self._core.chooses_from_amax:
            dropped = self._run_on_gpu([g.contiguous() for g in gradients], out)
        elif on_gpu and self._core.chooses_in_phases:
            dropped = self._run_in_phases([g.contiguous() for g in gradients], out)
        else:
            what = f"the exchange of the scheme {self.spec}"
            results = [
                o if o.device.type == "cpu" else torch.empty(o.shape, device="cpu") for o in out
            ]
            dropped = self._core.run(
                self.step,
                self.step,
                [to_cpu(g, what).numpy() for g in gradients],
                [o.reshape(-1).numpy() for o in results],
                [to_cpu(w.detach(), what).reshape(-1).numpy() for w in weights]
                if "weights" in self.needs
                else [],
                None if loss is None else float(loss),
                None if learning_rate is None else float(learning_rate),
                self.threads,
            )
            for o, result in zip(out, results, strict=True):
                if o is not result:
                    o.copy_(result)
        self.step += 1
        if self.divide == "fsdp":
            for o in out:
                o.copy_(_divided(o, self._after))
        return dropped

    def _run_on_gpu(
        self, gradients: Sequence[torch.Tensor], out: Sequence[torch.Tensor]
    ) -> list[bool]:
        """The same by an all-reduce's kernel, with the scales that the scheme chooses.

        The scheme gets each tensor's amax, for which the GPU is waited for once.
        """
        amax, nonfinite = _amax_and_nonfinite([g.reshape(1, -1) for g in gradients])
        rows = self._core.choose(self.step, [a for (a,) in amax], [n for (n,) in nonfinite])
        dropped = []
        for g, o, row in zip(gradients, out, rows, strict=True):
            format, projection, accumulate, hops, exact, scale, skipped = row
            topology = "exact" if exact else self.topology
            dropped.append(skipped)
            if skipped or g.numel() == 0:
                o.zero_()
                continue
            reduced = gpu.allreduce(
                g, format, _core.parse_topology(topology), Settings(projection, 0, 1), accumulate,
                hops, True, scale=scale, narrow=True,
                divisor=self._divisor(),
            )  # fmt: skip
            o.copy_(reduced.reshape(o.shape))
        return dropped

    def _run_in_phases(
        self, gradients: Sequence[torch.Tensor], out: Sequence[torch.Tensor]
    ) -> list[bool]:
        """The same in two phases, with scales that the scheme chooses.

        It gets the amax of each worker's row, then of each shard's sum, for which the GPU is waited
        for twice.
        """
        rows = [g.reshape(self.workers, -1) for g in gradients]
        sums = []
        for r, encodings in zip(rows, self._in_phase(1, rows), strict=True):
            n = r.shape[1]
            m = -(-n // self.workers)  # of a shard; the last ones may be shorter or empty
            sums.append(r.new_zeros((self.workers, m)))
            if n and encodings:
                gpu.add_messages(r, encodings, sums[-1])
        for o, s, encodings in zip(out, sums, self._in_phase(2, sums), strict=True):
            if o.numel():
                gpu.encode_sums(s, self.workers, encodings, self._divisor(), o)
        return [False] * len(out)

    def _in_phase(self, phase: int, rows: Sequence[torch.Tensor]) -> list[gpu.Encodings | None]:
        """The encodings of each tensor's rows in a phase."""
        found = self._core.choose_in_phases(phase, self.step, *_amax_and_nonfinite(rows))
        return [None if one[1] is None else one for one in found]

    def _divisor(self) -> float:
        return float(self.workers) if self.divide is True else 1.0

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on; tensors and numbers only."""
        return {
            "spec": self.spec,
            "topology": self.topology,
            "workers": self.workers,
            "seed": self.seed,
            "divide": self.divide,
            "step": self.step,
            "memory": {
                name: {part: torch.from_numpy(row.copy()) for part, row in rows.items()}
                for name, rows in self._core.state().items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another exchange's state.

        Raises
        ------
        ValueError
            The state has another scheme, topology, seed, division or number of workers.
        """
        check_state(state, STATE, {key: getattr(self, key) for key in _SAME})
        step = integer("step", state["step"], 0, 2**62)
        self._core.set_state(_memory(state["memory"]))
        self.step = step


def _divided(x: torch.Tensor, divisor: float) -> torch.Tensor:
    """Quotients in fp16."""
    return quotient(x.half(), divisor)


def _amax_and_nonfinite(
    tensors: Sequence[torch.Tensor],
) -> tuple[list[list[float]], list[list[int]]]:
    """Of every row of every matrix, the largest finite magnitude, and the number not finite."""
    sizes = []
    for rows in tensors:
        low, high = rows.aminmax(dim=1) if rows.numel() else (rows.new_zeros(len(rows)),) * 2
        sizes.append(torch.maximum(low.abs(), high.abs()))
    flat: list[float] = torch.cat(sizes).tolist() if sizes else []
    amax, nonfinite = [], []
    for rows in tensors:
        of_rows, flat = flat[: len(rows)], flat[len(rows) :]
        counts = [0] * len(rows)
        if not all(map(math.isfinite, of_rows)):  # an infinity or NaN, which PyTorch passes on
            finite = rows.isfinite()
            of_rows = torch.where(finite, rows.abs(), rows.new_zeros(())).amax(dim=1).tolist()
            counts = (~finite).sum(dim=1).tolist()
        amax.append(of_rows)
        nonfinite.append(counts)
    return amax, nonfinite


def _memory(memory: Any) -> dict[str, dict[str, Any]]:
    """The arrays of a state's memory, by name and part."""
    if not isinstance(memory, Mapping) or not all(
        isinstance(name, str) and isinstance(rows, Mapping) for name, rows in memory.items()
    ):
        raise ValueError("the state's memory must have tensors by scheme and by part")
    for name, rows in memory.items():
        for part, row in rows.items():
            if not (
                isinstance(part, str)
                and isinstance(row, torch.Tensor)
                and row.dtype == torch.float64
                and row.dim() == 1
            ):
                raise ValueError(
                    f"the state's memory '{clip(name)}' has {clip(repr(part))}, which must be a "
                    "vector of float64"
                )
    return {
        name: {part: row.detach().cpu().numpy() for part, row in rows.items()}
        for name, rows in memory.items()
    }
