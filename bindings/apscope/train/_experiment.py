"""All runs of an experiment, over processes or a Dask cluster, into one folder.

```text
DIR/
  experiment.json               what is run; there from the beginning
  runs/KEY.json                 a finished run: the key is the SHA-256 of all that its bits depend on
  runs/KEY.pt                   the last checkpoint of one that is not finished
  traces/TASK-MODEL/            gradients of the first seed's fp32 run
  results.parquet, results.csv  a row a step of every run
  verdicts.csv                  a row a task and scheme
  training.json                 the experiment, its data and versions; written last
```

A killed command, run again, finds its runs by their keys and goes on. So does an experiment with more
seeds or schemes: what it shares with the last one is not trained again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders.names import waiting
from .._folders.one_file import make_folder, put_text, remove_left
from .._folders.writing import Writing
from .._progress import Bar
from .._traces.opening import open_trace
from .._training import folder as results
from .._training.constant import of_trace
from .._training.experiment import Exchange, Experiment, Task, check_trainable
from .._training.verdicts import noise_sentences
from . import _tasks as tasks
from ._jobs import Job, Train, trained_in
from ._run import Run
from ._versions import versions

if TYPE_CHECKING:
    from distributed import Client


def run_experiment(
    experiment: Experiment,
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    client: Client | None = None,
    checkpoint: float = 5.0,
    progress: bool = False,
    say: Callable[[str], None] = print,
    command: str = "",
) -> None:
    """Trains the runs that are not trained yet, and writes the results.

    Parameters
    ----------
    experiment : Experiment
    out : path-like
        A new folder, or that of an experiment.
    jobs : int
        Processes; the bits do not depend on it.
    client : distributed.Client, optional
        The runs are tasks of this Dask cluster instead, with the same bits.
    checkpoint : float
        Seconds between a run's checkpoints.
    progress : bool
        Whether a bar is shown.
    say : f(sentence)
        Is told of tasks without data, and the baselines' noise before the other runs begin.
    command : str
        The command line, for the results.

    Raises
    ------
    ValueError
        A scheme that cannot be trained through, no task with data, a folder of something else, or
        another process writes it; a Dask worker with other versions or other data.
    ChildProcessError
        Dask workers ended, and none came back or all that tried a run ended.
    """
    out = results.check_folder(out)
    check_trainable(experiment)
    data = _data_of(experiment.tasks, say)
    made_by = versions()
    where = trained_in(jobs) if client is None else _cluster(client, out, data, say)
    with Writing(out, "apscope train", into=True) as writing:
        writing.clear()
        put_text(out / "experiment.json", json.dumps(experiment.as_json(), indent=1) + "\n")
        for name in ("runs", "traces"):
            make_folder(out / name)
        remove_left(out / "runs", waiting(r"[0-9a-f]+\.(pt|json)"))
        tasks_here = [task for task in experiment.tasks if task.label in data]
        same = {run: run for run in _runs(tasks_here, experiment.baselines, experiment)}
        first = _keys(same, experiment, data, made_by)
        recorded = {
            run: out / "traces" / run.task.label.replace(" ", "-")
            for run in first
            if _is_recorded(run, experiment)
        }
        total = len(experiment.seeds) * sum(task.steps for task in tasks_here)
        total *= len(experiment.baselines) + len(experiment.exchanges)
        bar = Bar("apscope train", progress, unit="step")
        with bar as update, where as train:
            done = 0

            def finish(keys: dict[Run, str]) -> None:
                nonlocal done
                for run in _finish(keys, recorded, experiment, out, train, checkpoint):
                    done += run.task.steps
                    if update is not None:
                        update(done, total)

            finish(first)
            bar.clear()
            for line in noise_sentences(results.rows(_found(same, first, out)), experiment):
                say(line)
            traces = {run.task.label: trace for run, trace in recorded.items()}
            made = {}  # what is trained, by what is asked for
            for run in _runs(tasks_here, experiment.exchanges, experiment):
                spec = of_trace(run.spec, traces[run.task.label], run.topology)
                made[run] = replace(run, spec=spec)
            keys = _keys(made.values(), experiment, data, made_by)
            finish(keys)
        results.write(
            writing,
            experiment,
            sorted(
                [*_found(same, first, out), *_found(made, keys, out)],
                key=lambda one: tasks_here.index(one[0].task),
            ),
            traces,
            {"command": command, "versions": made_by, "data": data},
        )


def _cluster(
    client: Client, out: Path, data: dict[str, str], say: Callable[[str], None]
) -> contextlib.AbstractContextManager[Train]:
    from ._on_dask import on_cluster

    return contextlib.nullcontext(on_cluster(client, out.absolute(), data, say))


def _runs(
    tasks_here: Sequence[Task], exchanges: Sequence[Exchange], experiment: Experiment
) -> list[Run]:
    """Every task through every scheme, from every seed."""
    return [
        Run(task, spec, seed, experiment.workers, topology)
        for task in tasks_here
        for spec, topology in exchanges
        for seed in experiment.seeds
    ]


def _keys(
    runs: Iterable[Run], experiment: Experiment, data: dict[str, str], versions: dict[str, str]
) -> dict[Run, str]:
    return {run: _key(run, experiment, data[run.task.label], versions) for run in runs}


def _data_of(tasks_here: Sequence[Task], say: Callable[[str], None]) -> dict[str, str]:
    """Where every task's data comes from; a task whose data is missing is left out."""
    sources: dict[str, str] = {}
    for task in tasks_here:
        try:
            sources[task.label] = tasks.load(task.name, task.model, task.text).about
        except ValueError as error:
            if len(tasks_here) == 1:
                raise
            say(f"{task.label} is left out: {error}")
    if not sources:
        raise ValueError("no task of the experiment has its data here")
    return sources


def _is_recorded(run: Run, experiment: Experiment) -> bool:
    exchange = Exchange(run.spec, run.topology)
    return exchange == experiment.baselines[0] and run.seed == experiment.seeds[0]


def _key(run: Run, experiment: Experiment, about: str, versions: dict[str, str]) -> str:
    facts = {
        **asdict(replace(run, task=replace(run.task, called=""))),
        "data": about,
        "versions": versions,
        "record_steps": experiment.record_steps,
    }
    if experiment.record_consecutive > 1:
        facts["record_consecutive"] = experiment.record_consecutive
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def _has_trace(trace: Path | None, key: str) -> bool:
    """Whether the run need not be recorded, or is, by this and not by an earlier experiment."""
    try:
        return trace is None or open_trace(trace).manifest.metadata["run"] == key
    except (ValueError, OSError, KeyError):
        return False


def _found(
    made: Mapping[Run, Any], keys: dict[Run, str], out: Path
) -> list[tuple[Run, dict[str, Any]]]:
    """The results of the requested runs; `made` has the runs that were trained."""
    return [
        (run, results.read_run(out / "runs" / f"{keys[trained]}.json"))
        for run, trained in made.items()
    ]


def _finish(
    keys: dict[Run, str],
    recorded: dict[Run, Path],
    experiment: Experiment,
    out: Path,
    train: Train,
    checkpoint: float,
) -> Iterator[Run]:
    """Trains the runs without a file; gives each when it is there."""
    missing = []
    for run, key in keys.items():
        trace = recorded.get(run)
        if (out / "runs" / f"{key}.json").exists() and _has_trace(trace, key):
            yield run
        else:
            steps = _steps(run.task.steps, experiment.record_steps, experiment.record_consecutive)
            missing.append(Job(run, out / "runs" / key, checkpoint, trace, steps))
    yield from train(missing)


def _steps(steps: int, count: int, consecutive: int = 1) -> tuple[int, ...]:
    """The recorded steps: runs of consecutive ones at the beginning, the end, and evenly between.

    Where there are fewer steps, the runs are shorter first, then fewer; no two overlap.
    """
    consecutive = min(consecutive, steps)
    count = min(count, steps // consecutive)
    begins = (round(k * (steps - consecutive) / max(count - 1, 1)) for k in range(count))
    return tuple(sorted({begin + i for begin in begins for i in range(consecutive)}))
