"""docs/matrix_units.md's table of trainings: its command, and what the page says of it."""

import re
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from docs.tools import matrix_units, page


def cells(lines):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_a_table_of_two_short_trainings():
    """A recipe in blocks is not trained with convolutions; differences are those of the losses."""
    task = replace(matrix_units.TRAINED[0], steps=2)
    recipes = {
        title: (recipe, dict(list(others.items())[-1:]))
        for title, (recipe, others) in matrix_units.RECIPES.items()
    }
    lines = matrix_units.training([task], range(2), recipes)
    none, base, unit = cells(lines)
    assert [row[1:3] for row in (none, base)] == [["none", "fp32"], [next(iter(recipes)), "fp32"]]
    assert unit[:3] == [task.label, base[1], "`ada:fp8`"]
    recipe, others = recipes[base[1]]
    losses = [
        matrix_units.ends(task, replace(recipe, accumulate=sums), range(2)).mean()
        for sums in (None, *others.values())
    ]
    assert [row[3] for row in (base, unit)] == [f"{loss:.4g}" for loss in losses]
    assert unit[4] == f"{losses[1] - losses[0]:+.2g}" and " to " in unit[5]


def test_the_page_has_the_commands_rows_and_says_what_they_show():
    found = page.rows(page.DOCS / "matrix_units.md", "losses of training")
    expected = []
    for task in matrix_units.TRAINED:
        expected.append([task.label, "none", "fp32"])
        for title, (recipe, others) in matrix_units.RECIPES.items():
            if task.model != "convolutional" or recipe.input.kind != "blocks":
                expected += [[task.label, title, sums] for sums in ("fp32", *others)]
    assert [row[:3] for row in found] == expected
    text = " ".join((page.DOCS / "matrix_units.md").read_text().split())
    for is_unit, kind in (
        (True, "of a unit's sums"),
        (False, "of the other order of fp32 additions"),
    ):
        rows = [row for row in found if row[5] and row[2].startswith("`") == is_unit]
        ends = [[float(x) for x in row[5].split(" to ")] for row in rows]
        beyond = [row for row, (low, high) in zip(rows, ends) if low > 0 or high < 0]
        assert re.search(rf"{len(beyond)} of {len(rows)} (intervals )?{kind}", text)
        for row in beyond:
            assert (
                f"ends {row[4].lstrip('+-')} nats {'higher' if row[4][0] == '+' else 'lower'}"
                in text
            )
        for task in matrix_units.TRAINED:
            own = [high for row, (_, high) in zip(rows, ends) if row[0] == task.label]
            assert not is_unit or f"{max(own):.2g} nats on {task.name}" in text
    assert f"{1 - 0.95**9:.0%}".replace("%", " %") + " of cases" in text


def test_the_page_has_the_units_of_the_times():
    found = page.rows(page.DOCS / "matrix_units.md", "times")
    made = cells(matrix_units.times(size=32, rounds=1))
    assert [row[:3] for row in made] == [row[:3] for row in found]
    assert all(float(row[3]) > 0 for row in made)
