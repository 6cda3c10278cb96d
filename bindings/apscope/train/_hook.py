"""The exchange as a communication hook of PyTorch's ``DistributedDataParallel``.

DDP reads the annotations of a hook as types, so here they are not strings.
"""

import gc
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .._advice.plan import Plan
from .._schemes.scheme import Scheme, as_scheme
from .._traces.roles import Roles, plain_name
from ..torch._devices import stream_of, take_over, to_supported
from ..torch._states import check_state
from ._exchanger import STATE, Exchanger
from ._gathering import gathered

#: Options that a state must have too.
_SAME = ("topology", "seed", "divide")


class ExchangeState:
    """The exchange of a job: ``ddp.register_comm_hook(ExchangeState(...), exchange_hook)``.

    Under ``fully_shard``: ``exchange_fsdp(model, ExchangeState(...))``.

    Every rank gathers the gradients of all ranks and computes the emulated result, so all have the
    same bits, those of `Workers` with as many workers. A scheme's memory is kept by the parameter's
    name, without the parts that ``torch.compile`` and checkpointing insert, so it does not depend on
    DDP's buckets, which are rebuilt after the first step.

    Parameters
    ----------
    process_group : torch.distributed.ProcessGroup, optional
        The ranks are the workers; by default all processes. `exchange_fsdp` uses the model's group.
    spec : Scheme, Plan or str
        As `Workers` takes it.
    topology, seed, divide, roles, threads
        As `Workers` takes them.
    module : DistributedDataParallel, optional
        The module of the hook; by default the one that has the parameters.

    Attributes
    ----------
    loss, learning_rate : float, optional
        Set before each backward pass, for schemes that need them.
    skipped : bool
        Whether the scheme dropped the last step (dynamic loss scaling): gradients are 0, and the
        loop should not step its optimizer.

    Raises
    ------
    ValueError
        An unknown scheme or topology, a scheme that a training loop cannot run: at the first step,
        where the parameters are known.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        spec: Scheme | Plan | str = "aps:e4m3",
        *,
        topology: str = "ring",
        seed: int = 0,
        divide: bool | str = True,
        roles: Roles = None,
        threads: int = 0,
        module: DistributedDataParallel | None = None,
    ) -> None:
        self.process_group, self.spec = process_group, as_scheme(spec).spec
        self.divide = divide
        self._options: dict[str, Any] = dict(
            topology=topology, seed=seed, divide=divide, roles=roles, threads=threads
        )
        self._module = module
        self._names: dict[torch.Tensor, str] = {}
        # Buckets, their gathered rows, the rows' stream (stream_of), what DDP waits for.
        self._waiting: list[
            tuple[dist.GradBucket, torch.Tensor, Any, torch.futures.Future[Any]]
        ] = []
        self._loaded: Mapping[str, Any] | None = None
        self.exchanger: Exchanger | None = None
        self.loss: float | None = None
        self.learning_rate: float | None = None
        self.skipped = False

    def state_dict(self) -> dict[str, Any]:
        """The exchange's memory: the same on every rank. Empty before the first step."""
        return self.exchanger.state_dict() if self.exchanger else dict(self._loaded or {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state at the next step, with the same bits.

        Raises
        ------
        ValueError
            The state of another scheme, topology, seed, division or number of workers: at the next
            step if there was none yet.
        """
        if state != {}:  # of a state before its first step
            check_state(
                state,
                STATE,
                {"spec": self.spec, **{key: self._options[key] for key in _SAME}},
            )
            if self.exchanger:
                self.exchanger.load_state_dict(state)
        self._loaded = dict(state)

    @property
    def _step(self) -> int:
        """Number of the step whose gradients come next."""
        return self.exchanger.step if self.exchanger else int((self._loaded or {}).get("step", 0))

    def _begin(self, some: torch.Tensor) -> Exchanger:
        """At the first step: finds the module and the names of its parameters."""
        module = self._module or next(
            (
                m
                for m in gc.get_objects()
                if issubclass(type(m), DistributedDataParallel)  # isinstance asks dead proxies
                and any(p is some for p in m.parameters())
            ),
            None,
        )
        if module is None:
            raise ValueError(
                "no DistributedDataParallel module has the parameters; give ExchangeState module="
            )
        trained = {plain_name(n): p for n, p in module.module.named_parameters() if p.requires_grad}
        self._names = {p: name for name, p in trained.items()}
        return self._start(
            {name: tuple(p.shape) for name, p in trained.items()},
            dist.get_world_size(self.process_group),
        )

    def _start(self, shapes: Mapping[str, tuple[int, ...]], workers: int) -> Exchanger:
        """The exchange; the first step makes it."""
        if self.exchanger is None:
            exchanger = Exchanger(self.spec, shapes, workers=workers, **self._options)
            if self._loaded:
                exchanger.load_state_dict(self._loaded)
            self.exchanger = exchanger
        return self.exchanger

    def _take(self, bucket: dist.GradBucket) -> torch.futures.Future[Any]:
        """Keeps a bucket until its step is complete: a scheme may scale all tensors together."""
        try:
            parts = gathered(bucket.buffer(), self.process_group, self._step)
            buffer = bucket.buffer()
            # A future without the devices of its value does not order its streams.
            devices = [buffer.device] if buffer.is_cuda else None
            future: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
            rows = to_supported(torch.stack(parts).float(), "the exchange of gradients")
            self._waiting.append((bucket, rows, stream_of(rows), future))
            if bucket.is_last():
                self._exchange()
                self._waiting = []
        except BaseException:
            self._waiting = []  # buckets of a pass that failed belong to no later step
            raise
        return future

    def _exchange(self) -> None:
        exchanger = self.exchanger or self._begin(self._waiting[0][0].parameters()[0])
        gradients: dict[str, torch.Tensor] = {}
        results: dict[str, torch.Tensor] = {}
        parameters: dict[str, torch.Tensor] = {}
        needs_weights = "weights" in exchanger.needs
        outs = []
        for bucket, rows, stream, _ in self._waiting:
            take_over(rows, stream)
            out, at = torch.empty(rows.shape[1], device=rows.device), 0
            for p in bucket.parameters():
                if p not in self._names:
                    raise ValueError(
                        "a bucket has a parameter that the module of the first step did not train; "
                        "make one ExchangeState for every DistributedDataParallel module, and wrap "
                        "the module after parameters are frozen or replaced"
                    )
                name, end = self._names[p], at + p.numel()
                gradients[name], results[name] = rows[:, at:end], out[at:end]
                if needs_weights:
                    parameters[name] = p.detach().float().contiguous()
                at = end
            outs.append(out)
        names = exchanger.names
        dropped = exchanger.run(
            [exchanger.sent(gradients[name]) for name in names],
            [results[name] for name in names],
            loss=self.loss,
            learning_rate=self.learning_rate,
            weights=[parameters[name] for name in names] if needs_weights else (),
        )
        self.skipped = all(dropped)
        for (bucket, *_, future), out in zip(self._waiting, outs, strict=True):
            buffer = bucket.buffer()
            future.set_result(out.to(device=buffer.device, dtype=buffer.dtype))


def exchange_hook(
    state: ExchangeState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """DDP's communication hook: gathers the gradients, and gives the exchange's result.

    Parameters
    ----------
    state : ExchangeState
    bucket : torch.distributed.GradBucket

    Returns
    -------
    Future of tensor
        Complete when the last bucket of the step has arrived.

    Raises
    ------
    TypeError
        The state is not an `ExchangeState`.
    """
    if not isinstance(state, ExchangeState):
        raise TypeError(
            f"the hook's state is {type(state).__name__}; register ExchangeState(...) with it"
        )
    return state._take(bucket)
