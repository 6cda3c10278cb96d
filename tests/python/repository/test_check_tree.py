"""The lint's check of sources as texts: drawn rows in C++ comments (formulas, tables and bits, one to
a row), includes against the map of folders."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("check_tree", ROOT / ".ci/check_tree.py")
check_tree = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_tree)

JOINED = """\
// birder: an adaptive step made of one stochastic bit per element, without error feedback or
// warm-up.
//
//      m_w = beta m_w + (1 - beta) g_w       b_w = beta b_w + (1 - beta) |g_w|     in fp32, so
//      |m_w| <= b_w u_w = m_w / b_w, 0 where b_w = 0      (amsgrad: b_w = max(b_w, its last value))
//      sent_w = Q(u_w)                       Q(u) = +1 with probability (1 + u) / 2, else -1
"""
WRAPPED = """\
//      c = 1.5 2^(max(exponent(x), emin) + f - m)      f = 23 in fp32, 52 in fp64
//      lifted = x + c                                  x to nearest, ties to even, in quanta of the
//      format r = lifted - c                                  exact (Sterbenz)
"""
WRAPPED_AS_TEXT = """\
//   exact      fp32 can represent every sum of two values: they are multiples of the finest
// quantum, and the largest
"""


def test_a_row_that_joins_two_statements_is_found():
    assert list(check_tree.joined_rows(JOINED)) == [
        "joins two statements on line 5: one formula, one row",
        "breaks the drawn row on line 5 as prose: go on under its column",
    ]


@pytest.mark.parametrize(("text", "line"), [(WRAPPED, 2), (WRAPPED_AS_TEXT, 1)])
def test_a_row_that_is_broken_as_prose_is_found(text, line):
    assert list(check_tree.joined_rows(text)) == [
        f"breaks the drawn row on line {line} as prose: go on under its column"
    ]


@pytest.mark.parametrize(
    "row",
    [
        "m_w = beta m_w + (1 - beta) g_w       b_w = beta b_w",
        "q = max(0, x < 0 ? a : b)",
        "S = largest / A where 0 < A <= largest",
        "F[j] = min over i < j of F[i]",
        "T = target, E = k",
    ],
)
def test_statements_that_stand_apart_are_not_joined(row):
    assert list(check_tree.joined_rows(f"//      {row}\n")) == []


@pytest.mark.parametrize("row", ["a <= b = c", "a = b = c", "a < b c > d", "a <= b_w u_w = m / b"])
def test_relations_that_do_not_read_on_are_joined(row):
    assert list(check_tree.joined_rows(f"//      {row}\n")) == [
        "joins two statements on line 1: one formula, one row"
    ]


def test_full_rows_may_go_on_under_a_column_or_begin_a_new_row():
    full = (
        "//      noise block   32 consecutive elements, counted from the start; the last is"
        + 10 * "x"
    )
    assert len(full) > 90
    for below in (
        "//                    shorter than the others",
        "//      D[w]          the-sum-over-the-block of (g[w] - m)^2",
        "//",
    ):
        assert list(check_tree.joined_rows(f"{full}\n{below}\n")) == []


def test_the_tree_has_no_joined_rows():
    sources = [name for name in check_tree.tracked() if Path(name).suffix in check_tree.CPP]
    assert sum("\n//      " in (ROOT / name).read_text() for name in sources) > 50
    for name in sources:
        assert list(check_tree.joined_rows((ROOT / name).read_text())) == [], name


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


def test_a_type_that_two_headers_define_is_found():
    a = "namespace apscope::detail {\nstruct Pair {\n    struct Place {\n"
    b = "namespace apscope::detail {\nclass Pair final : public Base {\n"
    c = "namespace apscope::detail::oracle {\nstruct Pair;\nenum class Pair {\n"
    assert list(check_tree.defined_twice({"a.h": a, "b.h": b, "c.h": c})) == [
        "a.h and b.h define apscope::detail::Pair: one of both needs another name"
    ]
