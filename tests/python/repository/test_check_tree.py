"""The lint's check of includes: an arrow against the map, and a folder that the map does not name."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("check_tree", ROOT / ".ci/check_tree.py")
check_tree = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_tree)


@pytest.mark.parametrize(
    ("file", "included", "finding"),
    [
        ("core/codec.cpp", "emulation/cast/quantize.h", "which is not below core/"),
        (
            "emulation/cast/quantize.cpp",
            "emulation/allreduce/reduce.h",
            "not below emulation/cast/",
        ),
        ("analysis/trace/trace.cpp", "analysis/replay/replay.h", "not below analysis/trace/"),
        ("bindings/cpp/source/replay.cpp", "bindings/module/guarded.h", "not below bindings/cpp/"),
        ("analysis/new/file.cpp", "core/rounding.h", "lies in a folder that BELOW does not name"),
    ],
)
def test_an_include_against_the_map_is_found(file, included, finding):
    found = list(check_tree.wrong_includes(file, f'#include "{included}"\n'))
    assert len(found) == 1 and finding in found[0]


def test_an_include_along_the_map_is_not():
    for file, included in [
        ("emulation/arithmetic/row_cast.cpp", "emulation/cast/row_rule.h"),
        ("bindings/module/bind_replay.cpp", "analysis/replay/replay.h"),
    ]:
        assert list(check_tree.wrong_includes(file, f'#include "{included}"\n')) == []
