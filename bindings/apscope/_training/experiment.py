"""An experiment: the checked content of its TOML file."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from .._core import FloatFormat, StepExchange, parse_topology
from .._folders.json import TEXT, is_integer, is_number
from .._folders.reading import read_utf8
from .._limits import EXPERIMENT_LENGTH
from .._schemes.scheme import as_scheme
from .._text import clip, count_of, hint
from .constant import constant, in_hindsight
from .texts import NAMED
from .texts import read as read_named

#: The baselines. They run first, and all other schemes are compared with the first of them.
BASELINES = ("none:fp32", "none:bf16")
OPTIMIZERS = ("sgd", "adam", "adamw", "lars")
DECAYS = ("cosine", "linear", "none")
#: Fewer seeds give wide intervals, and the page says so.
ENOUGH_SEEDS = 5


@dataclass(frozen=True)
class Task:
    """A task, its model and its training; `batch` counts the examples of all workers together."""

    name: str
    model: str
    batch: int
    steps: int
    optimizer: str
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    warmup: int = 0
    decay: str = "cosine"
    text: str = ""
    called: str = ""

    @property
    def title(self) -> str:
        """The task's name in tables: `called`, by default `name`."""
        return self.called or self.name

    @property
    def label(self) -> str:
        """Title and model; different for all tasks of an experiment."""
        return f"{self.title} {self.model}"

    def rate(self, step: int) -> float:
        """The learning rate of a step: linear warm-up, then the decay, to 0 after the last step."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        left = 1 - (step - self.warmup) / max(self.steps - self.warmup, 1)
        if self.decay == "cosine":
            return self.learning_rate * (1 - math.cos(math.pi * left)) / 2
        return self.learning_rate * (left if self.decay == "linear" else 1.0)


#: Every task's models, the default first, with the values of the keys that a file omits.
TASKS: dict[str, dict[str, Task]] = {
    "digits": {
        "convolutional": Task("digits", "convolutional", 64, 600, "sgd", 0.1),
        "plain": Task("digits", "plain", 96, 300, "sgd", 0.05, warmup=20),
        "resnet": Task("digits", "resnet", 96, 300, "sgd", 0.05, warmup=20),
    },
    "mnist": {"convolutional": Task("mnist", "convolutional", 64, 600, "sgd", 0.05)},
    "characters": {
        "transformer": Task("characters", "transformer", 32, 600, "adam", 3e-3, text="genesis"),
        "lstm": Task("characters", "lstm", 32, 500, "adam", 5e-3, text="genesis"),
    },
    "tokens": {
        "gpt": Task("tokens", "gpt", 32, 250, "adamw", 4e-3, warmup=10, text="stdlib"),
        "gpt-3m": Task(
            "tokens", "gpt-3m", 32, 1000, "adamw", 1e-3, weight_decay=0.1, warmup=50,
            decay="linear", text="stdlib",
        ),
    },
}  # fmt: skip


class Exchange(NamedTuple):
    """What takes the place of an all-reduce: a scheme, and the topology that it is given."""

    scheme: str  #: its canonical spec
    topology: str


@dataclass(frozen=True)
class Experiment:
    """The tasks, the schemes that they are trained with, and the gate."""

    tasks: tuple[Task, ...]
    exchanges: tuple[Exchange, ...]  #: without the baselines, whose topology is `topology`
    #: Each seeds a model's weights, the order of the data and the exchange's draws.
    seeds: tuple[int, ...]
    gate: float  #: the largest excess training loss, in nats, that passes
    workers: int = 8
    topology: str = "ring"
    record_steps: int = 7  #: of the first seed's fp32 run, from the first to the last
    record_consecutive: int = 1  #: consecutive steps at each of these places

    @property
    def baselines(self) -> tuple[Exchange, ...]:
        """The baselines' exchanges, fp32's first."""
        return tuple(Exchange(spec, self.topology) for spec in BASELINES)

    def as_json(self) -> dict[str, Any]:
        """The experiment as values that JSON can hold."""
        return asdict(self)

    @staticmethod
    def of_json(values: Mapping[str, Any]) -> Experiment:
        """The experiment of a result of `as_json`, or of one that had one topology for all."""
        fields = {**values, "tasks": tuple(Task(**task) for task in values["tasks"])}
        fields["seeds"] = tuple(fields["seeds"])
        one = fields.get("topology", "ring")
        pairs = [(spec, one) for spec in fields.pop("specs", [])] or fields.get("exchanges", [])
        fields["exchanges"] = tuple(Exchange(*pair) for pair in pairs)
        return Experiment(**fields)

    @staticmethod
    def open(path: str | os.PathLike[str], allow_outside: bool = False) -> Experiment:
        """Reads an experiment's TOML file, and looks at the texts that it names.

        A relative path is one from the file's folder; `allow_outside`: whether texts may be outside
        of it.

        Raises
        ------
        ValueError
            The file is too long or is not TOML, has an unknown key, lacks one, or has an impossible
            value; a text is outside the file's folder, or cannot be read; one sentence that names
            the file.
        """
        path = Path(path)
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give an experiment's TOML file")
        text = read_utf8(path, EXPERIMENT_LENGTH)
        try:
            values = tomllib.loads(text)
        except RecursionError:
            raise ValueError(f"{path}: its tables or lists are nested too deep") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        try:
            experiment = parse(values)
            tasks = tuple(_with_text(task, path.parent, allow_outside) for task in experiment.tasks)
            return replace(experiment, tasks=tasks)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None


def parse(content: Mapping[str, Any]) -> Experiment:
    """The experiment of a TOML file's values."""
    _known(content, [*_TOP, "task"], "")
    for key in ("task", "schemes", "seeds", "gate"):
        if key not in content:
            raise ValueError(f"it has no {key}; docs/training.md shows an experiment")
    values = {key: _value(key, content[key], _TOP[key]) for key in _TOP if key in content}
    tasks = content["task"]
    if not isinstance(tasks, list) or not tasks or not all(isinstance(t, dict) for t in tasks):
        raise ValueError("task must be one or more tables [[task]]")
    workers = values.get("workers", 8)
    read = tuple(_task(task, workers) for task in tasks)
    if len({task.label for task in read}) < len(read):
        raise ValueError(
            "a task occurs twice with the same model; give one of them another `called`"
        )
    formats, schemes = values.pop("formats", []), values.pop("schemes")
    seeds = values["seeds"]
    values["seeds"] = tuple(range(seeds) if isinstance(seeds, int) else seeds)
    if "topology" in values:
        values["topology"] = parse_topology(values["topology"])
    exchanges = _exchanges(schemes, formats, values.get("topology", "ring"))
    return Experiment(tasks=read, exchanges=exchanges, **values)


def check_trainable(experiment: Experiment) -> None:
    """Checks that a training loop can run the experiment's schemes with its topology.

    Raises
    ------
    ValueError
        It cannot; the sentence names the scheme or the topology.
    """
    for spec, topology in (*experiment.baselines, *experiment.exchanges):
        trial = constant(spec, 0) if in_hindsight(spec) else spec
        StepExchange(trial, ["w"], ["other"], [[4]], experiment.workers, topology, 0, True)


def _with_text(task: Task, folder: Path, allow_outside: bool) -> Task:
    """The task with the path of its text; the text is there, and can be read."""
    if not task.text or task.text in NAMED:
        return task
    place = folder / task.text
    inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
    if not inside and not allow_outside:
        raise ValueError(
            f"task.text={clip(repr(task.text), 200)} is outside the folder of the experiment's "
            "file; move it there, or give --allow-outside"
        )
    read_named(str(place))
    return replace(task, text=str(place))


def _exchanges(
    schemes: list[str | dict[str, str]], formats: list[str], topology: str
) -> tuple[Exchange, ...]:
    """Every scheme in every format, each once; ``{format}`` is replaced by the format.

    A scheme is a spec, which has the experiment's topology, or a table with one of its own.
    """
    exchanges: dict[Exchange, None] = {}
    for name in formats:
        FloatFormat(name)  # raises for an unknown one
    patterns = [_pattern(one, topology) for one in schemes]
    if formats and not any("{format}" in pattern for pattern, _ in patterns):
        raise ValueError("formats are given, but no scheme has {format}")
    for pattern, of_one in patterns:
        if "{format}" in pattern and not formats:
            raise ValueError(f"scheme '{clip(pattern)}' has {{format}}, but there are no formats")
        for name in formats if "{format}" in pattern else [""]:
            spec = as_scheme(pattern.replace("{format}", name)).spec
            if spec == BASELINES[0] and of_one != topology:
                raise ValueError(
                    f"{spec} is what the others are compared with, in the experiment's topology "
                    f"'{clip(topology)}'; leave it out of '{clip(of_one)}'"
                )
            exchanges[Exchange(spec, of_one)] = None
    baselines = {Exchange(spec, topology) for spec in BASELINES}
    return tuple(one for one in exchanges if one not in baselines)


def _pattern(entry: str | dict[str, str], topology: str) -> tuple[str, str]:
    """The spec and the topology of an entry of `schemes`."""
    if isinstance(entry, str):
        return entry, topology
    _known(entry, ["scheme", "topology"], "schemes.")
    for key in ("scheme", "topology"):
        if key not in entry:
            raise ValueError(f"a table of schemes has no {key}; give it, or the spec alone")
        _value(f"schemes.{key}", entry[key], TEXT)
    return entry["scheme"], parse_topology(entry["topology"])


def _task(table: Mapping[str, Any], workers: int) -> Task:
    _known(table, ["name", "model", *_OF_A_TASK], "task.")
    name = table.get("name", "")
    if name not in TASKS:
        raise ValueError(f"task.name={name!r} is unknown; {_near(name, list(TASKS))}")
    models = TASKS[name]
    model = table.get("model", next(iter(models)))
    if model not in models:
        raise ValueError(f"task.model={model!r} is unknown; {_near(model, list(models))}")
    values = {
        key: _value(f"task.{key}", table[key], rule)
        for key, rule in _OF_A_TASK.items()
        if key in table
    }
    task = replace(models[model], **values)
    if "text" in values and not models[model].text:
        raise ValueError(
            f"task.text is a key of the tasks characters and tokens, not of {name}; remove it"
        )
    if "momentum" in values and task.optimizer not in ("sgd", "lars"):
        raise ValueError(
            f"task.momentum is a key of sgd and lars, not of {task.optimizer}; remove it"
        )
    if task.batch % workers:
        raise ValueError(
            f"task.batch={task.batch} cannot be divided among {count_of(workers, 'worker')}; "
            "give a multiple of them"
        )
    if task.warmup > task.steps:
        raise ValueError(
            f"task.warmup={task.warmup} is more than the {count_of(task.steps, 'step')} of the "
            "task; give at most that"
        )
    return task


def _known(table: Mapping[str, Any], keys: list[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}{clip(key)} is unknown; {_near(key, keys)}")


def _near(word: Any, names: list[str]) -> str:
    return hint(str(word), names, shown=len(names), have="there are")


Rule = tuple[Callable[[Any], bool], str]


def _value(key: str, value: Any, rule: Rule) -> Any:
    right, must = rule
    if not right(value):
        raise ValueError(f"{key}={clip(repr(value))} must be {must}")
    return value


def _count(least: int, most: int) -> Rule:
    return lambda v: is_integer(v) and least <= v <= most, f"an integer of {least} to {most}"


#: The optimizers compute in fp32: products of two such numbers do not overflow in fp64.
_LARGEST = 1e30


def _texts(v: Any) -> bool:
    return isinstance(v, list) and bool(v) and all(isinstance(one, str) for one in v)


def _schemes(v: Any) -> bool:
    return isinstance(v, list) and bool(v) and all(isinstance(one, str | dict) for one in v)


def _seeds(v: Any) -> bool:
    if isinstance(v, list):
        return bool(v) and all(is_integer(s) and s >= 0 for s in v) and len(set(v)) == len(v)
    return is_integer(v) and 1 <= v <= 1000


def _among(names: tuple[str, ...]) -> Rule:
    return lambda v: v in names, f"one of {', '.join(names)}"


_MOST = 10**9  # steps, examples of a batch
_TOP: dict[str, Rule] = {
    "schemes": (_schemes, "a list of specs, or of tables {scheme = SPEC, topology = NAME}"),
    "formats": (_texts, "a list of formats"),
    "seeds": (_seeds, "how many, 1 to 1000, or a list of different integers from 0 on"),
    "gate": (lambda v: is_number(v) and v > 0, "a number of nats above 0"),
    "workers": _count(2, 2**20),
    "topology": TEXT,
    "record_steps": _count(1, 10**6),
    "record_consecutive": _count(1, 10**6),
}
_OF_A_TASK: dict[str, Rule] = {
    "batch": _count(1, _MOST),
    "steps": _count(1, _MOST),
    "optimizer": _among(OPTIMIZERS),
    "learning_rate": (
        lambda v: is_number(v) and 0 < v <= _LARGEST,
        f"a number above 0, at most {_LARGEST:g}",
    ),
    "momentum": (lambda v: is_number(v) and 0 <= v < 1, "a number from 0 to below 1"),
    "weight_decay": (
        lambda v: is_number(v) and 0 <= v <= _LARGEST,
        f"a number of 0 to {_LARGEST:g}",
    ),
    "warmup": _count(0, _MOST),
    "decay": _among(DECAYS),
    "called": (
        lambda v: isinstance(v, str) and re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", v) is not None,
        "a name of at most 40 lower-case letters, digits, - and _",
    ),
    "text": (
        lambda v: isinstance(v, str) and bool(v),
        f"{', '.join(NAMED)}, or the path of a UTF-8 file",
    ),
}
