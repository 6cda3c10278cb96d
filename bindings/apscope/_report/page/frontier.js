// Part (b): NMSE against what crosses the wire and against modelled time, with the Pareto front.

import { chart, colourOf, figureBox, powerOfTen, powersOfTen, symbolOf } from "./chart.js";
import { element, select } from "./dom.js";
import { clip, figure, seconds } from "./text.js";

const MEASURES = {
  error_over_noise: "error over noise",
  step_nmse: "step NMSE",
  nmse: "NMSE, pooled over everything",
  distance: "1 − layer cosine",
  worst_nmse: "NMSE of the worst layer and step",
};
// Errors below this are drawn at the lower edge: they tell nothing about narrow formats and would
// flatten the rest.
const FLOOR = 1e-7;

// Records that no other beats in both; by x, then by y.
export function paretoFront(points) {
  const front = [];
  for (const p of [...points].sort((a, b) => a.x - b.x || a.y - b.y)) {
    if (!front.length || p.y < front[front.length - 1].y) front.push(p);
  }
  return front;
}

export function frontierPart(box, state, redraw) {
  const places = ["volume", "time"].map((key) => ({
    key,
    place: element("div", { class: "plot" }),
  }));
  box.append(
    element(
      "div",
      { class: "tools" },
      select(
        "error",
        Object.entries(MEASURES).map(([value, text]) => ({ value, text })),
        state.measure,
        (value) => {
          state.measure = value;
          redraw();
        },
      ),
    ),
    element(
      "div",
      { class: "pair" },
      ...places.map(({ key, place }) =>
        figureBox(
          key === "volume"
            ? "Against volume: bytes that the busiest rank sends, over those of an fp32 ring"
            : "Against modelled time of a step's communication",
          place,
        ),
      ),
    ),
  );
  return (view) => {
    for (const { key, place } of places) drawOne(place, key, view, state.measure);
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
  const points = known.filter((p) => p.y < Infinity),
    beyond = known.length - points.length;
  if (!points.length) {
    place.replaceChildren(
      element(
        "p",
        { class: "empty" },
        `No scheme of this selection has a ${key}: exact and sequential sums have no communication cost, and at the wire nothing is exchanged.`,
      ),
    );
    return;
  }
  const low = Math.max(FLOOR, Math.min(...points.map((p) => p.y || FLOOR)) / 2);
  for (const p of points) p.drawn = Math.max(p.y, low);
  const front = paretoFront(points.filter((p) => !p.overflowed));
  const narrow = place.clientWidth < 500,
    [smallest, largest] = d3.extent(points, (p) => p.x),
    middle = Math.sqrt(smallest * largest);
  const text = (p) =>
    `${p.scheme}\n${MEASURES[measure]} ${figure(p.y)}${p.y < low ? " (below the axis)" : ""}\n${key} ${key === "time" ? seconds(p.x) : figure(p.x)}` +
    `\nunderflow on the wire ${figure(100 * p.underflow_wire)} %${p.skipped ? `\nskipped ${p.skipped} steps` : ""}${p.overflowed ? `\noverflow in ${p.overflowed} steps` : ""}`;
  const families = [...new Set(points.map((p) => p.family))];
  chart(
    place,
    `Scatter plot of ${points.length} schemes, ${MEASURES[measure]} against ${key}. Pareto front: ${front
      .map((p) => p.scheme)
      .slice(0, 12)
      .join("; ")}.`,
    {
      height: narrow ? 320 : 380,
      marginLeft: 50,
      marginBottom: 44,
      marginRight: 16,
      grid: true,
      x: {
        type: "log",
        label: key === "volume" ? "volume (fp32 ring = 1)" : "modelled time",
        domain: d3.extent(points, (p) => p.x).map((x, i) => x * (i ? 1.25 : 0.85)),
        ticks: ticksOf(points, key),
        tickFormat: key === "volume" ? String : seconds,
      },
      y: {
        type: "log",
        label: MEASURES[measure],
        domain: [low, Math.max(...points.map((p) => p.drawn)) * 1.6],
        ticks: powersOfTen(points.map((p) => p.drawn)),
        tickFormat: (v) => (v <= FLOOR ? "≤ " : "") + powerOfTen(v),
        clamp: true,
      },
      color: { domain: families, range: families.map(colourOf) },
      symbol: { domain: families, range: families.map(symbolOf), legend: true },
      marks: [
        Plot.line(front, {
          x: "x",
          y: "drawn",
          curve: "step-after",
          stroke: "currentColor",
          strokeOpacity: 0.45,
          strokeWidth: 1.5,
        }),
        Plot.dot(points, {
          x: "x",
          y: "drawn",
          stroke: "family",
          symbol: "family",
          r: 5,
          strokeWidth: 2,
          fill: "family",
          fillOpacity: 0.25,
        }),
        // Names beside their points, inwards; every other one below, so that neighbours do not lie on
        // each other, none on the axis.
        ...["start", "end"].flatMap((textAnchor) =>
          [-9, 13].map((dy, k) =>
            Plot.text(
              labelled(front, points).filter(
                (p, i) => p.x > middle === (textAnchor === "end") && (p.y < low ? 0 : i % 2) === k,
              ),
              {
                x: "x",
                y: "drawn",
                text: (p) => clip(p.scheme, narrow ? 16 : 30),
                dy,
                dx: textAnchor === "end" ? -7 : 7,
                textAnchor,
                fontSize: 11,
                stroke: "var(--paper)",
                strokeWidth: 3,
                fill: "currentColor",
              },
            ),
          ),
        ),
        Plot.tip(points, Plot.pointer({ x: "x", y: "drawn", title: text })),
      ],
    },
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

// Halves and doubles of the fp32 ring's volume; three times along the range.
function ticksOf(points, key) {
  const [low, high] = d3.extent(points, (p) => p.x);
  if (key === "volume")
    return d3
      .range(-7, 8)
      .map((k) => 2 ** k)
      .filter((v) => v >= low * 0.85 && v <= high * 1.25);
  return d3.range(3).map((i) => Number((low * (high / low) ** (i / 2)).toPrecision(2)));
}

// The front and the baselines carry their names.
function labelled(front, points) {
  return [...new Set([...front, ...points.filter((p) => p.family === "baseline")])];
}
