"""Arguments of verbs: a short form to declare one, and those that several verbs share."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace, _ActionsContainer
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .._results.results import Results
    from ..cost import Network

#: The links of nodes by default: those of a DGX H100.
LINKS = "nvlink4,infiniband_ndr"


class Add(Protocol):
    """Adds an argument, given as the help prints it: an integer if its value is N.

    A flag if it has neither value nor choices.
    """

    def __call__(self, argument: str, text: str, **more: Any) -> None: ...


class _Once(Action):
    """Stores a value; an option that is given twice is refused, so that neither value is lost."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        seen = vars(namespace).setdefault("_given_once", {})
        if option_string is not None and self.dest in seen:
            raise ValueError(
                f"{parser.prog.removeprefix('apscope').strip()}: {option_string} is given twice, "
                f"{seen[self.dest]} and {values}; it takes one value"
            )
        seen[self.dest] = values
        setattr(namespace, self.dest, values)


def adder(to: _ActionsContainer) -> Add:
    """For a parser or a group: ``add("-o, --output FILE", text)``; `more` as in `add_argument`."""

    def add(argument: str, text: str, **more: Any) -> None:
        *names, last = argument.split(", ")
        name, _, metavar = last.partition(" ")
        if metavar:
            more["metavar"] = metavar
            more.setdefault("type", int if metavar == "N" else None)
        elif "choices" not in more:
            more.setdefault("action", "store_true")
        if last.startswith("-"):
            more.setdefault("action", _Once)
        to.add_argument(*names, name, help=text, **more)

    return add


def listed(given: list[str] | None) -> list[str] | None:
    """The words of a repeatable option, each a list with commas, once each."""
    if given is None:
        return None
    return list(dict.fromkeys(word for part in given for word in part.split(",") if word))


def add_results(add: Add) -> None:
    """The folder of results that is read."""
    add("results RESULTS", "a folder written by apscope replay")


def add_written_results(add: Add) -> None:
    """The folder of results that is written."""
    add("-o, --output RESULTS", "the folder to write", required=True)
    add("--force", "replace earlier results, or files of the same names, in the folder")
    add("--csv", "write results.csv even if there are more than 200,000 rows", default=None)


def add_part_of_trace(add: Add) -> None:
    """Reductions, steps and workers, where the source is a trace or results."""
    add(
        "--topology NAME",
        "a reduction; repeatable; by default ring and two_phase, for results the first replayed "
        "and all in two phases",
        action="append",
    )
    add("--steps A:B", "for a trace: recorded step numbers A <= step < B, or a list A,B,C")
    add("--workers N", "for a trace: only ranks 0..N-1")


def add_threads(add: Add) -> None:
    """The threads of a replay that a verb makes for itself."""
    add("--threads N", "threads of a replay; 0: all of the machine", default=0)


def add_elements(add: Add, what: str) -> None:
    """The size of the model whose times are computed."""
    text = f"{what} for a model of N parameters; default %(default)g"
    add("--elements N", text, type=float, default=25.6e6)


def add_gained(add: Add) -> None:
    """What the excess loss of every kind of scheme is expected by."""
    add(
        "--gained NATS",
        "expect the excess loss in training of every kind of scheme, for a training whose fp32 "
        "loss falls by NATS from its middle to its end; of results of replay --persistence",
        type=float,
    )


def add_network(add: Add) -> None:
    """The nodes and links of modelled times."""
    add("--nodes G", "times for workers on G nodes, neighbours together", type=int)
    add(
        "--links INSIDE,BETWEEN",
        f"with --nodes: links inside a node and between nodes; default {LINKS}; docs/nodes.md has "
        "their names",
    )


def network_of(args: Namespace) -> Network | None:
    """The network of `add_network`; None: that of every verb without."""
    from ..cost import Network

    if args.nodes is None:
        if args.links is not None:
            raise ValueError(f"--links {args.links} needs --nodes, such as --nodes 2")
        return None
    names = (args.links or LINKS).split(",")
    if len(names) != 2:
        raise ValueError(f"--links {args.links} is not INSIDE,BETWEEN, such as {LINKS}")
    return Network.of(*names, nodes=args.nodes)


def add_shape(
    parser: ArgumentParser, json: str = "print a list of rows: all columns, every digit"
) -> None:
    """A machine's format in place of the tables."""
    add = adder(parser.add_mutually_exclusive_group())
    add("--json", json)
    add("--csv", "print CSV: all columns, every digit")


def open_results(source: str) -> Results | None:
    """The results in this folder; None if it is a trace, a URL or neither."""
    from .._folders.results import check_readable
    from .._results.results import Results
    from .._traces.opening import is_url

    if is_url(source):
        return None
    folder = check_readable(source)
    if (folder / "manifest.json").exists() or not (folder / "provenance.json").exists():
        return None
    return Results.open(folder)
