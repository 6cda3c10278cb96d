// Part (f): statistics of the blocks of block formats, from the columns whose names begin
// with "block_".

import { figureBox } from "./chart.js";
import { wireGrid } from "./compare.js";
import { choice, element } from "./dom.js";
import { drawMap, placeOf } from "./draw.js";
import { clip, figure, percent } from "./text.js";

// The shown parts of a row: a name, a number, and its text.
const STATISTICS = [
  [
    "block_saturated",
    "blocks with a saturated element",
    (rows, i) => rows.block_saturated[i] / rows.block_count[i],
    percent,
  ],
  [
    "block_scale_spread",
    "spread of the block scales, in binades",
    (rows, i) => rows.block_scale_spread[i],
    figure,
  ],
  [
    "block_range",
    "dynamic range in a block, mean, in binades",
    (rows, i) => rows.block_range[i],
    figure,
  ],
  [
    "block_range_max",
    "dynamic range in a block, largest, in binades",
    (rows, i) => rows.block_range_max[i],
    figure,
  ],
];

export const blockColumns = (rows) => Object.keys(rows).filter((name) => name.startsWith("block_"));

export function blocksPart(box, state, redraw) {
  const tools = element("div", { class: "tools" }),
    place = element("div", { class: "plot" });
  box.append(tools, figureBox("By layer and step", place));
  return (view) => {
    const present = STATISTICS.filter(([column]) => column in view.rows);
    const schemes = [...view.schemes.keys()].filter((spec) =>
      view
        .rowsOf(spec, "")
        .some((i) => present.some(([column]) => !Number.isNaN(view.rows[column][i]))),
    );
    if (!schemes.includes(state.blockScheme)) state.blockScheme = schemes[0];
    const chosen = present.find(([column]) => column === state.blockColumn) ?? present[0];
    state.blockColumn = chosen[0];
    const [, name, number, write] = chosen;
    tools.replaceChildren(
      choice(
        "scheme",
        schemes.map((value) => ({ value, text: clip(value, 60) })),
        state,
        "blockScheme",
        redraw,
      ),
      choice(
        "statistic",
        present.map(([value, text]) => ({ value, text })),
        state,
        "blockColumn",
        redraw,
      ),
    );
    const cells = [];
    wireGrid(view, state.blockScheme, view.judgedOf(state.blockScheme)).forEach((i, k) => {
      const value = i < 0 ? NaN : number(view.rows, i);
      if (Number.isNaN(value)) return;
      const row = view.layers[Math.floor(k / view.steps.length)];
      cells.push({ row, column: view.steps[k % view.steps.length], value });
    });
    const share = { percent: true, tickFormat: (v) => `${figure(v, 2)} %` };
    drawMap(place, `${state.blockScheme} by layer and step: ${name}.`, cells, {
      colour: { scheme: "viridis", label: name, ...(write === percent && share) },
      rows: view.layers,
      columns: view.steps,
      title: (c) => `${placeOf(c)}: ${write(c.value)}`,
    });
  };
}
