"""Several processes that write one place at once: one writes everything, the others get an
error."""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .commands import REPORT, Command, convert, replay, restore
from .library import Run, Server
from .trials import Tree, differences, is_hidden, look

MOST = 8  # writers at once


@dataclass(frozen=True)
class Race:
    """Commands that differ in a number and write the same place."""

    name: str
    command: Callable[[int], Command]
    #: Whether the second writer finds something there that it must not replace.
    one_wins: bool = False


def _report(number: int) -> Command:
    return Command("report", (*REPORT[:1], f"INPUTS/seed{number}", *REPORT[2:]), target="out.html")


RACES = {
    race.name: race
    for race in (
        Race("replay", lambda i: Command("replay", replay(seed=i)), one_wins=True),
        Race(
            "replay into an empty folder",
            lambda i: Command("replay", replay(seed=i), before="empty"),
            one_wins=True,
        ),
        Race(
            "replay --force over others",
            lambda i: Command("replay", replay("--force", seed=i), before="results"),
        ),
        Race(
            "convert", lambda i: Command("convert", convert("--name", f"trace {i}")), one_wins=True
        ),
        Race(
            "conformance write",
            lambda i: Command("write", ("conformance", "write", "out", "--format", f"e2m{i + 1}")),
            one_wins=True,
        ),
        Race("report", _report),
        Race("Recorder", lambda i: Command("Recorder", script=("record", "out", i, 0, False))),
        Race("TraceWriter", lambda i: Command("TraceWriter", script=("write", "out", i))),
    )
}


def make_inputs(server: Server, inputs: Path) -> None:
    """Results that differ, for reports."""
    for seed in range(MOST):
        run, _ = server.run(
            {
                "words": [
                    w.replace("INPUTS", str(inputs)) for w in replay(seed=seed, out=f"seed{seed}")
                ],
                "under": str(inputs),
            }
        )
        assert run.code == 0, run


@dataclass
class Outcome:
    """Of many rounds of a race."""

    name: str
    writers: int
    rounds: int
    mixtures: int
    failures: Counter[str]
    seconds: float

    def __str__(self) -> str:
        found = "".join(f"\n  {count} times: {what}" for what, count in self.failures.most_common())
        return (
            f"{self.name}, {self.writers} at once, {self.rounds} rounds in {self.seconds:.0f} "
            f"s: {self.mixtures} mixtures{found}"
        )


def run(
    server: Server, race: Race, inputs: Path, folder: Path, writers: int, rounds: int
) -> Outcome:
    commands = [race.command(number) for number in range(writers)]
    clean: list[Tree] = []
    for command in commands:
        restore(command, inputs, folder)
        ran, _ = server.run(command.job(inputs, folder))
        assert ran.code == 0, ran
        clean.append(look(folder))
    found, mixtures, begun = Counter[str](), 0, time.monotonic()
    for _ in range(rounds):
        restore(commands[0], inputs, folder)
        before = look(folder)
        runs = server.together([command.job(inputs, folder) for command in commands])
        mixed, wrong = judge(race, runs, look(folder), before, clean)
        mixtures += mixed
        found.update(wrong)
    return Outcome(race.name, writers, rounds, mixtures, found, time.monotonic() - begun)


def judge(
    race: Race, runs: list[Run], now: Tree, before: Tree, clean: list[Tree]
) -> tuple[bool, list[str]]:
    """Whether the remaining files belong to no run, and everything that is wrong."""
    wrong = [
        f"no sentence: {run}"
        for run in runs
        if run.hangs or (run.code != 0 and (run.code != 2 or run.sentence is None))
    ]
    winners = [number for number, run in enumerate(runs) if run.code == 0]
    if not winners:
        wrong.append(f"nobody succeeded; the first says {runs[0].sentence}")
    if race.one_wins and len(winners) > 1:
        wrong.append(f"{len(winners)} say that they wrote a place that only one may write")
    if any(now == clean[number] for number in winners):
        return False, wrong
    if any(now == tree for tree in clean):
        return False, [*wrong, "what is there is the work of one that says it failed"]
    left = [name for name in now if name not in clean[0] and is_hidden(name)]
    if {name: what for name, what in now.items() if name not in left} in clean:
        return False, [
            *wrong,
            f"left behind: {', '.join(re.sub('-[0-9a-f]{8,}', '-*', name) for name in left)}",
        ]
    if now == before:
        return False, [*wrong, "nothing was written"]
    return True, [
        *wrong,
        f"what is there is nobody's: {min((differences(tree, now) for tree in clean), key=len)}",
    ]
