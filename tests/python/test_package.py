"""`import apscope`: what it names, once each, and what waits for its first use."""

import re
import subprocess
import sys
import types

import pytest

import apscope

NAMED = re.findall(r"(?<!`)`([\w.]+)`(?!`)", apscope.__doc__)


def run(program):
    return subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)


def test_the_docstring_names_everything_once():
    assert sorted(n for n in NAMED if "." not in n and n not in ("plots", "record")) == sorted(n for n in apscope.__all__ if n != "__version__")
    assert len(NAMED) == len(set(NAMED))
    for name in NAMED:
        thing = apscope
        for part in name.split("."):
            thing = getattr(thing, part)
    assert all(hasattr(apscope, name) for name in apscope.__all__)


def test_plots_are_there_after_import_apscope_and_not_before_they_are_used():
    assert run("import apscope, sys; assert 'matplotlib' not in sys.modules; apscope.plots.nmse_by_layer; assert 'matplotlib' in sys.modules").returncode == 0
    assert run("import apscope; apscope.record.TraceWriter").returncode == 0
    assert {"plots", "record", "quantize"} <= set(dir(apscope))
    with pytest.raises(AttributeError, match="module 'apscope' has no attribute 'nothing'"):
        apscope.nothing


@pytest.mark.parametrize("name", [n for n in apscope.__all__ if f"apscope.{n}" in sys.modules and isinstance(getattr(apscope, n), types.FunctionType)])
def test_a_function_with_its_modules_name_offers_what_the_module_does(name):
    done = run(f"import apscope, apscope.{name} as r; assert callable(r) and r.{name} is r is apscope.{name}; from apscope.{name} import {name} as f; assert f is r")
    assert done.returncode == 0, done.stderr
    module, function = sys.modules[f"apscope.{name}"], getattr(apscope, name)
    assert all(getattr(function, part) is getattr(module, part) for part in module.__all__)


def test_a_report_module_taken_by_name_gives_its_page():
    assert run("import apscope.report as r; assert callable(r.page) and callable(r.report) and callable(r)").returncode == 0
