"""docs/ARCHITECTURE.md: the value that is followed, number by number; the floors and modules."""

import re
from pathlib import Path

import numpy as np
import pytest

import apscope
from docs.tools import architecture, page

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text()
#: Step -> its numbers, and where they are computed.
STEPS = dict(
    re.findall(
        r"^\| (\w+) \| (.*)$", PAGE.partition("## One value")[2].partition("\n## ")[0], re.MULTILINE
    )
)
GRADIENTS = np.array([0.0031, 0.0024, 0.0030, -0.0012], np.float32)
FORMAT = "e4m3"


@pytest.fixture(scope="module")
def replayed():
    trace = apscope.record.from_arrays({"w": GRADIENTS[:, None]}, name="four")
    return apscope.replay(trace, f"aps:{FORMAT}", topology="ring")


@pytest.fixture(scope="module")
def exchanged():
    return apscope.exchange(f"aps:{FORMAT}", GRADIENTS[:, None])


@pytest.fixture(scope="module")
def row(replayed):
    return replayed.frame.set_index(["stage", "topology"]).loc["reduced", "ring"]


def test_the_gradients_are_those_of_the_text():
    words = "0.0031, 0.0024, 0.0030 and -0.0012 of one element"
    assert words in PAGE
    assert np.array_equal(np.array(re.findall(r"-?0\.\d+", words), np.float32), GRADIENTS)
    assert f"the mean of them {GRADIENTS.mean():.6f}" in STEPS["read"]
    assert STEPS["largest"].startswith(f"amax = {np.abs(GRADIENTS).max():.4f} ")


def test_the_exponent(exchanged):
    most = 4 * float(np.abs(GRADIENTS).max())
    largest = apscope.FloatFormat(FORMAT).largest
    k, begins = int(np.ceil(np.log2(most))), int(np.log2(largest))
    assert STEPS["exponent"].startswith(
        f"headroom H = 4 workers: H amax = 4 x 0.0031 = {most:.4f} is at most 2^{k}; log2 of "
        f"{largest:g}, rounded down, is {begins}; so s = {begins} + {-k} = "
        f"{exchanged.scale_exponent}, "
    )


def test_what_is_sent(exchanged):
    scale = 2.0**exchanged.scale_exponent
    scaled = ", ".join(f"{x:.3f}" for x in GRADIENTS * scale)
    assert STEPS["scale"].startswith(f"times 2^{exchanged.scale_exponent}: {scaled} ")
    sent = ", ".join(f"{x:g}" for x in exchanged.sent[:, 0] * scale)
    codes = ", ".join(code.hex() for code in exchanged.payload)
    assert STEPS["round"].startswith(f"to the nearest of e4m3: {sent}; their codes are {codes} ")


def partial_sums(codes, first):
    """The sums of a ring that begins at a worker: what is added up, and the rounded result."""
    sums = [codes[first]]
    for worker in (first + 1, first + 2, first + 3):
        sums.append(float(apscope.add(sums[-1], codes[worker % 4], FORMAT)))
    return sums


def test_the_additions_and_the_result(exchanged, row):
    scale = 2.0**exchanged.scale_exponent
    codes = (exchanged.sent[:, 0] * scale).tolist()
    sums = partial_sums(codes, 0)
    told = [f"{codes[0]:g}"]
    for before, code, after in zip(sums, codes[1:], sums[1:]):
        exact = before + code
        neighbours = [
            float(apscope.quantize(np.float32(exact), FORMAT, rounding=rounding))
            for rounding in ("toward_negative", "toward_positive")
        ]
        tie = exact - neighbours[0] == neighbours[1] - exact != 0
        told.append(
            f"{before:g} {'+' if code > 0 else '-'} {abs(code):g} = {exact:g}"
            + (f", a tie, becomes {after:g}" if tie else "")
        )
        assert tie or exact == after
    assert STEPS["add"].startswith("; ".join(told) + " ")
    result = sums[-1] / scale
    assert result == exchanged.reduced[0]
    assert STEPS["decode"].startswith(
        f"{sums[-1]:g} / 2^{exchanged.scale_exponent} = {result:.7f}, the exact sum is "
        f"{GRADIENTS.sum():.4f}; divided by 4 workers {result / 4:.9f} "
    )
    assert f"A chunk that starts at worker 1 would end at {partial_sums(codes, 1)[-1]:g}." in PAGE
    assert f"the four codes alone add up to {sum(codes):g}, an nmse of" in PAGE


def test_the_row(replayed, row):
    noise = GRADIENTS.astype(np.float64).var(ddof=1) / 4
    assert STEPS["noise"].startswith(
        f"the sample variance of the four gradients, divided by 4: {noise:.4e} "
    )
    assert row["sum_noise"] == pytest.approx(noise, rel=1e-6)
    mean = GRADIENTS.astype(np.float64).mean()
    error = row["sum_error"]
    assert row["nmse"] == pytest.approx((error / mean) ** 2)
    assert row["error_over_noise"] == pytest.approx(error**2 / noise)
    assert STEPS["error"].startswith(
        f"e = 0.001953125 - {mean:.6f} = {error:.9f}; nmse = e^2 / {mean:.6f}^2 = "
        f"{row['nmse']:.6f}; error_over_noise = e^2 / noise = {row['error_over_noise']:.5f} "
    )
    said = ", ".join(
        f"{name} {row[name]:g}" for name in ("scale_exponent", "wire_bits", "side_bits")
    )
    assert STEPS["row"].startswith(
        f"topology ring, nmse and error_over_noise as above, {said}, volume (8 + 8) / 32 = "
        f"{row['volume']:g} "
    )
    exact = replayed.frame.set_index(["stage", "topology"]).loc["reduced", "exact"]
    assert f"an nmse of {exact['nmse']:.6f} (the row" in " ".join(PAGE.split())


def test_its_place_in_the_report(replayed, tmp_path):
    ring = replayed.summary().set_index("topology").loc["ring"]
    assert STEPS["summary"].startswith(f"step_nmse {ring['step_nmse']:.6f}: ")
    page = apscope.report(replayed, tmp_path / "report.html").read_text()
    shown = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    first, table = re.findall(
        r'first screen: "step NMSE ([^"]+)"; error over noise in the table of numbers: (\S+)',
        STEPS["report"],
    )[0]
    assert "step NMSE " + first in shown.replace(" ,", ",")
    assert f"aps: e4m3 ring {table} " in shown


@pytest.mark.parametrize("step", sorted(STEPS.keys() - {"step"}))
def test_each_step_is_where_the_page_says(step):
    *functions, file = re.findall(r"`([^`]+)`", STEPS[step].rpartition(" | ")[2])
    text = (ROOT / file).read_text()
    for function in functions:
        assert re.search(rf"\b{re.escape(function)}\(", text), f"{file} has no {function}"


def test_floors_and_modules_are_what_make_tables_writes():
    lines = architecture.lines()
    assert page.replaced(PAGE, "floors", lines) == PAGE, "run make tables"
    assert len(PAGE.splitlines()) - len(lines) <= 200
    modules = [p for p in architecture.PACKAGE.rglob("*.py") if p.name != "__init__.py"]
    assert sum("- `" in line for line in lines) >= len(modules)
