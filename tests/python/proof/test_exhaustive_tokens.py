"""The digest of C++ sources: the same as long as the compiler sees the same, another when it does not."""

import shutil
import subprocess

import pytest

from tests.exhaustive import tokens
from tests.exhaustive.sources import PARTS, Tree

HEADER = r"""// What this file is for.
#pragma once

#include <cstdint>

#include "core/other.h"

#define SQUARE(x) ((x) * (x))
#define THREE (3)

namespace apscope {

/* A word
   about it. */
[[nodiscard]] inline int f(int a, int b) {
    const char* url = "https://example.org/*no comment*/";  // nor "this" a string
    const char* raw = R"x(a // b
 \
 "c" )" /* d */)x";
    const char quote = '"', tick = '\'';
    if (a > 1'000'000) return SQUARE(a) + +b;
    return a++ + b - 0x1p-3f;
}

}  // namespace apscope
"""


def digest(*texts: str) -> str:
    return tokens.digest(map(tokens.parse, texts))


def changed(old: str, new: str) -> str:
    assert HEADER.count(old) == 1
    return digest(HEADER.replace(old, new))


@pytest.mark.parametrize(
    "old, new",
    [
        ("// What this file is for.", '// Something else, with an apostrophe\'s " and R"( in it.'),
        ("// What this file is for.\n", '/* R"x( */'),
        ("   about it. */", " */"),
        ('  // nor "this" a string', ""),
        (" + +b", "\n        +\n        +  b"),
        ("(int a, int b) {", "(int a,\n int b)\n{"),
        ("a++ + b", "a++/* then */+b"),
        ("return SQUARE", "return\\\n SQUARE"),
        ("quote", "qu\\\note"),
        ("((x) * (x))", "((x) *  \\\n    (x))  // twice"),
        ("#define THREE", "#  define   THREE"),
        ('#include "core/other.h"', '#include "elsewhere/deep/other.h"'),
        ('#include "core/other.h"\n', '#include "core/other.h"\n#include "core/third.h"\n'),
        ("#pragma once\n", ""),
        ("namespace apscope {\n\n", "namespace apscope {\r\n"),
    ],
)
def test_what_the_compiler_does_not_see_leaves_the_digest(old, new):
    assert changed(old, new) == digest(HEADER)


@pytest.mark.parametrize(
    "old, new",
    [
        (" + +b", "++b"),
        ("a++ + b", "a+ ++b"),
        (" + +b", " + b"),
        ("a++ + b", "a + b"),
        ("a > 1", "a >= 1"),
        ("1'000'000", "1'000'001"),
        ("0x1p-3f", "0x1p-3"),
        ("0x1p-3f", "0x1p - 3f"),
        ("[[nodiscard]] ", ""),
        ("[[nodiscard]]", "[[maybe_unused]]"),
        ("((x) * (x))", "(x * x)"),
        ("SQUARE(x)", "SQUARE (x)"),
        ("THREE (3)", "THREE(3)"),
        ("#define THREE (3)\n", "#define THREE (3) int g();\n"),
        ("#define THREE (3)\n", "#define THREE \\\n(3)\nint g();\n"),
        ("https://example.org", "http://example.org"),
        ("/*no comment*/", ""),
        ("a // b", "a / b"),
        (' \\\n "c"', ' "c"'),
        ('"c"', '"c" '),
        ('R"x(', 'u8R"x('),
        ("'\\''", "'\\\"'"),
        ("'\"'", "L'\"'"),
        ("#include <cstdint>", "#include <cstddef>"),
        ("#pragma once", "#pragma GCC optimize(3)"),
        ("inline int f", "int f"),
        ("// What this file is for.", "#define ONE 1"),
    ],
)
def test_what_the_compiler_sees_changes_the_digest(old, new):
    assert changed(old, new) != digest(HEADER)


def test_a_comment_or_a_definition_that_goes_on_takes_the_next_line_with_it():
    assert digest("// a \\\nint b;\nint c;") == digest("int c;")
    assert digest("#define A \\\nint b;\nint c;") == digest("#define A int b;\nint c;") != digest("#define A\nint b;\nint c;")


def test_tokens_are_the_longest():
    assert " ".join(tokens.parse("a+++b<<=c<=>d->*e...f::g%:%:h").tokens) == "a ++ + b <<= c <=> d ->* e ... f :: g %:%: h"
    assert tokens.parse("1.5e-3+.5-1e+2f-0x1.8p+1").tokens == ("1.5e-3", "+", ".5", "-", "1e+2f", "-", "0x1.8p+1")
    assert tokens.parse("a<::b>").tokens == ("a", "<", "::", "b", ">") and tokens.parse("a<:0:>").tokens == ("a", "<:", "0", ":>")


def test_strings_keep_what_looks_like_a_comment():
    assert tokens.parse('f("a//b", "/*" /* c */, "*/")').tokens == ("f", "(", '"a//b"', ",", '"/*"', ",", '"*/"', ")")
    assert tokens.parse(r'"\"//" + L"\\" + u8"x"_km').tokens == (r'"\"//"', "+", r'L"\\"', "+", 'u8"x"_km')


def test_strings_beside_each_other_are_one_as_far_as_that_is_sure():
    assert tokens.parse('"a//"  // why\n "b" "/*c" + "d"').tokens == ('"a//b/*c"', "+", '"d"')
    for apart in ('"a\\x1" "2"', '"a\\1" "2"', '"a" L"b"', '"a"_km "b"', '"a" R"(b)"'):
        assert len(tokens.parse(apart).tokens) == 2
    assert digest('f("a" "b");') != digest('f("a", "b");') and digest('"a"\n#if X\n"b"\n#endif') != digest('#if X\n"a" "b"\n#endif')


def test_neither_names_nor_places_nor_the_order_of_files_count_and_what_is_in_which_does():
    assert digest("int a;", "int b;") == digest("int b;", "int a;") != digest("int a; int b;")
    assert digest("int a;") != digest("int a;", "int a;")


def test_the_project_s_includes_are_told():
    parsed = tokens.parse('#include "a/b.h"\n# include "c.h"  // why\n#include <d.h>\nauto s = "#include \\"e.h\\"";')
    assert parsed.includes == ("a/b.h", "c.h") and "<d.h>" in parsed.tokens


@pytest.mark.parametrize("text", ['"open', "int a; /* open", 'auto x = R"(open'])
def test_what_is_no_cpp_is_refused(text):
    with pytest.raises(tokens.NotCpp, match="no token"):
        tokens.parse(text)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_tokens_of_the_sources_are_those_of_the_compiler():
    """Of every file that a proof runs through, its directives taken out: what g++'s preprocessor makes of it has the same tokens."""
    tree = Tree()
    for path in set().union(*map(tree.reached, PARTS.values())):
        text = "".join(line if not line.lstrip().startswith("#") else "\n" for line in _without_continued_directives(path.read_text()))
        run = subprocess.run(["g++", "-std=c++20", "-x", "c++", "-E", "-P", "-undef", "-"], input=text, capture_output=True, text=True, check=True)
        ours, theirs = tokens.parse(text).tokens, tokens.parse(run.stdout).tokens
        assert ours == theirs, path


def _without_continued_directives(text: str) -> list[str]:
    lines, continued = [], False
    for line in text.splitlines(keepends=True):
        is_directive = continued or line.lstrip().startswith("#")
        continued = is_directive and line.rstrip().endswith("\\")
        lines.append("\n" if is_directive else line)
    return lines
