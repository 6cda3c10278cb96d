"""Misuses of the C++ library that a compiler sees: the first error is one line that a user reads.

Each program is one line after the public headers, which are compiled once.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PUBLIC = ROOT / "build/release/bindings/cpp/include"  # the headers that a user sees
COMPILER = os.environ.get("CXX", "c++")
XTENSOR = any(
    (Path(folder) / header).exists()
    for folder in ("/usr/include", "/usr/local/include")
    for header in ("xtensor/xarray.hpp", "xtensor/containers/xarray.hpp")
)

NUMBER = "a Quantizer rounds a float or a double; convert the number first"
REALS = "the numbers are float or double"
SAME = "the numbers are float or double, all of one type"
CONTIGUOUS = "the numbers are a contiguous range, such as std::vector or std::span"
VALUES = "the values are float or double"
VALUES_APART = "the values are a contiguous range, such as std::vector or std::span"
CODES = "the codes are std::uint8_t, std::uint16_t, std::uint32_t, or for doubles std::uint64_t"
CODES_APART = "the codes are a contiguous range, such as std::vector or std::span"
WIDE = "the codes of floats have at most 32 bits; use std::uint32_t, or doubles"
CONST = "the output is written, so it is not const"
TEMPORARY = "the output is a variable or a span, not a temporary array"
FACTORS = "both factors of a dot product are float, or both double"
WORKERS = "each worker's array is a contiguous range of float"
NO_CALL = r"no match(ing function)? for call to .*"
DELETED = "use of deleted function"

# A statement, and what its first error says.
MISUSES = {
    "q(1);": NUMBER,
    "q(1L);": NUMBER,
    "q(1.0L);": NUMBER,
    "q('a', 3);": NUMBER,
    "q(true);": NUMBER,
    "q(ints, ints);": NO_CALL + r"vector<int>",
    "q(floats, doubles);": NO_CALL + r"vector<float>.*vector<double>",
    "q(floats, constant);": NO_CALL + r"const std::vector<float>",
    "q(list, list);": NO_CALL + r"list<float>",
    "q.encode(ints, bytes);": VALUES,
    "q.encode(std::vector<long double>(1), bytes);": VALUES,
    "q.encode(list, bytes);": VALUES_APART,
    "q.encode(floats, ints);": CODES,
    "q.encode(floats, std::vector<std::int8_t>(1));": CODES,
    "q.encode(floats, std::vector<std::byte>(1));": CODES,
    "q.encode(floats, std::vector<char>(1));": CODES,
    "q.encode(doubles, std::vector<unsigned long long>(1));": CODES,
    "q.encode(doubles, std::vector<std::int64_t>(1));": CODES,
    "q.encode(floats, std::vector<bool>(1));": CODES_APART,
    "q.encode(floats, std::list<std::uint8_t>(1));": CODES_APART,
    "q.encode(floats, std::vector<std::uint64_t>(1));": WIDE,
    "q.encode(floats, std::as_const(bytes));": CONST,
    "q.encode(floats, floats);": CODES,
    "q.encode(floats, std::vector<std::uint8_t>(1));": TEMPORARY,
    "q.decode(ints, floats);": CODES,
    'q.decode(std::string("abc"), floats);': CODES,
    "q.decode(bytes, ints);": VALUES,
    "q.decode(bytes, constant);": CONST,
    "q.decode(bytes, list);": VALUES_APART,
    "q.decode(std::vector<std::uint64_t>(1), floats);": WIDE,
    "sum(ints, sums);": REALS,
    "sum(std::vector<long double>(1), sums);": REALS,
    "sum(list, sums);": CONTIGUOUS,
    "sum(1.0f, sums);": NO_CALL.replace("match(ing function)?", "matching function") + "float",
    "dot(floats, doubles, sums);": FACTORS,
    "dot(ints, ints, sums);": REALS,
    "dot(floats, list, sums);": CONTIGUOUS,
    "add(1, 2, how);": SAME,
    "fma(1L, 2L, 3L, how);": SAME,
    "multiply(1.0L, 2.0L, how);": SAME,
    "add(1.0f, 2.0, how);": r"no matching function for call to .*add\(float, double",
    "(void)allreduce(std::vector<std::vector<double>>(2), f);": WORKERS,
    "(void)allreduce(std::vector<std::vector<int>>(2), f);": WORKERS,
    "(void)allreduce(std::vector<std::list<float>>(2), f);": WORKERS,
    "(void)allreduce(floats, f);": r"no matching function for call to .*allreduce\(std::vector<float>",
    'constexpr auto g = format("e4m3nf");': "not_the_name_of_a_format",
    'constexpr auto g = format("e0m3nosub");': "no_format_has_these_fields",
    'constexpr auto g = format("e3m2fnb3");': "another_format_has_this_name_without_its_bias",
    "Trace nothing;": r"no matching function for call to .*Trace\(\)",
    "Results nothing{nullptr};": r"Results\(std::shared_ptr<const .*Data>\).* is private",
    '(void)replay(trace(), {}).texts("scheme");': DELETED,
    '(void)replay(trace(), {}).text(0, "scheme");': DELETED,
}
OF_XTENSOR = {
    "(void)quantize(xt::xarray<int>{1}, q);": REALS,
    '(void)quantize(xt::xarray<long double>{1}, BlockQuantizer(block_format("mxfp4")));': REALS,
    "(void)encode<int>(xt::xarray<float>{1}, q);": CODES,
    "(void)encode<std::uint64_t>(xt::xarray<float>{1}, q);": WIDE,
    "(void)decode<int>(xt::xarray<std::uint8_t>{1}, q);": VALUES,
    "(void)decode(xt::xarray<int>{1}, q);": CODES,
    "(void)allreduce(xt::xarray<double>{1}, f);": WORKERS,
    "(void)cast_statistics(xt::xarray<int>{1}, q);": REALS,
}
HEADERS = """
#include <apscope/apscope.h>
#include <list>
#include <string>
#include <utility>
#include <vector>
"""
AROUND = """
#include "headers.h"
using namespace apscope;
void misuse(const Quantizer& q, const FloatFormat& f, const Rounding& how, const Summation& sums,
            std::vector<float>& floats, std::vector<double>& doubles, std::vector<int>& ints,
            std::vector<std::uint8_t>& bytes, std::list<float>& list,
            const std::vector<float>& constant, const Trace& (&trace)()) {
    STATEMENT
}
"""

pytestmark = pytest.mark.skipif(
    not shutil.which(COMPILER) or not PUBLIC.exists(),
    reason="there is no C++ compiler, or libapscope is not built in build/release",
)


class Checker:
    """Compiles statements after headers that are compiled once."""

    def __init__(self, folder: Path, more: str) -> None:
        self.folder = folder
        (folder / "headers.h").write_text(HEADERS + more)
        self.words = [COMPILER, "-std=c++20", f"-I{PUBLIC}"]
        if "g++" in os.path.realpath(shutil.which(COMPILER) or ""):
            self.run("-x", "c++-header", "headers.h", "-o", "headers.h.gch")

    def run(self, *words: str) -> str:
        environment = {**os.environ, "LANG": "C", "LC_ALL": "C", "CCACHE_DISABLE": "1"}
        done = subprocess.run(
            [*self.words, *words], cwd=self.folder, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return done.stderr

    def errors(self, statement: str) -> list[str]:
        (self.folder / "misuse.cpp").write_text(AROUND.replace("STATEMENT", statement))
        lines = self.run("-fsyntax-only", "-fmax-errors=5", "misuse.cpp").splitlines()
        return [line for line in lines if re.search(r"\berror: ", line)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    return Checker(tmp_path_factory.mktemp("plain"), "")


@pytest.fixture(scope="module")
def with_xtensor(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    return Checker(tmp_path_factory.mktemp("xtensor"), "#include <apscope/xtensor.h>\n")


def first_error(checker: Checker, statement: str, says: str) -> None:
    errors = checker.errors(statement)
    assert errors, "it compiles"
    wanted = says if says.startswith(("no match", "Results")) else re.escape(says)
    assert re.search(wanted, errors[0]) and len(errors[0]) < 400, errors[0]


def test_what_is_right_compiles(plain):
    right = [
        "q(floats, floats); q.encode(doubles, bytes);",
        "q.encode(constant, bytes); q.decode(bytes, std::span(floats)); (void)sum(constant, sums);",
        "(void)q(1.0f); (void)q(1.0, 3); (void)q.encode(1); (void)dot(floats, constant, sums);",
        "(void)add(1.0, 2.0, how); (void)allreduce(std::vector<std::vector<float>>(2), f);",
        "(void)allreduce(std::array<std::span<const float>, 2>{floats, constant}, f);",
    ]
    assert plain.errors(" ".join(right)) == []


@pytest.mark.parametrize("statement", MISUSES)
def test_the_first_error_is_one_readable_line(statement, plain):
    first_error(plain, statement, MISUSES[statement])


@pytest.mark.skipif(not XTENSOR, reason="there is no xtensor")
@pytest.mark.parametrize("statement", OF_XTENSOR)
def test_the_first_error_of_xtensors_functions(statement, with_xtensor):
    first_error(with_xtensor, statement, OF_XTENSOR[statement])
