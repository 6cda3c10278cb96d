"""Arguments of the wrong kind: TypeError or ValueError in our own words."""

import inspect
import re
import warnings

import numpy as np
import pytest

import apscope
from apscope import conformance, cost, hybrid, p3109, record, schemes, studies

HALF = "\ud800"


@pytest.fixture(scope="module")
def trace(digits):
    return apscope.open_trace(digits)


@pytest.fixture(scope="module")
def results(trace):
    return apscope.replay(trace, "aps:e4m3", steps="0:2", topology="ring")


CALLS = {
    "Trace(5)": lambda t, r: apscope.Trace(5),
    "step_time(5)": lambda t, r: cost.step_time(5),
    "step_time(network)": lambda t, r: cost.step_time(r, "tree"),
    "summary(network)": lambda t, r: r.summary(network="tree"),
    "summary(elements)": lambda t, r: r.summary(elements="a"),
    "summary(batch_factor)": lambda t, r: r.summary(batch_factor="a"),
    "as_columns": lambda t, r: r.as_columns("a"),
    "quantize(block)": lambda t, r: apscope.quantize(apscope.BlockFormat("mxfp8_e4m3"), "e4m3"),
    "quantize(block format)": lambda t, r: apscope.quantize(
        np.ones(3, np.float32), apscope.BlockFormat("mxfp8_e4m3")
    ),
    "FloatFormat": lambda t, r: apscope.FloatFormat(HALF),
    "FloatFormat(5)": lambda t, r: apscope.FloatFormat(5),
    "BlockFormat": lambda t, r: apscope.BlockFormat(HALF),
    "BlockFormat(5)": lambda t, r: apscope.BlockFormat(5),
    "quantize": lambda t, r: apscope.quantize(1.0, HALF),
    "check(steps)": lambda t, r: t.check(steps=[99_999]),
    "check(negative)": lambda t, r: t.check(steps=[-1]),
    "check(kinds)": lambda t, r: t.check(kinds=["a"]),
    "spec": lambda t, r: apscope.replay(t, f"aps:{HALF}"),
    "define": lambda t, r: schemes.define(HALF, "aps:e4m3"),
    "topology": lambda t, r: apscope.replay(t, "aps:e4m3", topology=HALF),
    "read(name)": lambda t, r: t.read(t.steps[0], HALF),
    "read(step)": lambda t, r: t.read("a", t.tensors[0]),
    "read(worker)": lambda t, r: t.read(t.steps[0], t.tensors[0], "x"),
    "read(kind)": lambda t, r: t.read(t.steps[0], t.tensors[0], 0, 5),
    "names(kind)": lambda t, r: t.names(t.steps[0], 5),
    "ladder(5)": lambda t, r: apscope.ladder(5),
    "greedy(5)": lambda t, r: hybrid.greedy(5, "none:e4m3", "none:fp16", 3),
    "rounding": lambda t, r: apscope.Projection(HALF),
    "projection": lambda t, r: apscope.Projection.from_json("[1]"),
    "projection keys": lambda t, r: apscope.Projection.from_json('{"a": 1}'),
    "scheme": lambda t, r: schemes.Scheme.from_json("[1]"),
    "scheme deep": lambda t, r: schemes.Scheme.from_json("[" * 100_000),
    "Network": lambda t, r: cost.Network(latency="a"),
    "pack": lambda t, r: conformance.check(5, np.float32),
    "merge": lambda t, r: apscope.merge(5),
    "pool": lambda t, r: r.pool(by=5),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(name, trace, results):
    with pytest.raises((TypeError, ValueError)) as told:
        CALLS[name](trace, results)
    said = str(told.value)
    assert said and "\n" not in said and "incompatible" not in said and len(said) < 600


ODD = [
    None,
    5,
    -1,
    2.5,
    float("nan"),
    "a",
    HALF,
    "\0",
    b"x",
    [],
    {},
    object(),
    np.zeros(3),
    np.float32,
    (1, 2),
    lambda: 0,
]


#: Right arguments, so that the one wrong argument of a call is reached.
RIGHT = {
    "x": np.float32([[1, 2], [3, 4]]), "a": np.float32([[1, 2], [3, 4]]),
    "b": np.float32([[1, 2], [3, 4]]), "c": np.float32([[1, 2], [3, 4]]),
    "codes": np.uint8([[1, 2], [3, 4]]), "format": "e4m3", "scheme": "aps:e4m3",
    "spec": "aps:e4m3", "operation": "sum",
}  # fmt: skip
BLOCKS = ("quantize_blocks", "encode_blocks", "decode_blocks")


def public_functions():
    for module in (apscope, cost, hybrid, record, studies, p3109, conformance, schemes):
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            function = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(function) or not callable(function):
                continue
            if function in (apscope.FloatFormat, apscope.BlockFormat):
                continue  # classes of C++, which test_format_arguments has
            yield f"{module.__name__}.{name}", function


def test_one_odd_argument_of_a_right_call_is_answered_in_our_words(
    trace, results, tmp_path, monkeypatch
):
    """apscope.sum(x, "e4m3", order=3) printed pybind11's list of C++ signatures."""
    monkeypatch.chdir(tmp_path)
    methods = (
        trace.read, trace.names, trace.check, trace.files, results.as_columns, results.summary,
        results.compare, results.pool, apscope.Results.open, schemes.Scheme.from_json,
        apscope.Projection.from_json,
    )  # fmt: skip
    strange, calls = [], 0
    for name, function in [*public_functions(), *((m.__qualname__, m) for m in methods)]:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]
        right = {p.name: RIGHT.get(p.name, "x") for p in parameters if p.default is p.empty}
        if name.rpartition(".")[2] in BLOCKS:
            right["format"] = "mxfp4"
        for p in parameters:
            for odd in ODD:
                calls += 1
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = function(**(right | {p.name: odd}))
                        if hasattr(made, "__next__"):
                            list(made)
                except (TypeError, ValueError, OSError) as error:
                    if not re.search("incompatible|Invoked with|overload|pybind", str(error)):
                        continue
                    told = error
                except BaseException as error:  # noqa: BLE001  # whatever it is
                    told = error
                else:
                    continue
                strange.append(f"{name}({p.name}={odd!r:.30}): {told!r:.90}")
    assert calls > 3000 and not strange, "\n".join(strange)


@pytest.mark.parametrize("made", [apscope.FloatFormat, apscope.BlockFormat])
def test_odd_arguments_of_a_format_are_answered_in_our_words(made):
    """One by place, and two; of from_json too. No call of C++ has a signature to take names from."""
    strange = []
    for function in (made, made.from_json):
        for first in ODD:
            for second in ([], ["a"], [5], [{}]):
                try:
                    function(first, *second)
                except (TypeError, ValueError) as error:
                    if not re.search("incompatible|Invoked with|overload|pybind", str(error)):
                        continue
                    told = error
                except BaseException as error:  # noqa: BLE001  # whatever it is
                    told = error
                else:
                    continue
                strange.append(f"{function.__name__}({first!r:.30}, {second}): {told!r:.90}")
    assert not strange, "\n".join(strange)
