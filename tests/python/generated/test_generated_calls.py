"""Every public callable, and every method of their results, on generated arguments: a result, or an
error that names the problem."""

import inspect
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apscope
from apscope.schemes import Scheme
from tests.python.generated.values import DIGITS, examples, results, value_of

#: Functions that are not called, and the reason.
NOT_CALLED = {
    "machine.bench": "takes the time that it measures",
    "machine.verify": "takes minutes for a wide format",
    "conformance.write": "writes 20 MB by default",
    "explore": "draws a whole page, and needs a notebook to show it",
    "cli.main": "test_generated_commands.py calls it",
}
#: Words of errors from inside: pybind11's signatures, of Python's attributes and items.
FOREIGN = (
    "incompatible function arguments", "incompatible constructor", "Invoked with", "\n\n",
    "has no attribute", "object is not subscriptable", "has no len()", "vector::",
)  # fmt: skip
RIGHT_ERRORS = (ValueError, TypeError, ImportError, OSError)
#: Looked at twice only.
SLOW = ("plots.", "report", "replay", "merge", "record.convert", "Results().summary")


def _public(module: types.ModuleType, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield from _public(value, f"{prefix}{name}.")
        elif callable(value) and f"{prefix}{name}" not in NOT_CALLED:
            yield f"{prefix}{name}", value


def _methods() -> Iterator[tuple[str, Any]]:
    things = {
        "Results": results(), "Trace": apscope.open_trace(DIGITS), "Scheme": Scheme("aps:e4m3"),
        "FloatFormat": apscope.FloatFormat("e4m3"),
        "BlockFormat": apscope.BlockFormat("mxfp8_e4m3"), "Draws": apscope.Draws(1),
        "Projection": apscope.Projection(),
    }  # fmt: skip
    for owner, thing in things.items():
        for name in dir(thing):
            # `states` is a property that results read from files refuse
            if (
                not name.startswith("_")
                and name != "states"
                and callable(value := getattr(thing, name))
            ):
                yield f"{owner}().{name}", value


CALLABLES = dict([*_public(apscope), *_methods()])


@st.composite
def arguments(draw: Any, called: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments without a default, sometimes those with one, rarely one too many."""
    try:
        parameters = inspect.signature(called).parameters.values()
    except ValueError:  # pybind11's
        words = [
            w.split(":")[0].strip()
            for w in (called.__doc__ or "").partition("(")[2].partition(")")[0].split(",")
        ]
        return [draw(value_of(w)) for w in words if w and w not in ("self", "*")][
            : draw(st.integers(0, 4))
        ], {}
    given_here, named = [], {}
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.VAR_POSITIONAL:
            given_here += [draw(value_of(p.name)) for _ in range(draw(st.integers(0, 3)))]
        elif p.default is p.empty and p.kind is not p.KEYWORD_ONLY:
            given_here.append(draw(value_of(p.name)))
        elif p.default is p.empty or draw(st.integers(0, 3)) == 0:
            named[p.name] = draw(value_of(p.name))
    return given_here, named


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    """Names without a folder are files here."""
    monkeypatch.chdir(tmp_path)
    yield
    if plt := sys.modules.get("matplotlib.pyplot"):
        plt.close("all")


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_any_arguments_give_a_result_or_a_sentence(name):
    called = CALLABLES[name]

    # No GPU, or a build without.
    right_errors = (*RIGHT_ERRORS, RuntimeError) if name.startswith("cuda.") else RIGHT_ERRORS

    @examples(2 if name.startswith(SLOW) else 5)
    @given(arguments(called))
    def check(given_here):
        positional, named = given_here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                called(*positional, **named)
            except right_errors as error:
                said = str(error)
                assert said.strip(), f"an error without a word: {error!r}"
                assert not any(word in said for word in FOREIGN), said

    check()
