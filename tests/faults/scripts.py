"""The recording scripts of these tests: like users' scripts, twice with two workers."""

import sys

import numpy as np

STEPS = 3


def gradients(step: int, worker: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng([seed, step, worker])
    return {
        "first.weight": draw.standard_normal((8, 32), np.float32),
        "first.bias": draw.standard_normal(8, np.float32),
    }


def write(folder: str, seed: int = 0) -> int:
    """A TraceWriter's recording, which goes on where it was."""
    from apscope.record import TraceWriter

    try:
        with TraceWriter(folder, workers=2, resume=True) as writer:
            for step in range(STEPS):
                if step in writer.committed:
                    continue
                for worker in range(2):
                    for name, values in gradients(step, worker, seed).items():
                        writer.add(step, worker, name, values)
                writer.end_step(step, loss=1.0 + seed)
                print("committed", step, flush=True)
    except (ValueError, OSError) as error:
        print(f"apscope: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def record(folder: str, seed: int = 0, first_step: int = 0, resume: bool = True) -> int:
    """A Recorder's, which never stops the training: it ends with 0, whatever the disk does."""
    import logging

    from apscope.record import Recorder

    logging.basicConfig(format="%(message)s")
    try:
        with Recorder(
            folder,
            every=1,
            workers=2,
            resume=resume,
            first_step=first_step,
            quiet=True,
            patience=20.0,
        ) as recorder:
            for step in range(first_step, STEPS):
                both = [gradients(step, worker, seed) for worker in range(2)]
                recorder.record_pytree(
                    {name: np.stack([one[name] for one in both]) for name in both[0]},
                    loss=1.0 + seed,
                )
    except (ValueError, OSError) as error:
        print(f"apscope: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def check(folder: str) -> int:
    """Whether a trace opens, with every digest; its steps are printed."""
    import apscope

    try:
        trace = apscope.open_trace(folder)
        trace.check()
        print(*(step for step in trace.steps))
    except (ValueError, OSError) as error:
        print(f"apscope: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


SCRIPTS = {"write": write, "record": record, "check": check}
