"""A fault at one system call, the content of the directory afterwards, and whether it is
correct."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from .commands import Command, restore
from .library import Call, Run, Server

Tree = dict[str, bytes | str]

KILLS = ("kill", "kill_half", "kill_after")


def look(folder: Path) -> Tree:
    """Everything below a directory: path -> a file's bytes, a link's target, or that it is a
    folder."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = (
            f"link to {path.readlink()}"
            if path.is_symlink()
            else "folder"
            if path.is_dir()
            else path.read_bytes()
        )
    return found


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePath(name).parts)


def leftovers(now: Tree, before: Tree) -> list[str]:
    """Hidden entries that a run left: allowed until the next run."""
    return [name for name in now if name not in before and is_hidden(name)]


def part(tree: Tree, target: str, inside: bool, without: list[str]) -> Tree:
    return {
        name: what
        for name, what in tree.items()
        if ((name + "/").startswith(target + "/")) == inside and name not in without
    }


def differences(a: Tree, b: Tree) -> str:
    """The differences, in a few words."""
    words = [
        f"{name} {'is gone' if name not in b else 'is new' if name not in a else 'changed'}"
        for name in sorted({*a, *b})
        if a.get(name) != b.get(name)
    ]
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")


@dataclass(frozen=True)
class Trial:
    call: Call
    mode: str

    def __str__(self) -> str:
        return f"{self.mode} at {self.call}"


def all_trials(calls: list[Call]) -> Iterator[Trial]:
    """Every call killed before it, writes in their middle, the last one behind it; every call that
    fails, alone or as on a full disk; interrupts."""
    for call in calls:
        yield Trial(call, "kill")
        if call.is_data:
            yield Trial(call, "kill_half")
        if call.takes_space:
            yield Trial(call, "no_space")
            yield Trial(call, "disk_full")
        yield Trial(call, "io_error")
        yield Trial(call, "interrupt")
    if calls:
        yield Trial(calls[-1], "kill_after")


def thinned(trials: Iterable[Trial], data: int, others: int) -> list[Trial]:
    """One in `data` of the trials at writes of data, of which there are many and alike, and one in
    `others` of all others."""
    all_of = list(trials)
    kept = {
        id(trial)
        for is_data, every in ((True, data), (False, others))
        for trial in [t for t in all_of if t.call.is_data == is_data][::every]
    }
    return [trial for trial in all_of if id(trial) in kept]


@dataclass
class Tally:
    """The findings of the trials of one command."""

    command: str
    calls: int = 0
    trials: int = 0
    states: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    HEAD = (
        "command",
        "calls",
        "trials",
        "old",
        "new",
        "refused",
        "steps",
        "mixtures",
        "other failures",
    )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.command,
            self.calls,
            self.trials + other.trials,
            self.states + other.states,
            self.failures + other.failures,
        )

    def row(self) -> tuple[str, ...]:
        s = self.states
        counted = (
            self.calls,
            self.trials,
            s["old"],
            s["new"],
            s["refused"],
            s["steps"],
            s["mixture"],
            len(self.failures) - s["mixture"],
        )
        return (self.command, *map(str, counted))


class Bench:
    """One command in its directory: clean once, then with a fault each."""

    def __init__(self, server: Server, command: Command, inputs: Path, folder: Path) -> None:
        self.server, self.command, self.inputs, self.folder = server, command, inputs, folder
        self.job = command.job(inputs, folder)
        restore(command, inputs, folder)
        self.before = look(folder)
        run, self.calls = server.run(self.job | {"mode": "count"})
        if run.code:
            raise RuntimeError(f"{command.name}: {run}")
        self.clean = look(folder)

    def state(self) -> tuple[str, str]:
        """What stands at the target: old, new, refused, steps (of a recording) or mixture; and what
        of it is wrong."""
        now, target = look(self.folder), self.command.target
        left = leftovers(now, self.before)
        found, old, new = (
            part(tree, target, True, left) for tree in (now, self.before, self.clean)
        )
        if found == old:
            return "old", ""
        if found == new:
            return "new", ""
        if self.command.is_recording:
            return self._steps(found, old, new)
        what = (
            f"against old: {differences(old, found) or 'nothing'}; against new: "
            f"{differences(new, found)}"
        )
        if not self.command.reader:
            return "mixture", what
        read, _ = self.server.run(self.command.reader_job(self.folder))
        if read.code == 2 and read.sentence and not read.hangs:
            return "refused", read.sentence
        return "mixture", f"{what}; its reader: {read}"

    def _steps(self, found: Tree, old: Tree, new: Tree) -> tuple[str, str]:
        """Whether a recording is the trace of its first steps, or absent if none is committed."""
        manifest = f"{self.command.target}/manifest.json"
        if manifest not in found and manifest not in old:
            return "refused", ""
        read, _ = self.server.run(self.command.reader_job(self.folder))
        if read.code or read.hangs:
            return "mixture", f"the trace does not open: {read}"
        steps = [int(number) for number in read.out.split()]
        if steps != list(range(len(steps))) or len(steps) < self.command.kept_steps:
            return "mixture", f"the trace holds the steps {steps}"
        said = json.loads(found[manifest])
        of = {step["number"]: step for step in json.loads(new[manifest])["steps"]}
        was = (
            {step["number"]: step for step in json.loads(old[manifest])["steps"]}
            if manifest in old
            else {}
        )
        for step in said["steps"]:
            number = step["number"]
            for source, entries in ((new, of), (old, was)):
                files = [
                    f"{self.command.target}/step_{number:08d}/{name}" for name in step["files"]
                ]
                if entries.get(number) == step and all(
                    found[file] == source.get(file) for file in files
                ):
                    break
            else:
                return "mixture", f"step {number} is not the one that was recorded"
        return "steps", str(len(steps))

    def run(self, trial: Trial) -> tuple[Trial, str, list[str]]:
        """The trial, the state that it leaves, and everything that is wrong with it.

        Files that are written side by side come in an order of their own each time: the trial that
        is returned names the call that it met.
        """
        restore(self.command, self.inputs, self.folder)
        run, made = self.server.run(self.job | {"mode": trial.mode, "at": trial.call.number})
        met = next((call for call in made if call.number == trial.call.number), trial.call)
        return (Trial(met, trial.mode), *self.judged(run, trial.mode))

    def judged(self, run: Run, mode: str) -> tuple[str, list[str]]:
        """The state that a run left, one that was disturbed as `mode` says, and everything that is
        wrong with it; runs it again."""
        state, what = self.state()
        wrong = [f"{state}: {what}"] if state == "mixture" else []
        now = look(self.folder)
        left = leftovers(now, self.before)
        around, was = (part(tree, self.command.target, False, left) for tree in (now, self.before))
        if around != was:
            wrong.append(f"beside it {differences(was, around)}")
        wrong += self._ending(mode, run, state)
        if state == "steps" or (state == "old" and self.command.is_recording):
            committed = sum(line.startswith("committed") for line in run.out.splitlines())
            if int(what or 0) < committed:
                wrong.append(f"{committed} steps were committed, {what or 0} are there")
        return state, wrong + self._repeat(state, left)

    def _ending(self, mode: str, run: Run, state: str) -> list[str]:
        if run.hangs:
            return ["it hangs"]
        if mode in KILLS:
            return [] if run.code == -9 else [f"was not killed: {run}"]
        if mode == "terminate" and run.code in (-15, 143):
            return []
        if self.command.is_recording and run.code == 0:
            whole = state == "new" or (run.sentence or run.err.count("\n") == 1)
            return [] if whole else [f"the recording is not whole, and no line says so: {run}"]
        if run.code == 0:
            return (
                [] if state == "new" else [f"says that all is well, and what is there is {state}"]
            )
        if run.sentence is None:
            return [f"no sentence: {run}"]
        if run.code != (130 if mode == "interrupt" else 2):
            return [f"a wrong exit status: {run}"]
        return []

    def _repeat(self, state: str, left: list[str]) -> list[str]:
        """The same command again gives the result of a clean run, or reports that it exists
        already."""
        run, _ = self.server.run(self.job)
        now = look(self.folder)
        if run.hangs:
            return ["a repeat hangs"]
        if run.code == 0 or (state == "new" and run.code == 2 and run.sentence):
            if now == self.clean:
                return []
            return [
                f"a repeat {'gives another tree' if run.code == 0 else 'leaves leftovers'}: "
                f"{differences(self.clean, now)} (left before it: {', '.join(left[:4])})"
            ]
        return [f"a repeat fails: {run}"]

    def all(self, trials: list[Trial]) -> Tally:
        tally = Tally(self.command.name, len(self.calls))
        for trial in trials:
            trial, state, wrong = self.run(trial)
            tally.trials += 1
            tally.states[state] += 1
            tally.failures += [f"{self.command.name}, {trial}: {'; '.join(wrong)}"] if wrong else []
        return tally


__all__ = ["Bench", "Tally", "Trial", "all_trials", "differences", "leftovers", "look", "thinned"]
