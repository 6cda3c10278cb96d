"""A plan: every layer's scheme, the reasons, and the table, from which new limits choose again."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import made_by, of_type
from .._schemes.scheme import Scheme
from .choose import Choice, Problem, choose
from .front import corners
from .objective import LIMITS, Wish, figures, total_of
from .reasons import FIGURES, layer_rows, verdict
from .significance import ratio
from .spec import spec_of_plan
from .table import Table
from .units import Tensor


class Plan:
    """A scheme for every layer: made by `recommend`, or read by `Plan.open`.

    `replay` and other functions accept a plan, or the path of its file, as a scheme. Has nothing to
    do with `apscope.plan`, which describes how an operation on arrays is computed.

    Attributes
    ----------
    wish : Wish
        The request.
    about : dict
        Trace, steps, the reduction (``topology``), groups, and how the candidates were replayed.
        ``reductions``: of each that was tried its best plan within the limits, and this plan's
        schemes in it.
    """

    @made_by("a Plan is made by recommend, or read by Plan.open, not by its constructor")
    def __init__(
        self,
        table: Table,
        wish: Wish,
        options: np.ndarray,
        best: np.ndarray,
        single: int | None,
        gap: float,
        about: dict[str, Any],
        replayed: Table | None = None,
        banned: frozenset[int] = frozenset(),
    ) -> None:
        of_type("table", table, Table, "nothing to this class: recommend makes a plan")
        of_type("wish", wish, Wish, "nothing to this class: recommend makes a plan")
        self._table, self.wish, self.about = table, wish, about
        self._options, self._best, self._single, self._gap = options, best, single, gap
        self._replayed, self._banned = replayed, banned
        self._scheme = Scheme(self._spec())

    def _spec(self) -> str:
        sizes = {t.name: t.size for t in self._tensors}
        return spec_of_plan(
            self._table.units,
            [self._table.candidates[k] for k in self._options],
            sizes,
            self.about["groups"] == "role",
        )

    @property
    def _tensors(self) -> list[Tensor]:
        return [Tensor(t["name"], t["role"], t["size"]) for t in self.about["tensors"]]

    @property
    def scheme(self) -> Scheme:
        """The plan as a scheme: a `hybrid`, or one scheme if that is as good."""
        return self._scheme

    @property
    def spec(self) -> str:
        """The spec of `scheme`, its name in a table of results."""
        return self._scheme.spec

    @property
    def candidates(self) -> list[str]:
        """The specs of the candidates."""
        return list(self._table.candidates)

    @property
    def reduction(self) -> str:
        """How the plan's messages are reduced: a topology, or schemes' own ones, joined by ``+``.

        Empty if nothing was reduced.
        """
        return self._table.reduction(self._options)

    @property
    def lost(self) -> list[str]:
        """Names of the layers, or groups of them, of which less than half arrives.

        Only where no candidate keeps them within the limits.
        """
        own = self._table.chosen.gain[np.arange(len(self._options)), self._options]
        return [unit.name for unit, gain in zip(self._table.units, own) if gain < 0.5]

    @property
    def gap(self) -> float:
        """How far the optimum could be below this plan, as a share of the minimized figure."""
        if self.wish.minimize == "error_over_noise":
            return 1.0 - 2.0**-self._gap
        value = figures(self._table, self._table.chosen, self._best)[self.wish.minimize]
        return self._gap / value if value else 0.0

    @cached_property
    def figures(self) -> pd.DataFrame:
        """Figures of the plan, predicted and replayed, and of the best single scheme.

        Over the steps used for the choice, and over the held-out ones. One row per mixture
        (``what``: plan, plan replayed, optimum, single), stage of steps (``steps``: chosen, held
        out); the columns of `Results.summary` of these names: ``volume``, ``time``,
        ``error_over_noise`` with its interval, ``step_nmse``, ``layer_cosine``, ``underflow_wire``;
        ``overflowed`` counts rows.
        """
        units, rows = len(self._options), []
        for steps in ("chosen", "held_out"):
            mixtures = [("plan", self._table, self._options)]
            if self._replayed is not None:
                mixtures.append(("plan replayed", self._replayed, np.zeros(units, int)))
            if not np.array_equal(self._best, self._options):
                mixtures.append(("optimum", self._table, self._best))
            if self._single is not None:
                mixtures.append(("single", self._table, np.full(units, self._single)))
            rows += [
                {"what": what, "steps": steps.replace("_", " "), **figures(table, sums, options)}
                for what, table, options in mixtures
                if (sums := getattr(table, steps)) is not None
            ]
        return pd.DataFrame(rows, columns=["what", "steps", *FIGURES])

    @property
    def _counted(self) -> str:
        """Which row of `figures` is the plan's: ``plan``, or ``plan replayed``.

        The second if a candidate behaved differently in the mixture than alone.
        """
        return "plan replayed" if self._replayed and self.about.get("changed") else "plan"

    @property
    def single(self) -> str:
        """The best single candidate within the limits; empty if none is within them."""
        return "" if self._single is None else self._table.candidates[self._single]

    def against_single(self, steps: str = "held out") -> tuple[float, float, float]:
        """The error of `single` divided by the plan's, and its 95 % interval over blocks of steps.

        The plan's is the replayed one if a candidate behaved differently in the mixture than alone.

        Parameters
        ----------
        steps : {"held out", "chosen"}

        Returns
        -------
        tuple of three floats
            NaN if there is none: no single scheme within the limits, no held-out steps, one that
            overflowed or was not measured there; of the interval also with fewer than four blocks.
        """
        if steps not in ("held out", "chosen"):
            raise ValueError(f"steps='{steps}' is unknown; use 'held out' or 'chosen'")
        sums = self._table.held_out if steps == "held out" else self._table.chosen
        if self._single is None or sums is None:
            return (float("nan"),) * 3
        single, own = np.full(len(self._options), self._single), self._options
        beside = None
        if self._replayed is not None and self._counted == "plan replayed":
            beside = self._replayed.held_out if steps == "held out" else self._replayed.chosen
            own = np.zeros_like(self._options)
        return ratio(sums, self.wish.error, single, own, beside)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row per unit of the plan.

        ``layer`` (or group), ``tensors``, ``steps``, ``elements``, ``scheme``, ``volume`` (its
        share of the plan's), ``error`` (of the layer, in the minimized figure), ``loses_by`` (the
        largest part of its error), ``cheaper`` (the least error below 85 % of its volume),
        ``better`` (the least volume of those with less error) and their figures, ``sure`` (how often
        resampled steps give it the same of the plan's schemes).
        """
        return layer_rows(self._table, self.wish, self._options)

    @cached_property
    def front(self) -> pd.DataFrame:
        """The best mixtures for their volume.

        ``volume``, ``error_over_noise`` and ``step_nmse``, ``schemes`` (how many), ``largest`` (of
        most elements). Corners of the front: each is an optimum; between two of them no mixture is
        below the line.
        """
        table, error = self._table, self.wish.error
        limit = next(name for name, limited in LIMITS.items() if limited == error)
        problem = Problem(table, Wish("volume", **{limit: 1e300}), self._pinned, self._banned)
        allowed = problem.allowed.copy()
        allowed[:, list(self._banned)] = False
        volumes, _, choices = corners(
            total_of(table.chosen, "volume").adds, total_of(table.chosen, error).adds, allowed
        )
        rows = []
        for options in choices:
            values = figures(table, table.chosen, options)
            weight = np.bincount(options, table.chosen.elements, len(table.candidates))
            rows.append(
                {name: values[name] for name in ("volume", "error_over_noise", "step_nmse")}
                | {
                    "schemes": len(set(options.tolist())),
                    "largest": table.candidates[int(weight.argmax())],
                }
            )
        return pd.DataFrame(rows)

    @property
    def _pinned(self) -> np.ndarray:
        places = {
            name: self._table.candidates.index(spec) for name, spec in self.about["fixed"].items()
        }
        return np.array([places.get(unit.tensors[0], -1) for unit in self._table.units])

    def solve(
        self, minimize: str | None = None, *, simplest: bool = True, **limits: float | None
    ) -> Plan:
        """Another plan from the same table, and so in the same reduction, without a replay.

        Parameters
        ----------
        minimize : str, optional
            By default that of this plan.
        simplest : bool
            Whether fewer schemes are preferred if the difference is not significant.
        **limits
            ``max_volume`` and the others of `recommend`, also ``max_layer_error``; none is taken
            over from this plan.

        Returns
        -------
        Plan

        Raises
        ------
        ValueError
            Limits that no mixture meets; the sentence says what can be reached.
        TypeError
            An unknown limit.
        """
        if wrong := [name for name in limits if name not in (*LIMITS, "max_layer_error")]:
            raise TypeError(
                f"solve has no limit '{wrong[0]}'; use {', '.join(LIMITS)}, max_layer_error"
            )
        wish = Wish(minimize or self.wish.minimize, **limits).completed(self._table.chosen.noisy)
        about = {name: value for name, value in self.about.items() if name != "reductions"}
        return made(self._table, wish, self._pinned, about | {"simplest": simplest}, self._banned)

    def replayed(self, table: Table, changed: list[str]) -> Plan:
        """The plan with its replay: the replay's table, and candidates that behaved differently."""
        about = self.about | {"changed": changed}
        return Plan(
            self._table,
            self.wish,
            self._options,
            self._best,
            self._single,
            self._gap,
            about,
            table,
            self._banned,
        )

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the plan with its table as JSON; replaces an earlier plan.

        Parameters
        ----------
        path : path-like
        force : bool
            Whether a file that is not a plan may be replaced.

        Raises
        ------
        ValueError
            The name does not end in ``.json``, which marks a scheme's file; it is that of a folder,
            or, without `force`, of a file that is not a plan.
        OSError
            The file cannot be written.
        """
        from .file import write_plan

        return write_plan(self, path, force)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Plan:
        """Read a plan that `save` wrote.

        Raises
        ------
        ValueError
            The file is missing, or is not a plan; the sentence says what is wrong.
        """
        from .file import read_parts

        return Plan(**read_parts(path))

    def to_dict(self) -> dict[str, Any]:
        """The content of its file."""
        from .file import plan_dict

        return plan_dict(self)

    def written_as(self, tool: str) -> str:
        """The layers in the syntax of another tool: ``te``, ``torchao`` or ``regex``.

        Raises
        ------
        ValueError
            An unknown tool; ranges of steps, which no tool supports.
        """
        from .translate import written

        layers = [
            (name, self._table.candidates[k])
            for unit, k in zip(self._table.units, self._options)
            for name in unit.tensors
        ]
        if any(unit.steps for unit in self._table.units):
            raise ValueError(f"'{tool}' has no ranges of steps; make a plan with periods=1")
        return written(tool, layers)

    def verdict(self) -> str:
        """The answer in one or two sentences: the gain over the best single scheme."""
        return verdict(self)

    def choices(self) -> list[str]:
        """A sentence each on the reduction, the grid and the scale, in this order.

        The factors are those of the errors with another one, all else equal: of the plan's schemes
        in another reduction, and of the scheme with most elements, used alone, and the candidates
        that differ from it in one thing. On the held-out steps if there are any. Without the
        reduction if nothing was reduced.
        """
        from .choices import choices

        return choices(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.spec)

    def __str__(self) -> str:
        from .show import plan_text

        return plan_text(self)

    def __repr__(self) -> str:
        return f"<Plan {self.spec!r}: {self.wish}>"

    def _repr_html_(self) -> str:
        from .show import plan_html

        return plan_html(self)


def made(
    table: Table,
    wish: Wish,
    pinned: np.ndarray,
    about: dict[str, Any],
    banned: frozenset[int] = frozenset(),
) -> Plan:
    """The plan of a table.

    Raises
    ------
    ValueError
        Limits that no mixture meets; limits on time for a table without times.
    """
    if table.counts_bits and (wish.minimize == "time" or wish.max_time is not None):
        raise ValueError(
            "time needs an exchange between workers; these results "
            "have one worker, or no local gradients"
        )
    keeping = Problem(table, wish, pinned, banned)
    may_lose = keeping.solved() is None and not keeping.keeps.all()  # within these limits it must
    found: Choice = choose(
        Problem(table, wish, pinned, banned, may_lose) if may_lose else keeping, about["simplest"]
    )
    return Plan(
        table, wish, found.options, found.best, found.single, found.gap, about, None, banned
    )
