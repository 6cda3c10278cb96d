"""`import apscope`: its names, once each; names imported on first use; the public modules."""

import functools
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import apscope
from apscope.schemes import Scheme

PACKAGE = Path(apscope.__file__).parent
NAMED = re.findall(r"(?<!`)`([\w.]+)`(?!`)", apscope.__doc__)
#: The modules whose names do not begin with an underscore: those that `import apscope` offers, and
#: the adapters for PyTorch.
PUBLIC = {
    *(f"apscope.{name}" for name in apscope._MODULES),
    *(EXTRAS := {f"apscope.{name}" for name in apscope._EXTRAS}),
    *(f"apscope.studies.{name}" for name in apscope.studies.__all__),
    *(
        ADAPTERS := {
            f"apscope.record.torch_{name}"
            for name in ("ddp", "huggingface", "layers", "lightning", "optimizer", "workers")
        }
    ),
}


def is_there(module):
    """Whether it is imported here: some need an extra."""
    return module not in EXTRAS or importlib.util.find_spec("torch") is not None


#: The public modules that can be imported here, but for the adapters.
HERE = ["apscope", *sorted(name for name in PUBLIC - ADAPTERS if is_there(name))]
every_module = pytest.mark.parametrize("name", HERE)


def run(program):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )


def modules():
    """Every module of the package by its dotted name, without those that have a private part;
    `__main__` is not imported."""
    for path in PACKAGE.rglob("*.py"):
        parts = ("apscope", *path.relative_to(PACKAGE).with_suffix("").parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


def test_the_docstring_names_everything_once():
    assert sorted(n for n in NAMED if "." not in n) == sorted(
        n for n in apscope.__all__ if n != "__version__"
    )
    assert len(NAMED) == len(set(NAMED))
    for name in NAMED:
        thing = apscope
        for part in name.split("."):
            thing = getattr(thing, part)


def test_what_is_not_in_the_list_of_public_modules_begins_with_an_underscore():
    assert set(modules()) - {"apscope"} == PUBLIC


@every_module
def test_a_public_module_says_what_it_is_and_offers_what_it_names(name):
    module = importlib.import_module(name)
    assert module.__doc__ and isinstance(module, types.ModuleType)
    assert len(set(module.__all__)) == len(module.__all__)
    for part in module.__all__:
        assert getattr(module, part) is not None
        offered = (
            importlib.util.find_spec(f"{name}.{part}") if hasattr(module, "__path__") else None
        )
        assert offered is None or isinstance(getattr(module, part), types.ModuleType), (
            f"{name}.{part} hides the module of its name"
        )


@every_module
def test_what_a_public_module_imports_is_not_among_its_names(name):
    module = importlib.import_module(name)
    # A package has its modules too, once they are imported.
    below = {
        part
        for part, thing in vars(module).items()
        if isinstance(thing, types.ModuleType) and thing.__name__ == f"{name}.{part}"
    }
    assert set(module.__all__) <= set(dir(module))
    assert {part for part in dir(module) if not part.startswith("_")} <= {*module.__all__, *below}


def test_import_as_gives_the_module():
    lines = [
        f"import {name} as m; assert type(m) is types.ModuleType and m.__name__ == '{name}', m"
        for name in sorted(PUBLIC)
        if "torch" not in name
    ]
    done = run("\n".join(["import types", *lines]))
    assert done.returncode == 0, done.stderr


def test_what_is_slow_to_import_waits_for_its_use():
    slow = ("pandas", "pyarrow", "matplotlib", "jinja2", "torch", "tqdm")
    program = (
        "import sys, time; start = time.perf_counter(); import apscope; took = "
        f"time.perf_counter() - start; print(took, [m for m in {slow} if m in sys.modules])"
    )
    runs = [run(program).stdout.split(maxsplit=1) for _ in range(3)]
    print(f"import apscope takes {min(float(seconds) for seconds, _ in runs):.3f} s")
    assert all(found.strip() == "[]" for _, found in runs)


LOADED = (
    "print([m for m in ('pandas', 'pyarrow.compute', 'matplotlib', 'jinja2', 'torch', "
    "'tqdm', 'asyncio', 'apscope.record') if m in sys.modules])"
)


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["schemes", "aps"], []),
        (["info", "notebooks/data/digits"], []),
        (["replay", "notebooks/data/digits", "--scheme", "aps:e4m3", "-o", "RESULTS"], []),
        (["summary", "RESULTS"], ["pandas", "pyarrow.compute"]),
    ],
    ids=lambda words: words[0] if words else "",
)
def test_a_command_imports_what_it_uses(words, loaded, tmp_path, digits_results):
    """Importing pandas takes longer than a replay of a bundled trace, so `apscope replay` does
    without."""
    words = [
        {"RESULTS": str(digits_results if words[0] == "summary" else tmp_path / "results")}.get(
            word, word
        )
        for word in words
    ]
    done = run(f"import sys; from apscope.cli import main; assert main({words}) == 0; {LOADED}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(loaded)


@pytest.fixture(scope="module")
def digits_results(tmp_path_factory):
    return apscope.replay("notebooks/data/digits", "aps:e4m3", topology="ring", steps="0:1").save(
        tmp_path_factory.mktemp("results")
    )


def test_names_that_wait_are_there():
    assert (
        run(
            "import apscope, sys; apscope.plots.nmse_by_layer; assert 'matplotlib' in sys.modules"
        ).returncode
        == 0
    )
    assert (
        run(
            "from apscope import *; replay, report, Results, schemes.APS, studies.levels"
        ).returncode
        == 0
    )
    assert {*apscope.__all__, "quantize"} <= set(dir(apscope))
    with pytest.raises(AttributeError, match="module 'apscope' has no attribute 'nothing'"):
        apscope.nothing


def test_no_module_of_the_package_calls_its_own_sum_sum():
    """`apscope.sum` is the contract's name; a module that imported it so would sum otherwise than
    its reader thinks."""
    for path in PACKAGE.rglob("*.py"):
        found = re.findall(r"^\s*from [\w.]*sums import (.*)$", path.read_text(), re.MULTILINE)
        assert (path.name == "__init__.py" and path.parent == PACKAGE) or not any(
            "sum" in names for names in found
        ), path


def public():
    """Every public function and class, and its name where it is offered."""
    for name in HERE:
        module = importlib.import_module(name)
        for part in module.__all__:
            if callable(thing := getattr(module, part)):
                yield thing, f"{name}.{part}"


def public_classes():
    found = {thing: name for thing, name in public() if inspect.isclass(thing)}
    return [pytest.param(thing, id=name) for thing, name in found.items()]


@pytest.mark.parametrize("cls", public_classes())
def test_every_public_property_and_method_says_what_it_is(cls):
    ours = {
        name
        for base in cls.__mro__
        if not base.__module__.startswith("torch.")
        for name in vars(base)
    }
    named = [name for name in ours if not name.startswith("_")]
    documented = [
        name
        for name in named
        if isinstance(inspect.getattr_static(cls, name), property | functools.cached_property)
        or callable(getattr(cls, name))
    ]
    assert [
        name for name in documented if not inspect.getdoc(inspect.getattr_static(cls, name))
    ] == []


#: Functions that accept all arguments.
NEVER_RAISES = {"guess_role", "main"}


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(thing, id=name)
        for thing, name in public()
        # Classes of schemes have tests of their own.
        if not (inspect.isclass(thing) and issubclass(thing, Scheme) and thing is not Scheme)
    ],
)
def test_a_public_name_says_what_it_takes_gives_and_refuses(thing):
    text = inspect.getdoc(thing)
    sections = re.findall(r"^(\w+)\n-{4,}$", text, re.MULTILINE)
    assert re.match(r"\S.*[.?:)]", text.replace("\n", " ")) and len(sections) == len(set(sections))
    if not inspect.isfunction(thing):
        return
    parameters = inspect.signature(thing).parameters
    assert ("Parameters" in sections) == bool(parameters), "Parameters"
    assert ("Returns" in sections) == (thing.__annotations__["return"] not in ("None", None)), (
        "Returns"
    )
    assert ("Raises" in sections) == (bool(parameters) and thing.__name__ not in NEVER_RAISES), (
        "Raises"
    )
    listed = re.search(
        r"^Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE
    )
    entries = [] if listed is None else re.findall(r"^(\S.*?)(?: : .*)?$", listed[1], re.MULTILINE)
    names = {name.strip("`* ") for entry in entries for name in entry.split(",")}
    spoken = re.findall(r"`(\w+)`", listed[1]) if listed else []
    assert set(parameters) <= names | set(spoken), set(parameters) - names
