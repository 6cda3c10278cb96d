// Part (d): underflow by scheme and layer, and by layer and step.

import { charts, figureBox, within } from "./chart.js";
import { wireGrid } from "./compare.js";
import { element } from "./dom.js";
import { drawMap, leftOut, mostOf, placeOf } from "./draw.js";
import { percent } from "./text.js";
import { reduced } from "./versus.js";

const WORST = 5;
// Degrees by which layers' names are turned, and pixels below the map for them.
const TURN = 35,
  BELOW = 112;
const [sin, cos] = [Math.sin, Math.cos].map((f) => (degrees) => f((degrees * Math.PI) / 180));

export function underflowPart(box, state) {
  const overview = element("div", { class: "plot" });
  const sides = ["A", "B"].map((name) => ({
    name,
    caption: element("figcaption"),
    place: element("div", { class: "plot" }),
  }));
  box.append(
    figureBox(
      "Every scheme of the selection, by layer, all steps pooled, on the wire. " +
        "Boxed: the worst layer of each of the five worst schemes. Narrow formats send small " +
        "values as 0, so a high share is not a fault: their part of the squared error, in A " +
        "against B, tells what they are worth.",
      overview,
    ),
    element(
      "div",
      { class: "pair" },
      ...sides.map((s) => element("figure", {}, s.caption, s.place)),
    ),
  );
  let drawn = null;
  return (view, again) => {
    drawOverview(overview, view);
    // The maps of the pair do not change with the other schemes that are kept.
    const pair = reduced(view, state);
    const key = JSON.stringify([state.trace, state.layer, pair]);
    if (key === drawn && !again) return;
    drawn = key;
    sides.forEach((side, k) => {
      const [scheme, topology] = pair[k];
      const sums = topology ? `, ${view.called(topology)}` : "";
      side.caption.textContent = `${side.name} = ${scheme}${sums}, by layer and step`;
      if (view.schemes.has(scheme)) drawSteps(side.place, view, scheme, topology);
    });
  };
}

function drawOverview(place, view) {
  const schemes = view.judged.map((r) => r.scheme);
  const cells = d3
    .cross(schemes, view.layers, (scheme, layer) => ({
      row: scheme,
      column: layer,
      value: view.figureOf("underflow_wire", `layer ${layer}`, scheme, view.judgedOf(scheme)),
    }))
    .filter((c) => !Number.isNaN(c.value));
  // Sums, since the largest rates are alike as soon as one scheme loses a whole layer everywhere.
  const layers = mostOf(view.layers, cells, "column", (c) => c.value);
  const shown = new Set(layers);
  map(
    place,
    `Underflow rates of ${schemes.length} schemes by layer.`,
    cells.filter((c) => shown.has(c.column)),
    {
      rows: schemes,
      columnScale: (width, margin) => ({
        type: "band",
        domain: layers,
        label: null,
        padding: 0,
        tickRotate: -TURN,
        tickFormat: (l) =>
          within(l, Math.min((BELOW - 26) / sin(TURN), margin / cos(TURN) - 12), width),
        ticks: layers.filter(
          (_, i) => i % Math.ceil(layers.length / Math.max(2, (width - margin) / 30)) === 0,
        ),
      }),
      bottom: BELOW,
    },
  );
  leftOut(place, layers, view.layers, "with most underflow");
}

function drawSteps(place, view, scheme, topology) {
  const { rows, layers, steps } = view;
  const cells = [];
  wireGrid(view, scheme, topology).forEach((i, k) => {
    if (i < 0 || rows.skipped[i] || !(rows.nonzero[i] > 0)) return;
    cells.push({
      row: layers[Math.floor(k / steps.length)],
      column: steps[k % steps.length],
      value: rows.underflow[i] / rows.nonzero[i],
    });
  });
  if (!cells.length) {
    const text = "Every step was skipped, or no value is nonzero.";
    place.replaceChildren(element("p", { class: "empty" }, text));
    return;
  }
  const shown = mostOf(layers, cells, "row", (c) => c.value);
  map(
    place,
    `Underflow rates of ${scheme} by layer and step.`,
    cells.filter((c) => shown.includes(c.row)),
    { rows: shown, columns: steps },
  );
}

function map(place, says, cells, about) {
  // The worst cell of every row, so that the five cells are not all of one row.
  const worstOf = new Map();
  for (const c of cells) if (c.value > (worstOf.get(c.row)?.value ?? 0)) worstOf.set(c.row, c);
  const framed = [...worstOf.values()].sort((x, y) => y.value - x.value).slice(0, WORST);
  const title = (c) => `${placeOf(c)}: ${percent(c.value)}`;
  const worst = framed.map(title).join("; ") || "none, nothing underflows";
  const colour = charts.kinds.underflow.bands;
  drawMap(place, `${says} Worst: ${worst}.`, cells, { ...about, colour, framed, title });
}
