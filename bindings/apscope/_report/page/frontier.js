// Part (b): NMSE against bytes on the wire and against modelled time, with the Pareto front. With
// reductions of several kinds the symbol is that of the kind, as in _charts/front.py.

import { chart, charts, colourOf, figureBox, powerOfTen, powersOfTen, symbolOf } from "./chart.js";
import { element, select } from "./dom.js";
import { stepFront } from "./fill.js";
import { clip, figure, percent, seconds } from "./text.js";

// Pixels of the names' letters.
const LETTERS = 11;

export function frontierPart(box, state, redraw) {
  const { measures, costs } = charts.front;
  const options = Object.entries(measures).map(([value, text]) => ({ value, text }));
  const places = Object.keys(costs).map((key) => [key, element("div", { class: "plot" })]);
  const choose = (value) => {
    state.measure = value;
    redraw();
  };
  box.append(
    element("div", { class: "tools" }, select("error", options, state.measure, choose)),
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
    const text =
      `No scheme of this selection has a ${key}: exact and sequential sums have no communication ` +
      "cost, and at the wire nothing is exchanged.";
    place.replaceChildren(element("p", { class: "empty" }, text));
    return;
  }
  const { floor, same, measures, costs } = charts.front;
  const unit = measures[measure];
  const low = Math.max(floor, Math.min(...points.map((p) => p.y || floor)) / 2);
  for (const p of points) p.drawn = Math.max(p.y, low);
  const sound = (p) => !p.overflowed && !p.skipped && !p.gaps;
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
  const text = (p) =>
    [
      p.name,
      `${unit} ${figure(p.y)}${p.y < low ? " (below the axis)" : ""}`,
      `${key} ${key === "time" ? seconds(p.x) : figure(p.x)}`,
      `underflow on the wire ${percent(p.underflow_wire)}`,
      ...(p.skipped ? [`skipped ${p.skipped} steps`] : []),
      ...(p.overflowed ? [`overflow in ${p.overflowed} steps`] : []),
      ...(p.gaps ? [`${p.gaps} steps after a gap: no rank`] : []),
    ].join("\n");
  const families = [...new Set(points.map((p) => p.family))];
  const first = front.map((p) => p.name).slice(0, 12);
  const says =
    `Scatter plot of ${points.length} rows, ${unit} against ${key}. ` +
    `Pareto front: ${first.join("; ")}.`;
  const width = place.clientWidth || 600;
  const height = width < 500 ? 320 : 380;
  const edge = { marginLeft: 50, marginBottom: 44, marginRight: 16, marginTop: 20 };
  const xs = d3.extent(points, (p) => p.x).map((x, i) => x * (i ? 1.25 : 0.85));
  const ys = [low, Math.max(...points.map((p) => p.drawn)) * 1.6];
  const at = { x: "x", y: "drawn" };
  const symbol = mixed ? "kind" : "family";
  const dot = { ...at, stroke: "family", symbol, r: 5, strokeWidth: 2 };
  const px = d3.scaleLog(xs, [edge.marginLeft, width - edge.marginRight]);
  const py = d3.scaleLog(ys, [height - edge.marginBottom, edge.marginTop]);
  const room = {
    left: px.range()[0],
    right: px.range()[1],
    top: py.range()[1],
    bottom: py.range()[0],
  };
  const names = placed(labelled(front, points), (p) => [px(p.x), py(p.drawn)], room);
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
      ? { domain: kinds, range: kinds.map((k) => charts.reductions[k]), legend: true }
      : { domain: families, range: families.map(symbolOf), legend: true },
    marks: [
      Plot.line(front, {
        ...at,
        curve: "step-after",
        stroke: "currentColor",
        strokeOpacity: 0.45,
        strokeWidth: 1.5,
      }),
      Plot.dot(points.filter(sound), { ...dot, fill: "family", fillOpacity: 0.25 }),
      Plot.dot(
        points.filter((p) => !sound(p)),
        dot,
      ),
      ...names.map(({ point, name, dx, dy, textAnchor }) =>
        Plot.text([point], {
          ...at,
          text: () => name,
          dx,
          dy,
          textAnchor,
          fontSize: LETTERS,
          stroke: "var(--paper)",
          strokeWidth: 3,
          fill: "currentColor",
        }),
      ),
      Plot.tip(points, Plot.pointer({ ...at, title: text })),
    ],
  });
  if (beyond)
    place.append(
      element(
        "p",
        { class: "note" },
        `Not drawn, because values overflowed and no finite error is left: ${beyond}.`,
      ),
    );
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

// Names beside their points, in the order of the points where they stand above one another; where
// there is no such place, the pointer alone tells the name. As _name_points() of _charts/svg.py.
function placed(points, pixels, { left, right, top, bottom }) {
  const taken = [];
  const found = [];
  const longest = right - left < 450 ? 26 : 40;
  const places = [-9, 1, 11, -20, 22].flatMap((dy) => [7, -7].map((dx) => ({ dx, dy })));
  for (const point of [...points].sort((a, b) => a.x - b.x || b.drawn - a.drawn)) {
    const [x, y] = pixels(point);
    const name = clip(point.label, longest);
    const wide = 0.6 * LETTERS * [...name].length;
    const box = ({ dx, dy }) => {
      const start = dx > 0 ? x + dx : x + dx - wide;
      return { start, end: start + wide, at: y + dy, y };
    };
    const fits = ({ start, end, at }) =>
      start > left - 4 &&
      end < right + 12 &&
      at > top - 8 &&
      at < bottom - 4 &&
      taken.every(
        (t) =>
          start > t.end ||
          end < t.start ||
          (Math.abs(t.at - at) > LETTERS + 1 && (Math.abs(y - t.y) < 1 || at > t.at === y > t.y)),
      );
    const place = places.find((p) => fits(box(p)));
    if (!place) continue;
    taken.push(box(place));
    found.push({ point, name, ...place, textAnchor: place.dx < 0 ? "end" : "start" });
  }
  return found;
}

// The front and the baselines carry their names.
function labelled(front, points) {
  return [...new Set([...front, ...points.filter((p) => p.family === "baseline")])];
}
