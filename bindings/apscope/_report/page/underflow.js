// Part (d): underflow by scheme and layer, and by layer and step, in bands that show 1 % beside 40
// %.

import { beside, chart, dark, figureBox, stepScale } from "./chart.js";
import { grid } from "./compare.js";
import { element } from "./dom.js";
import { clip, percent, tail } from "./text.js";

// Upper ends of the bands; the first three are those in which training logs are read.
const BANDS = [0.005, 0.02, 0.04, 0.1, 0.2, 0.4, 0.8];
const NAMES = ["< 0.5 %", "0.5–2 %", "2–4 %", "4–10 %", "10–20 %", "20–40 %", "40–80 %", "≥ 80 %"];
const LIGHT = [
  "#eef3f8",
  "#c9dff0",
  "#9cc5e3",
  "#f7d98b",
  "#f0ad5a",
  "#dd7a3a",
  "#b8432f",
  "#701f2c",
];
const DARK = [
  "#2b3138",
  "#31506b",
  "#3f7ba6",
  "#8a7226",
  "#b9822f",
  "#d9703a",
  "#e0503f",
  "#ff8f8f",
];
const WORST = 5,
  MAX_LAYERS = 60;

export const band = (rate) =>
  NAMES[BANDS.findIndex((end) => rate < end)] ?? NAMES[NAMES.length - 1];

export function underflowPart(box, state) {
  const overview = element("div", { class: "plot" });
  const sides = ["A", "B"].map((name) => ({
    name,
    caption: element("figcaption"),
    place: element("div", { class: "plot" }),
  }));
  box.append(
    figureBox(
      "Every scheme of the selection, by layer, all steps pooled, on the wire. Boxed: the worst layer of each of the five worst schemes.",
      overview,
    ),
    element(
      "div",
      { class: "pair" },
      ...sides.map((s) => element("figure", {}, s.caption, s.place)),
    ),
  );
  let drawn = null,
    filter = null;
  const pooled = new Map();
  return (view, again) => {
    // Nor do a scheme's sums by layer, which read all of its rows.
    const now = JSON.stringify([state.trace, state.layer]);
    if (now !== filter) pooled.clear();
    filter = now;
    for (const { scheme } of view.records)
      if (!pooled.has(scheme)) pooled.set(scheme, byLayer(view, scheme));
    drawOverview(overview, view, pooled);
    // The maps of the pair do not change with the other schemes that are kept.
    const key = JSON.stringify([state.trace, state.layer, state.a, state.b]);
    if (key === drawn && !again) return;
    drawn = key;
    sides.forEach((side, k) => {
      const scheme = [state.a, state.b][k];
      side.caption.textContent = `${side.name} = ${clip(scheme, 80)}, by layer and step`;
      if (view.schemes.has(scheme)) drawSteps(side.place, view, scheme);
    });
  };
}

// Underflow and nonzero counts of wire rows, summed over the steps: one cell a layer.
function byLayer(view, scheme) {
  const found = grid(view, scheme, ""),
    { rows, steps } = view;
  return view.layers.map((layer, l) => {
    let under = 0,
      all = 0;
    for (let i = l * steps.length; i < (l + 1) * steps.length; i++) {
      if (found[i] >= 0 && !rows.skipped[found[i]]) {
        under += rows.underflow[found[i]];
        all += rows.nonzero[found[i]];
      }
    }
    return { scheme, layer, rate: all ? under / all : NaN };
  });
}

function drawOverview(place, view, pooled) {
  const schemes = view.records.map((r) => r.scheme);
  const cells = schemes.flatMap((s) => pooled.get(s)).filter((c) => !Number.isNaN(c.rate));
  const shown = widest(view.layers, cells),
    layers = view.layers.filter((l) => shown.has(l));
  map(
    place,
    cells.filter((c) => shown.has(c.layer)),
    {
      says: `Underflow rates of ${schemes.length} schemes by layer.`,
      rows: "scheme",
      rowNames: schemes,
      columns: "layer",
      columnScale: (width) => ({
        type: "band",
        domain: layers,
        label: null,
        padding: 0,
        tickRotate: -35,
        tickFormat: (l) => tail(l, 22),
        ticks: layers.filter(
          (_, i) => i % Math.ceil(layers.length / Math.max(2, width / 30)) === 0,
        ),
      }),
      bottom: 112,
    },
  );
  if (shown.size < view.layers.length)
    place.append(
      element(
        "p",
        { class: "note" },
        `The ${shown.size} layers with most underflow, of ${view.layers.length}.`,
      ),
    );
}

function drawSteps(place, view, scheme) {
  const found = grid(view, scheme, "");
  const cells = [];
  found.forEach((row, i) => {
    if (row >= 0 && !view.rows.skipped[row] && view.rows.nonzero[row] > 0) {
      cells.push({
        layer: view.layers[Math.floor(i / view.steps.length)],
        step: view.steps[i % view.steps.length],
        rate: view.rows.underflow[row] / view.rows.nonzero[row],
      });
    }
  });
  if (!cells.length)
    return place.replaceChildren(
      element("p", { class: "empty" }, "Every step was skipped, or no value is nonzero."),
    );
  const shown = widest(view.layers, cells);
  map(
    place,
    cells.filter((c) => shown.has(c.layer)),
    {
      says: `Underflow rates of ${scheme} by layer and step.`,
      rows: "layer",
      rowNames: view.layers.filter((l) => shown.has(l)),
      columns: "step",
      columnScale: (width) => stepScale(view.steps, width),
      bottom: 36,
    },
  );
}

// The layers with most underflow, all cells together: their largest rates are alike as soon as one
// scheme loses a whole layer everywhere.
function widest(layers, cells) {
  const sums = new Map();
  for (const c of cells) sums.set(c.layer, (sums.get(c.layer) ?? 0) + c.rate);
  return new Set(
    [...layers].sort((x, y) => (sums.get(y) ?? -1) - (sums.get(x) ?? -1)).slice(0, MAX_LAYERS),
  );
}

function map(place, cells, { says, rows, rowNames, columns, columnScale, bottom }) {
  const width = place.clientWidth || 600,
    { margin, fit } = beside(rowNames, width);
  // Of every row its worst cell: five cells of one row would say one thing five times.
  const worstOf = new Map();
  for (const c of cells) if (c.rate > (worstOf.get(c[rows])?.rate ?? 0)) worstOf.set(c[rows], c);
  const worst = [...worstOf.values()].sort((x, y) => y.rate - x.rate).slice(0, WORST);
  const name = (c) =>
    `${clip(String(c[rows]), 60)}, ${columns === "step" ? `step ${c.step}` : clip(c[columns], 60)}: ${percent(c.rate)}`;
  chart(place, `${says} Worst: ${worst.map(name).join("; ") || "none, nothing underflows"}.`, {
    width,
    height: bottom + 30 + rowNames.length * Math.max(13, Math.min(22, 300 / rowNames.length)),
    marginLeft: margin,
    marginBottom: bottom,
    x: columnScale(width - margin),
    y: { type: "band", domain: rowNames, label: null, padding: 0, tickFormat: fit },
    color: { type: "ordinal", domain: NAMES, range: dark() ? DARK : LIGHT, legend: true },
    marks: [
      Plot.cell(cells, { x: columns, y: rows, fill: (c) => band(c.rate), inset: 0.3 }),
      Plot.cell(worst, {
        x: columns,
        y: rows,
        fill: "none",
        stroke: "currentColor",
        strokeWidth: 1.8,
      }),
      Plot.tip(cells, Plot.pointer({ x: columns, y: rows, title: name })),
    ],
  });
}
