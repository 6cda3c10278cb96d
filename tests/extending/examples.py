"""The worked examples of docs/extending.md: one patch each, and the commands that execute it."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
#: The test of the sections of pages that `make tables` writes.
SECTION = "tests/python/repository/test_pages.py::test_a_section_is_what_make_tables_writes"


@dataclass(frozen=True)
class Example:
    """Something added to a copy of the tree.

    Attributes
    ----------
    name : str
        Of the patch, without its extension, and of the place of the page that shows it.
    most : int
        So many files may be touched: by the patch, or by `commands`.
    builds : bool
        Whether C++ is compiled. Otherwise `make test` executes the example.
    commands : tuple of tuple of str
        Run by Python in the copy after the build, as `make stubs` and `make tables` would.
    writes : tuple of str
        The files that `commands` change, beside those of the patch.
    tests : tuple of str
        Files, folders and single tests for pytest.
    ctest : str
        Pattern of C++ tests, which are built where there is one.
    verify : tuple of str
        Arguments of `apscope verify`, the comparison with the oracle.
    """

    name: str
    most: int
    builds: bool = True
    commands: tuple[tuple[str, ...], ...] = ()
    writes: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    ctest: str = ""
    verify: tuple[str, ...] = ()

    @property
    def patch(self) -> Path:
        return FOLDER / f"{self.name}.patch"

    def files(self) -> list[str]:
        """The touched files, in alphabetical order."""
        return sorted({*touched(self.patch.read_text()), *self.writes})


def touched(patch: str) -> list[str]:
    """The files that a patch changes or makes."""
    return re.findall(r"^\+\+\+ b/(.+)$", patch, re.MULTILINE)


EXAMPLES = (
    Example(
        "format",
        most=3,
        commands=(("-m", "tests.exhaustive", "--minutes", "0"),),
        writes=("docs/conformance.md",),
        tests=(
            "tests/python/arrays/test_projections.py",
            "tests/python/formats/test_code_round_trips.py",
            "tests/python/proof/test_exhaustive.py",
        ),
        verify=("fp8e4b15",),
    ),
    Example(
        "rounding",
        most=8,
        commands=((".ci/stubs.py", "bindings/apscope"),),
        writes=("bindings/apscope/schemes.pyi",),
        tests=(
            "tests/python/arrays/test_projections.py",
            "tests/python/arrays/test_projection_values.py",
            "tests/python/arrays/test_instruction_sets.py",
            "tests/python/repository/test_codebase.py",
        ),
        ctest="^(Arithmetic|WideArithmetic|Sums|QuantizePaths|BlockPaths|Fp32Sums|Oracle)",
        verify=("e4m3", "--rounding", "ties_to_positive"),
    ),
    Example(
        "scheme",
        most=5,
        commands=(
            (".ci/stubs.py", "bindings/apscope"),
            ("-m", "docs.tools", "docs/scales.md", "docs/schemes.md", "docs/definitions.md"),
            ("-m", "docs.tools.what_holds"),
        ),
        writes=("bindings/apscope/schemes.pyi", "docs/what_holds.md"),
        tests=(
            "tests/python/schemes/test_scheme_invariants.py",
            "tests/python/schemes/test_scheme_classes.py",
            "tests/python/schemes/test_scheme_lists.py",
            "tests/python/schemes/test_types.py",
            "tests/python/repository/test_codebase.py",
            "tests/python/repository/test_tables.py",
            f"{SECTION}[docs/schemes.md-schemes]",
        ),
        ctest="^Schemes/BlockRows",
    ),
    Example(
        "column",
        most=4,
        commands=((".ci/stubs.py", "bindings/apscope"),),
        tests=(
            "tests/python/replay/test_replay_reference.py",
            "tests/python/repository/test_tables.py::test_every_numeric_column_is_defined_and_in_the_tables_order",
            f"{SECTION}[docs/definitions.md-columns]",
            "tests/python/repository/test_codebase.py",
        ),
    ),
    Example(
        "figure",
        most=2,
        tests=(
            "tests/python/results/test_summary.py",
            "tests/python/results/test_breakdown.py",
            "tests/python/report/test_page_tables.py",
        ),
    ),
    Example(
        "topology",
        most=4,
        tests=(
            "tests/python/arrays/test_allreduce.py",
            "tests/python/replay/test_reference.py",
            "tests/python/replay/test_replay_reference.py",
            "tests/python/schemes/test_volume.py",
        ),
        ctest="^(Topology|CudaReduce)",
    ),
    Example(
        "dump_reader",
        most=5,
        builds=False,
        tests=(
            "tests/python/dumps/test_msgpack.py",
            "tests/python/dumps/test_dump_files.py",
            "tests/python/dumps/test_broken_dumps.py",
        ),
    ),
)
