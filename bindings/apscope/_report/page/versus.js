// Part (c): any scheme A against any B: a map of the ratio of their NMSE by layer and step, a table
// of layers.

import { charts, figureBox } from "./chart.js";
import { grid, layerTable, ratios, wireGrid } from "./compare.js";
import { detail } from "./detail.js";
import { choice, element, select } from "./dom.js";
import { drawMap, leftOut, mostOf, placeOf } from "./draw.js";
import { drawParts } from "./parts.js";
import { Table } from "./table.js";
import { clip, figure, nmseText, percent, times } from "./text.js";

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
      "Why: the parts of the squared errors of A and B, in the open layer, else in " +
        "all; shares below 0 undo others",
      parts,
    ),
    figureBox(
      `${charts.kinds.ratio.caption}. A click on a cell or on a layer's name opens it.`,
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
    const sides = reduced(view, state).map(([scheme, topology]) => side(view, scheme, topology));
    const cells = ratios(
      view,
      sides.map((s) => s.judged),
    );
    const records = layerTable(view, cells, sides);
    said.textContent = sentence(view, sides, records);
    drawParts(parts, view, sides, state.picked ? `layer ${state.picked.layer}` : state.layer);
    drawRatios(map, view, cells, records, state, pick);
    table.update(records, state.picked?.layer);
    detail(panel, view, state, sides, () => pick(state.picked.layer, state.picked.step));
  };
}

// A and B with their reductions: those chosen, where the scheme has them, else those of its rank.
export function reduced(view, state) {
  return [
    [state.a, state.aReduction],
    [state.b, state.bReduction],
  ].map(([scheme, selected]) => [
    scheme,
    view.topologiesOf(scheme).includes(selected) ? selected : view.judgedOf(scheme),
  ]);
}

// Whether the exact sum is that of the messages that this topology adds.
const exactOf = (view, scheme, topology) =>
  view.topologiesOf(scheme).includes("exact") &&
  (topology === "exact" || !topology || !view.rowsOf(scheme, topology, true).length);

// Rows of one scheme: at the wire, summed exactly where that is known, and reduced.
function side(view, scheme, topology) {
  const rowsAt = (t) => grid(view, scheme, t);
  const wire = wireGrid(view, scheme, topology),
    exact = exactOf(view, scheme, topology) ? rowsAt("exact") : null;
  const judged = topology ? rowsAt(topology) : wire;
  return { scheme, topology, wire, exact, judged };
}

function choosers(place, view, state, redraw) {
  const options = [...view.schemes.values()].map((s) => ({
    value: s.spec,
    text: clip(s.spec, 60),
    group: s.family,
  }));
  const sides = reduced(view, state);
  const fields = ["a", "b"].flatMap((key, k) => {
    const [scheme, topology] = sides[k],
      name = key.toUpperCase();
    const names = view.topologiesOf(scheme).map((value) => ({ value, text: view.called(value) }));
    const reduce = (value) => {
      state[`${key}Reduction`] = value;
      redraw();
    };
    return [
      choice(name, options, state, key, redraw),
      names.length ? select(`${name} reduced by`, names, topology, reduce) : null,
    ];
  });
  const swap = () => {
    [state.a, state.b] = [state.b, state.a];
    [state.aReduction, state.bReduction] = [sides[1][1], sides[0][1]];
    redraw();
  };
  place.replaceChildren(
    ...fields.filter(Boolean),
    element("button", { type: "button", onclick: swap }, "swap"),
  );
}

function sentence(view, sides, records) {
  const sum = (key) => records.reduce((total, r) => total + r[key], 0);
  const cells = sum("steps"),
    wins = sum("wins"),
    losses = sum("losses");
  const named = (k) => {
    const { scheme, topology } = sides[k],
      sent = view.figureOf("volume", "", scheme, topology);
    return (
      `${"AB"[k]} = ${scheme}, ${topology ? view.called(topology) : "the wire"}` +
      (sent > 0 ? `, ${figure(sent)} of fp32's bytes` : "")
    );
  };
  return (
    `${named(0)}; ${named(1)}: of ${cells} pairs of a layer ` +
    `and a step A loses less in ${wins}, more in ${losses}, as much in ${cells - wins - losses}.`
  );
}

// A cell's NMSE; with overflow at least 1.
const lost = (nmse, over) => (over ? `overflow, counts ${figure(nmse)}` : figure(nmse));

function drawRatios(place, view, ratiosOf, records, state, pick) {
  const gaps = records.map((r) => ({
    layer: r.layer,
    gap: Math.abs(Math.log(r.median_ratio || 1)),
  }));
  const layers = mostOf(view.layers, gaps, "layer", (r) => r.gap);
  const shown = new Set(layers);
  const cells = ratiosOf
    .filter((c) => shown.has(c.layer) && !Number.isNaN(c.ratio))
    .map((c) => ({ ...c, row: c.layer, column: c.step, value: 2 ** c.ratio }));
  const { layer, step } = state.picked ?? {};
  const less = cells.filter((c) => c.a < c.b).length;
  const says =
    `Heat map of ${layers.length} layers and ${view.steps.length} steps: the ratio of the NMSE ` +
    `of ${state.a} over that of ${state.b}; ${less} cells where A loses less. ` +
    "The table below has the same by layer.";
  const made = drawMap(place, says, cells, {
    colour: charts.kinds.ratio.bands,
    rows: layers,
    columns: view.steps,
    crossed: cells.filter((c) => c.overA || c.overB),
    framed: cells.filter((c) => c.layer === layer && (step == null || c.step === step)),
    title: (c) =>
      `${placeOf(c)}\nA ${lost(c.a, c.overA)}, B ${lost(c.b, c.overB)}\n` +
      `A loses ${c.ratio === 0 ? "as much as B" : times(c.value)}`,
  });
  made.style.cursor = "pointer";
  made.addEventListener("click", () => made.value && pick(made.value.layer, made.value.step));
  leftOut(place, layers, view.layers, "that differ most; the table has all");
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
  const both = (key, label, title, text, shown) =>
    ["A", "B"].map((side) =>
      number(`${key}_${side.toLowerCase()}`, `${label} ${side}`, title(side), text, shown),
    );
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
    ...both("nmse", "NMSE", () => "pooled over the steps of the scheme, reduced", nmseText),
    ...both("underflow", "underflow", (side) => `nonzero values that ${side} sends as 0`, percent),
    ...both(
      "accumulation",
      "accumulation",
      () => "share of the reduced squared error that the rounded additions made",
      percent,
      false,
    ),
    number("steps", "steps", "steps in which both have an NMSE", String, false),
  ];
}
