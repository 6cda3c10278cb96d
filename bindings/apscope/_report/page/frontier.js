// Part (b): NMSE against bytes on the wire and against modelled time, with the Pareto front. With
// reductions of several kinds the symbol is that of the kind, as in _charts/front.py.

import {
  chart,
  charts,
  colourOf,
  figureBox,
  lengthOf,
  powerOfTen,
  powersOfTen,
  symbolOf,
} from "./chart.js";
import { choice, element } from "./dom.js";
import { stepFront } from "./fill.js";
import { formsOf, places } from "./places.js";
import { clip, figure, percent, seconds } from "./text.js";

// Pixels of the names' letters, of half a point, of an arrow, and of a name beside its point.
const LETTERS = 11,
  WIDE = 6,
  HIGH = 9,
  ARROW = 14,
  BESIDE = 13;
// The longest name.
const LONGEST = 60;

export function frontierPart(box, state, redraw) {
  const { measures, costs } = charts.front;
  const options = Object.entries(measures).map(([value, text]) => ({ value, text }));
  const places = Object.keys(costs).map((key) => [key, element("div", { class: "plot" })]);
  box.append(
    element("div", { class: "tools" }, choice("error", options, state, "measure", redraw)),
    element(
      "div",
      { class: "pair" },
      ...places.map(([key, place]) => figureBox(`Against ${costs[key]}`, place)),
    ),
  );
  return (view) => {
    for (const [key, place] of places) drawOne(place, key, view, state.measure);
  };
}

function drawOne(place, key, view, measure) {
  const known = view.records
    .map((r) => ({
      ...r,
      x: r[key],
      y: measure === "distance" ? 1 - r.layer_cosine : r[measure],
    }))
    .filter((p) => p.x > 0 && p.y >= 0);
  const points = known.filter((p) => p.y < Infinity);
  const beyond = known.length - points.length;
  if (!points.length) {
    const text = view.records.some((r) => r[key] > 0)
      ? `No scheme of this selection has a finite ${charts.front.measures[measure]}.`
      : `No scheme of this selection has a ${key}: exact and sequential sums have no ` +
        "communication cost, and at the wire nothing is exchanged.";
    place.replaceChildren(element("p", { class: "empty" }, text));
    return;
  }
  const { floor, same, measures, costs } = charts.front;
  const unit = measures[measure];
  const low = Math.max(floor, Math.min(...points.map((p) => p.y || floor)) / 2);
  for (const p of points) {
    p.drawn = Math.max(p.y, low);
    p.below = p.y < low;
  }
  const sound = (p) => !p.overflowed && !p.skipped && !p.gaps && !p.lost_layers;
  const front = stepFront(points.filter(sound), key === "volume" ? same : 0);
  const kinds = [...new Set(points.map((p) => view.kindOf(p.topology)))],
    mixed = kinds.length > 1;
  const of = Map.groupBy(points, (p) => p.scheme);
  for (const p of points) {
    p.kind = view.kindOf(p.topology);
    const reduced = of.get(p.scheme).length > 1 ? `, ${view.called(p.topology)}` : "";
    p.name = p.scheme + reduced;
    p.label = view.schemes.get(p.scheme).name + reduced;
  }
  const steps = (n) => `${n} step${n === 1 ? "" : "s"}`;
  const text = (p) =>
    [
      p.name,
      `${unit} ${figure(p.y)}${p.y < low ? " (below the axis)" : ""}`,
      `${key} ${key === "time" ? seconds(p.x) : figure(p.x)}`,
      `underflow on the wire ${percent(p.underflow_wire)}`,
      ...(p.skipped ? [`skipped ${steps(p.skipped)}`] : []),
      ...(p.overflowed ? [`overflow in ${steps(p.overflowed)}`] : []),
      ...(p.gaps ? [`${steps(p.gaps)} after a gap: no rank`] : []),
      ...(p.lost_layers ? [`layers lost: ${p.lost_layers}`] : []),
    ].join("\n");
  const families = [...new Set(points.map((p) => p.family))];
  const first = front.map((p) => p.name).slice(0, 12);
  const says =
    `Scatter plot of ${points.length} rows, ${unit} against ${key}. ` +
    `Pareto front: ${first.join("; ")}.`;
  const width = place.clientWidth || 600;
  const height = width < 500 ? 320 : 380;
  const edge = { marginLeft: 50, marginBottom: 44, marginRight: 26, marginTop: 20 };
  const xs = d3.extent(points, (p) => p.x).map((x, i) => x * (i ? 1.25 : 0.85));
  const ys = [low, Math.max(...points.map((p) => p.drawn)) * 1.6];
  const at = { x: "x", y: "drawn" };
  const symbol = mixed ? "kind" : "family";
  const dot = { ...at, stroke: "family", symbol, r: 5, strokeWidth: 2 };
  const px = d3.scaleLog(xs, [edge.marginLeft, width - edge.marginRight]);
  const py = d3.scaleLog(ys, [height - edge.marginBottom, edge.marginTop]);
  const names = namesOf(labelled(front, points), points, front, px, py);
  chart(place, says, {
    height,
    ...edge,
    grid: true,
    x: {
      type: "log",
      label: costs[key],
      domain: xs,
      ticks: ticksOf(xs, key),
      tickFormat: key === "volume" ? share : seconds,
    },
    y: {
      type: "log",
      label: unit,
      domain: ys,
      ticks: powersOfTen(points.map((p) => p.drawn)),
      tickFormat: (v) => (v <= floor ? "≤ " : "") + powerOfTen(v),
      clamp: true,
    },
    color: { domain: families, range: families.map(colourOf), legend: mixed },
    symbol: mixed
      ? {
          domain: kinds,
          range: kinds.map((k) => charts.reductions[k]),
          legend: true,
          tickFormat: (kind) => calledAs(kind, points, view),
        }
      : { domain: families, range: families.map(symbolOf), legend: true },
    marks: [
      Plot.line(front, {
        ...at,
        curve: "step-after",
        stroke: "currentColor",
        strokeOpacity: 0.45,
        strokeWidth: 1.5,
      }),
      Plot.dot(
        points.filter((p) => !p.below && sound(p)),
        { ...dot, fill: "family", fillOpacity: 0.25 },
      ),
      Plot.dot(
        points.filter((p) => !p.below && !sound(p)),
        dot,
      ),
      Plot.vector(
        points.filter((p) => p.below),
        { ...at, stroke: "family", rotate: 180, length: ARROW, anchor: "end", strokeWidth: 2 },
      ),
      Plot.link(
        names.filter((n) => n.far),
        { x1: "x1", y1: "y1", x2: "x2", y2: "y2", stroke: "currentColor", strokeOpacity: 0.5 },
      ),
      ...["start", "end"].map((textAnchor) =>
        Plot.text(
          names.filter((n) => n.textAnchor === textAnchor),
          {
            x: "x2",
            y: "y2",
            text: "text",
            textAnchor,
            fontSize: LETTERS,
            stroke: "var(--paper)",
            strokeWidth: 3,
            fill: "currentColor",
          },
        ),
      ),
      Plot.tip(points, Plot.pointer({ ...at, title: text })),
    ],
  });
  if (points.some((p) => p.below))
    place.append(
      element("p", { class: "note" }, `Arrows: ${unit} below ${powerOfTen(low)}; tips have it.`),
    );
  if (beyond)
    place.append(
      element(
        "p",
        { class: "note" },
        `Not drawn, because values overflowed and no finite error is left: ${beyond}.`,
      ),
    );
}

// A kind of reduction, as the legend of the first screen calls it.
function calledAs(kind, points, view) {
  if (kind === "own") return "scheme's own";
  if (kind !== "rounded sums") return kind;
  const names = points.filter((p) => p.kind === kind).map((p) => view.called(p.topology));
  return [...new Set(names)].join(" or ");
}

// Shares of fp32's bytes.
const share = (v) => (v < 1 ? `1/${1 / v}` : String(v));

// Halves and doubles of the fp32 ring's volume; of a time 1, 2 and 5 of its powers of ten.
function ticksOf([low, high], key) {
  const inside = (v) => v >= low && v <= high;
  if (key === "volume")
    return d3
      .range(-7, 8, 1)
      .map((k) => 2 ** k)
      .filter(inside);
  return d3
    .range(-9, 5)
    .flatMap((k) => [1, 2, 5].map((d) => Number(`${d}e${k}`)))
    .filter(inside);
}

// The front and the baselines carry their names, the least error first.
function labelled(front, points) {
  const named = [...new Set([...front, ...points.filter((p) => p.family === "baseline")])];
  return named.sort((a, b) => a.drawn - b.drawn || a.x - b.x);
}

// Names of points where they cover no point, with the place of each in the chart's units; a long
// one without such a place is shortened, and the pointer alone tells one that has none.
function namesOf(named, points, front, px, py) {
  const forms = named.map((p) => formsOf(clip(p.label, LONGEST)));
  const marks = points.map((p) => {
    const [x, y] = [px(p.x), py(p.drawn)];
    return p.below ? [x - WIDE, y - ARROW, x + WIDE, y] : [x - WIDE, y - HIGH, x + WIDE, y + HIGH];
  });
  const steps = front.slice(1).flatMap((p, i) => {
    const [x0, y0, x1, y1] = [px(front[i].x), py(front[i].drawn), px(p.x), py(p.drawn)];
    return [
      [x0 - 1, y0 - 1, x1 + 1, y0 + 1],
      [x1 - 1, y0 - 1, x1 + 1, y1 + 1],
    ];
  });
  const [left, right] = px.range(),
    [bottom, top] = py.range();
  const fitting = places(
    named.map((p, i) => ({
      x: px(p.x),
      y: py(p.drawn),
      widths: forms[i].map((text) => lengthOf(text, LETTERS)),
    })),
    marks,
    steps,
    [left, top - 8, right + 12, bottom - 1],
    LETTERS,
  );
  return named.flatMap((p, i) => {
    if (!fitting[i]) return [];
    const { form, end } = fitting[i];
    const [x1, y1, x2, y2] = [p.x, p.drawn, px.invert(end[0]), py.invert(end[1])];
    const far = Math.hypot(end[0] - px(p.x), end[1] - py(p.drawn)) > BESIDE;
    const textAnchor = x2 < x1 ? "end" : "start";
    return [{ x1, y1, x2, y2, far, textAnchor, text: forms[i][form] }];
  });
}
