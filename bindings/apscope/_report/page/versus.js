// Part (c): any scheme A against any B: a map of the ratio of their NMSE by layer and step, a table
// of layers.

import { A_COLOUR, B_COLOUR, beside, chart, dark, figureBox, stepScale } from "./chart.js";
import { bothMeasured, grid, layerSums, layerTable, ratios } from "./compare.js";
import { detail } from "./detail.js";
import { element, select } from "./dom.js";
import { drawParts } from "./parts.js";
import { judgedTopology } from "./summary.js";
import { Table } from "./table.js";
import { clip, figure, nmseText, percent, times } from "./text.js";

// Rows of a map; a table has them all.
const MAX_LAYERS = 60;

export function versusPart(box, state, redraw) {
  const pickers = element("div", { class: "tools" });
  const said = element("p", { class: "said", role: "status" });
  const map = element("div", { class: "plot" }),
    parts = element("div", { class: "plot" });
  const panel = element("div", { class: "detail", tabindex: -1 });
  const pick = (layer, step = null) => {
    state.picked =
      state.picked?.layer === layer && state.picked.step === step ? null : { layer, step };
    redraw();
    if (state.picked) panel.scrollIntoView({ block: "nearest" });
  };
  const table = new Table({
    name: "layers",
    caption: "Layers, A against B",
    sort: "median_ratio",
    onpick: (r) => pick(r.layer),
    columns: layerColumns(),
  });
  box.append(
    pickers,
    said,
    figureBox(
      "Why: what the squared errors of A and B are made of, in the layer that is open, else in all; shares below 0 undo others",
      parts,
    ),
    figureBox(
      "Each cell: NMSE of A over NMSE of B, one layer at one step. × a value overflowed, which counts at least 1. A click on a cell or on a layer's name opens it.",
      map,
    ),
    panel,
    table.box,
  );
  return (view) => {
    choosers(pickers, view, state, redraw);
    if (!view.schemes.has(state.a) || !view.schemes.has(state.b)) {
      said.textContent = "This trace has no such pair of schemes; choose A and B.";
      return;
    }
    const sides = [state.a, state.b].map((scheme) => side(view, scheme));
    const cells = ratios(view.rows, view.layers, view.steps, sides[0].judged, sides[1].judged);
    const counts = bothMeasured(view.rows, sides[0].judged, sides[1].judged);
    const records = layerTable(
      cells,
      view.layers,
      ...sides.map((s) => layerSums(view.rows, view.layers, view.steps, s, counts)),
    );
    said.textContent = sentence(state, sides, records);
    drawParts(parts, view, sides, counts, state.picked?.layer);
    drawMap(map, view, cells, records, state, pick);
    table.update(records, state.picked?.layer);
    detail(panel, view, state, sides, () => pick(state.picked.layer, state.picked.step));
  };
}

// Rows of one scheme: at the wire, summed exactly, and at the topology by which it is judged.
function side(view, scheme) {
  const topology = judgedTopology(view.topologiesOf(scheme), view.state.topology);
  const rowsAt = (t) => grid(view, scheme, t);
  const wire = rowsAt(""),
    exact = view.topologiesOf(scheme).includes("exact") ? rowsAt("exact") : null;
  const judged = topology === "exact" ? exact : topology ? rowsAt(topology) : wire;
  return { scheme, topology, wire, exact, judged };
}

function choosers(place, view, state, redraw) {
  const options = [...view.schemes.values()].map((s) => ({
    value: s.spec,
    text: clip(s.spec, 60),
    group: s.family,
  }));
  place.replaceChildren(
    select("A", options, state.a, (value) => {
      state.a = value;
      redraw();
    }),
    select("B", options, state.b, (value) => {
      state.b = value;
      redraw();
    }),
    element(
      "button",
      {
        type: "button",
        onclick: () => {
          [state.a, state.b] = [state.b, state.a];
          redraw();
        },
      },
      "swap",
    ),
  );
}

function sentence(state, sides, records) {
  const sum = (key) => records.reduce((total, r) => total + r[key], 0);
  const cells = sum("steps"),
    wins = sum("wins"),
    losses = sum("losses");
  const where =
    sides[0].topology === sides[1].topology
      ? sides[0].topology || "the wire"
      : `${sides[0].topology} and ${sides[1].topology}`;
  return (
    `A = ${clip(state.a, 80)}, B = ${clip(state.b, 80)}, ${where}: of ${cells} pairs of a layer and a step A loses less in ${wins}, more in ${losses}, ` +
    `as much in ${cells - wins - losses}.`
  );
}

// A cell's NMSE; one with overflow counts at least 1.
const lost = (nmse, over) => (over ? `overflow, counts ${figure(nmse)}` : figure(nmse));

function drawMap(place, view, cells, records, state, pick) {
  // The layers that differ most, in the trace's order.
  const kept = new Set(
    [...records]
      .sort(
        (x, y) => Math.abs(Math.log(y.median_ratio || 1)) - Math.abs(Math.log(x.median_ratio || 1)),
      )
      .slice(0, MAX_LAYERS)
      .map((r) => r.layer),
  );
  const layers = view.layers.filter((l) => kept.has(l));
  const known = cells.filter((c) => kept.has(c.layer) && !Number.isNaN(c.ratio));
  const finite = known.map((c) => Math.abs(c.ratio)).filter(Number.isFinite);
  const bound = Math.min(12, Math.max(1, ...finite));
  const width = place.clientWidth || 600,
    { margin, fit } = beside(layers, width);
  const neutral = dark() ? "#3a3d42" : "#efefef";
  const made = chart(
    place,
    `Heat map of ${layers.length} layers and ${view.steps.length} steps: the ratio of the NMSE of ${state.a} over that of ${state.b}; ${known.filter((c) => c.a < c.b).length} cells where A loses less. The table below has the same by layer.`,
    {
      height: 62 + layers.length * Math.max(14, Math.min(26, 360 / layers.length)),
      marginLeft: margin,
      marginBottom: 36,
      x: stepScale(view.steps, width - margin),
      y: { type: "band", domain: layers, label: null, tickFormat: fit, padding: 0 },
      color: {
        type: "linear",
        domain: [-bound, 0, bound],
        range: [A_COLOUR, neutral, B_COLOUR],
        clamp: true,
        legend: true,
        width: 320,
        marginLeft: 26,
        marginRight: 26,
        label: "NMSE of A / NMSE of B (blue: A loses less)",
        ticks: [-bound, -bound / 2, 0, bound / 2, bound],
        tickFormat: (r) =>
          r === 0
            ? "1"
            : r < 0
              ? `1/${2 ** -r >= 10 ? Math.round(2 ** -r) : (2 ** -r).toPrecision(2)}`
              : `${2 ** r >= 10 ? Math.round(2 ** r) : (2 ** r).toPrecision(2)}`,
      },
      marks: [
        Plot.cell(known, {
          x: "step",
          y: "layer",
          fill: (c) => Math.max(-bound, Math.min(bound, c.ratio)),
          inset: 0.3,
        }),
        Plot.text(
          known.filter((c) => c.overA || c.overB),
          { x: "step", y: "layer", text: () => "×" },
        ),
        state.picked && kept.has(state.picked.layer)
          ? Plot.cell(
              view.steps
                .filter((s) => state.picked.step == null || s === state.picked.step)
                .map((step) => ({ step, layer: state.picked.layer })),
              { x: "step", y: "layer", fill: "none", stroke: "currentColor" },
            )
          : null,
        Plot.tip(
          known,
          Plot.pointer({
            x: "step",
            y: "layer",
            title: (c) =>
              `${clip(c.layer, 60)}, step ${c.step}\nA ${lost(c.a, c.overA)}, B ${lost(c.b, c.overB)}\nA loses ${c.ratio === 0 ? "as much as B" : times(2 ** c.ratio)}`,
          }),
        ),
      ],
    },
  );
  made.style.cursor = "pointer";
  made.addEventListener("click", () => made.value && pick(made.value.layer, made.value.step));
  if (layers.length < view.layers.length)
    place.append(
      element(
        "p",
        { class: "note" },
        `The ${layers.length} layers that differ most, of ${view.layers.length}; the table has all.`,
      ),
    );
}

function layerColumns() {
  const number = (key, label, title, text, shown = true) => ({
    key,
    label,
    title,
    text: (r) => text(r[key]),
    numeric: true,
    shown,
  });
  return [
    {
      key: "layer",
      label: "layer",
      title: "a button opens the layer",
      text: (r) => clip(r.layer, 48),
      shown: true,
    },
    number("wins", "A less in", "steps in which A loses less than B", String),
    number("losses", "A more in", "steps in which A loses more than B", String),
    number(
      "median_ratio",
      "median ratio",
      "NMSE of A over NMSE of B, median over the steps",
      figure,
    ),
    number("worst_ratio", "worst ratio", "the largest ratio over the steps", figure),
    number("nmse_a", "NMSE A", "pooled over the steps, after the reduction", nmseText),
    number("nmse_b", "NMSE B", "pooled over the steps, after the reduction", nmseText),
    number("underflow_a", "underflow A", "nonzero values that A sends as 0", percent),
    number("underflow_b", "underflow B", "nonzero values that B sends as 0", percent),
    number(
      "accumulation_a",
      "additions A",
      "share of the reduced squared error that the rounded additions made",
      percent,
      false,
    ),
    number(
      "accumulation_b",
      "additions B",
      "share of the reduced squared error that the rounded additions made",
      percent,
      false,
    ),
    number("steps", "steps", "steps in which both have an NMSE", String, false),
  ];
}
