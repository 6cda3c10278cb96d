// Charts as defined in _charts/kinds.py, of numbers that the parts of the page have pooled.

import { beside, chart, charts, dark, inkOn, powerOfTen, powersOfTen, stepScale } from "./chart.js";
import { element } from "./dom.js";
import { clip, figure, percent } from "./text.js";

// Rows of a map; tables have them all.
const MAX_ROWS = 60;

// The rows of the largest sums of `weight`, in their order.
export function mostOf(names, cells, row, weight) {
  const sums = new Map();
  for (const c of cells) sums.set(c[row], (sums.get(c[row]) ?? 0) + weight(c));
  const sorted = [...names].sort((x, y) => (sums.get(y) ?? -1) - (sums.get(x) ?? -1));
  const largest = new Set(sorted.slice(0, MAX_ROWS));
  return names.filter((name) => largest.has(name));
}

// A note below a map that leaves rows out.
export function leftOut(place, shown, all, which) {
  if (shown.length === all.length) return;
  place.append(
    element("p", { class: "note" }, `The ${shown.length} layers ${which}, of ${all.length}.`),
  );
}

// The colours of bands, and the legend of their edges.
const banded = ({ edges, ticks, light, dark: onDark, label }) => ({
  type: "threshold",
  domain: edges,
  range: dark() ? onDark : light,
  tickFormat: (_, i) => ticks[i],
  label,
});

// The colour of a value's band.
const bandOf = ({ edges, light, dark: onDark }, value) =>
  (dark() ? onDark : light)[d3.bisectRight(edges, value)];

// A map: rows down, columns across, one cell {row, column, value} each, in bands or in shades.
// framed: cells in a frame; crossed: cells with a cross; title(cell): the tooltip.
export function drawMap(place, says, cells, about) {
  const {
    colour,
    rows,
    columns,
    columnScale,
    title,
    framed = [],
    crossed = [],
    bottom = 36,
  } = about;
  const width = place.clientWidth || 600;
  const { margin, fit } = beside(rows, width);
  const ink = colour.edges ? (c) => inkOn(bandOf(colour, c.value)) : "currentColor";
  const at = { x: "column", y: "row" };
  return chart(place, says, {
    height: bottom + 30 + rows.length * Math.max(13, Math.min(24, 340 / rows.length)),
    marginLeft: margin,
    marginBottom: bottom,
    x: columns ? stepScale(columns, width - margin) : columnScale(width, margin),
    y: { type: "band", domain: rows, label: null, padding: 0, tickFormat: fit },
    color: {
      legend: true,
      width: Math.min(340, width),
      marginLeft: 16,
      marginRight: 16,
      ...(colour.edges ? banded(colour) : colour),
    },
    marks: [
      Plot.cell(cells, { ...at, fill: "value", inset: 0.3 }),
      Plot.text(crossed, { ...at, text: () => "×", fill: ink }),
      Plot.cell(framed, { ...at, fill: "none", stroke: ink, strokeWidth: 1.8 }),
      Plot.tip(cells, Plot.pointer({ ...at, title })),
    ],
  });
}

// The subject of a cell, with which its tooltip begins.
export const placeOf = (c) =>
  `${clip(c.row, 60)}, ${typeof c.column === "number" ? `step ${c.column}` : clip(c.column, 60)}`;

// A series by its name, also of a single step.
const SERIES = { x: "step", y: "y", z: "name", stroke: "name" };

const SHAPES = {
  line: (points) => Plot.lineY(points, { ...SERIES, strokeWidth: 1.5 }),
  step: (points) => Plot.lineY(points, { ...SERIES, curve: "step", strokeWidth: 2 }),
  dashes: (points) => Plot.lineY(points, { ...SERIES, strokeDasharray: "4 3" }),
  dots: (points) => Plot.dot(points, { ...SERIES, r: 1.8 }),
  band: (points) => {
    const sides = { x: "step", y1: "low", y2: "high", z: "name" };
    return Plot.areaY(points, { ...sides, fill: "name", fillOpacity: 0.2 });
  },
};

// The colours of A and B.
export const pair = () => ({ domain: ["A", "B"], range: charts.pair });

// Series of a kind over the steps: {series: points {step, name, y, over}}; the first one that has
// points answers the pointer.
export function drawSteps(place, says, kind, steps, series) {
  const { label, log, percent: share } = kind.y;
  const pointed = kind.marks.map(([name]) => series[name]).findLast((points) => points.length);
  const write = share ? percent : figure;
  chart(place, says, {
    height: 230,
    marginLeft: 54,
    marginBottom: 38,
    x: { ...stepScale(steps, (place.clientWidth || 400) - 54), type: "point" },
    y: {
      grid: true,
      label,
      ...(share && { percent: true, tickFormat: (v) => figure(v, 2) }),
      ...(log
        ? {
            type: "log",
            tickFormat: powerOfTen,
            ticks: powersOfTen(Object.values(series).flatMap((points) => points.map((p) => p.y))),
          }
        : { nice: true }),
    },
    color: { ...pair(), legend: true },
    marks: [
      share ? Plot.ruleY([0], { strokeOpacity: 0.4 }) : null,
      ...kind.marks.map(([name, shape]) => SHAPES[shape](series[name])),
      Plot.text(
        pointed.filter((p) => p.over),
        { x: "step", y: "y", text: () => "×", fill: "name", fontSize: 13 },
      ),
      Plot.tip(
        pointed,
        Plot.pointerX({
          x: "step",
          y: "y",
          title: (p) =>
            `${p.name}, step ${p.step}: ${write(p.y)}${p.over ? ", with overflow (×)" : ""}`,
        }),
      ),
    ],
  });
}
