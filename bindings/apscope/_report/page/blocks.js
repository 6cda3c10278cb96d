// Part (f): statistics of the blocks of block formats, which stand in columns whose names begin
// with "block_".

import { beside, chart, figureBox, stepScale } from "./chart.js";
import { grid } from "./compare.js";
import { element, select } from "./dom.js";
import { clip, figure, percent } from "./text.js";

// What is shown of a row: what it is called, its number, how that is written.
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
    const held = STATISTICS.filter(([column]) => column in view.rows);
    const schemes = [...view.schemes.keys()].filter((spec) =>
      view
        .rowsOf(spec, "")
        .some((i) => held.some(([column]) => !Number.isNaN(view.rows[column][i]))),
    );
    if (!schemes.includes(state.blockScheme)) state.blockScheme = schemes[0];
    if (!held.some(([column]) => column === state.blockColumn)) state.blockColumn = held[0][0];
    const [, name, number, write] = held.find(([column]) => column === state.blockColumn);
    tools.replaceChildren(
      select(
        "scheme",
        schemes.map((value) => ({ value, text: clip(value, 60) })),
        state.blockScheme,
        (value) => {
          state.blockScheme = value;
          redraw();
        },
      ),
      select(
        "statistic",
        held.map(([value, text]) => ({ value, text })),
        state.blockColumn,
        (value) => {
          state.blockColumn = value;
          redraw();
        },
      ),
    );
    const cells = [];
    grid(view, state.blockScheme, "").forEach((row, i) => {
      const value = row < 0 ? NaN : number(view.rows, row);
      if (!Number.isNaN(value))
        cells.push({
          layer: view.layers[Math.floor(i / view.steps.length)],
          step: view.steps[i % view.steps.length],
          value,
        });
    });
    const width = place.clientWidth || 600,
      { margin, fit } = beside(view.layers, width);
    chart(place, `Of ${state.blockScheme}, by layer and step: ${name}.`, {
      height: 62 + view.layers.length * 18,
      marginLeft: margin,
      marginBottom: 36,
      x: stepScale(view.steps, width - margin),
      y: { type: "band", domain: view.layers, label: null, padding: 0, tickFormat: fit },
      color: {
        scheme: "viridis",
        legend: true,
        width: Math.min(320, width),
        marginLeft: 16,
        marginRight: 16,
        label: name,
        ...(write === percent && { percent: true, tickFormat: (v) => `${figure(v, 2)} %` }),
      },
      marks: [
        Plot.cell(cells, { x: "step", y: "layer", fill: "value", inset: 0.3 }),
        Plot.tip(
          cells,
          Plot.pointer({
            x: "step",
            y: "layer",
            title: (c) => `${clip(c.layer, 60)}, step ${c.step}: ${write(c.value)}`,
          }),
        ),
      ],
    });
  };
}
