"""Names beside points cover no point and no other name, in the first screen's charts and in those
that the page draws, light and dark, wide and narrow; both take the same places."""

import json

import numpy as np
import pytest

import apscope
from apscope._charts.places import Name, forms_of, meet, places
from apscope._report import page

TRACES = ["digits", "digits_w64", "characters", "resnet18", "gpt"]
#: Long names, and as many points as a replay of the main schemes has.
SCHEMES = [
    "main",
    "loss_scaling:e3m4,scale=best,overflow=saturate",
    "hybrid(last=qsgd:levels=127;first=aps:e3m4,rule=tight,unit=32;else=aps:e4m3fn,rule=tight)",
]
ROOM, SIZE = (32.0, 13.0, 340.0, 128.0), 10.5


def crowd(seed, count=60):
    """Names and boxes of marks as a crowded chart has them."""
    random = np.random.default_rng(seed)
    points = np.stack(
        [random.choice([40, 60, 130, 200, 300], count) + random.uniform(-6, 6, count),
         random.uniform(20, 125, count)], axis=1
    ).tolist()  # fmt: skip
    names = [
        Name(x, y, [first, first / 2, first / 3])
        for (x, y), first in zip(points[:9], random.uniform(40, 300, 9).tolist())
    ]
    marks = [(x - 5.5, y - 5.5, x + 5.5, y + 5.5) for x, y in points]
    lines = [(60.0, 40.0, 130.0, 42.0), (130.0, 40.0, 132.0, 90.0)]
    return names, marks, lines


@pytest.mark.parametrize("seed", range(12))
def test_a_name_covers_no_mark_and_no_other_name(seed):
    names, marks, lines = crowd(seed)
    boxes = [
        (p.left, p.base - 0.77 * SIZE, p.left + n.widths[p.form], p.base + 0.23 * SIZE)
        for n, p in zip(names, places(names, marks, lines, ROOM, SIZE))
        if p is not None
    ]
    assert len(boxes) >= 3
    for i, box in enumerate(boxes):
        assert box[0] >= ROOM[0] and box[2] <= ROOM[2] + 1e-9
        assert not any(meet(box, mark) for mark in marks)
        assert not any(meet(box, other) for other in boxes[:i])


def test_a_name_alone_is_whole_and_beside_its_point():
    (place,) = places([Name(100, 60, [80, 20])], [(94.5, 54.5, 105.5, 65.5)], [], ROOM, SIZE)
    assert (place.form, place.left, place.end) == (0, 107, (107, 60))
    # a line to the right moves it up or down; a wall of marks shortens it or leaves it out
    (moved,) = places([Name(100, 60, [80])], [], [(100.0, 59.0, 340.0, 61.0)], ROOM, SIZE)
    assert moved.end[1] != 60 and moved.form == 0
    assert places([Name(100, 60, [80])], [ROOM], [], ROOM, SIZE) == [None]
    assert places([Name(100, 60, [800, 80])], [], [], ROOM, SIZE)[0].form == 1
    assert places([], [], [], ROOM, SIZE) == []


def test_shorter_forms_leave_out_the_last_parts():
    name = "APS e3m4, tight, ring"
    assert forms_of(name) == [name, "APS e3m4, tight…", "APS e3m4…"]
    assert forms_of("fp16") == ["fp16"]
    assert len(forms_of("x" * 60)[-1]) <= 26


# ---- In a browser -----------------------------------------------------------------------------

#: Names that meet a mark or another name; the ink of a text is lower than its line.
MEETINGS = """
(() => {
  const box = (e, lead = 0) => {
    const { left, right, top, bottom } = e.getBoundingClientRect();
    return [left, top + lead * (bottom - top), right, bottom - lead * (bottom - top)];
  };
  const over = (a, b, k) => a[k] < b[k + 2] - 0.5 && b[k] < a[k + 2] - 0.5;
  const meet = (a, b) => over(a, b, 0) && over(a, b, 1);
  const found = [];
  let count = 0;
  for (const [picture, text, mark] of [
    ["svg.xy", "text.name", "path.mark"],
    ["#frontier svg[role=img]", "g[aria-label=text] text", "g[aria-label=dot] path"],
  ])
    for (const svg of document.querySelectorAll(picture)) {
      const names = [...svg.querySelectorAll(text)];
      const marks = [...svg.querySelectorAll(mark)].map((m) => box(m));
      count += names.length;
      names.forEach((name, i) => {
        const own = box(name, 0.15);
        if (marks.some((m) => meet(own, m))) found.push(`a point: ${name.textContent}`);
        for (const other of names.slice(i + 1))
          if (meet(own, box(other, 0.15))) found.push(`${other.textContent}: ${name.textContent}`);
      });
    }
  return [count, found];
})()
"""


@pytest.fixture(scope="module")
def shown(browser, request, tmp_path_factory):
    """The page of all traces: small charts."""
    data = request.config.rootpath / "notebooks/data"
    results = apscope.merge(
        [apscope.replay(data / name, SCHEMES, topology=["ring", "two_phase"]) for name in TRACES]
    )
    browser.show(page(results), tmp_path_factory.mktemp("places"))
    return browser


@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_point_blots_out_a_name_of_five_traces(shown, width, theme):
    shown.prefer(theme)
    shown.resize(width, 1000)
    for trace in TRACES:
        shown.run(f"apscopePage.state.trace = '{trace}'; apscopePage.update()")
        shown.run("apscopePage.drawAll()")
        count, found = shown.run(MEETINGS)
        assert count > 30 and found == [], trace


@pytest.mark.parametrize("seed", range(6))
def test_the_page_takes_the_places_that_python_takes(shown, seed):
    names, marks, lines = crowd(seed)
    said = json.dumps([{"x": n.x, "y": n.y, "widths": list(n.widths)} for n in names])
    told = shown.run(
        f"apscopePage.places.places({said}, {json.dumps(marks)}, {json.dumps(lines)}, "
        f"{json.dumps(ROOM)}, {SIZE})"
    )
    wanted = places(names, marks, lines, ROOM, SIZE)
    assert [p and p["form"] for p in told] == [p and p.form for p in wanted]
    for mine, theirs in zip(wanted, told):
        if mine is not None:
            assert [theirs["left"], theirs["base"], *theirs["end"]] == pytest.approx(
                [mine.left, mine.base, *mine.end], abs=1e-9
            )
    for name in ("APS e3m4, tight, ring", "fp16", "y" * 60):
        assert shown.run(f"apscopePage.places.formsOf({name!r})") == forms_of(name)
