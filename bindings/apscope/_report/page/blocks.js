// Part (f): statistics of the blocks of block formats, which stand in columns whose names begin with "block_".

import { beside, chart, figureBox, stepScale } from "./chart.js";
import { grid } from "./compare.js";
import { element, select } from "./dom.js";
import { clip, figure } from "./text.js";

export const blockColumns = (rows) => Object.keys(rows).filter((name) => name.startsWith("block_"));

export function blocksPart(box, state, redraw) {
  const tools = element("div", { class: "tools" }), place = element("div", { class: "plot" });
  box.append(tools, figureBox("By layer and step", place));
  return (view) => {
    const columns = blockColumns(view.rows);
    const holds = (spec, column) => view.rowsOf(spec, "").some((i) => !Number.isNaN(view.rows[column][i]));
    const schemes = [...view.schemes.keys()].filter((spec) => columns.some((c) => holds(spec, c)));
    if (!schemes.includes(state.blockScheme)) state.blockScheme = schemes[0];
    if (!columns.includes(state.blockColumn)) state.blockColumn = columns[0];
    tools.replaceChildren(
      select("scheme", schemes.map((value) => ({ value, text: clip(value, 60) })), state.blockScheme, (value) => { state.blockScheme = value; redraw(); }),
      select("statistic", columns.map((value) => ({ value })), state.blockColumn, (value) => { state.blockColumn = value; redraw(); }));
    const values = view.rows[state.blockColumn], cells = [];
    grid(view, state.blockScheme, "").forEach((row, i) => {
      if (row >= 0 && !Number.isNaN(values[row])) cells.push({ layer: view.layers[Math.floor(i / view.steps.length)], step: view.steps[i % view.steps.length], value: values[row] });
    });
    const width = place.clientWidth || 600, { margin, fit } = beside(view.layers, width);
    chart(place, `${state.blockColumn} of ${state.blockScheme} by layer and step.`, {
      height: 62 + view.layers.length * 18, marginLeft: margin, marginBottom: 36, x: stepScale(view.steps, width - margin),
      y: { type: "band", domain: view.layers, label: null, padding: 0, tickFormat: fit }, color: { scheme: "viridis", legend: true, label: state.blockColumn },
      marks: [Plot.cell(cells, { x: "step", y: "layer", fill: "value", inset: 0.3 }), Plot.tip(cells, Plot.pointer({ x: "step", y: "layer", title: (c) => `${clip(c.layer, 60)}, step ${c.step}: ${figure(c.value)}` }))],
    });
  };
}
