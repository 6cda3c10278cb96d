// The parts of the squared errors of A and B: bars of the core's five sums split_..., which add up
// to the squared error.

import { chart } from "./chart.js";
import { element } from "./dom.js";
import { figure, percent } from "./text.js";

const PARTS = [
  ["underflow", "#c2453a", "values that became 0 on the wire"],
  ["rounding", "#7a828e", "other values, rounded on the wire"],
  ["saturation", "#8b5cf6", "values beyond the largest, clipped to it on the wire"],
  ["accumulation", "#0f9b8e", "rounded additions"],
  ["interaction", "#d4a017", "products of these errors: below 0 if they cancel"],
];

// Of the layers of `filter`, all steps; a step that a scheme skipped has no parts.
export function drawParts(place, view, sides, filter) {
  const results = sides.map(({ scheme, topology }, k) => {
    const figure = (column) => view.figureOf(column, filter, scheme, topology);
    const parts = PARTS.map(([name]) => figure(`split_${name}`));
    const error = d3.sum(parts);
    return {
      name: "AB"[k],
      nmse: figure("nmse"),
      overflow: figure("mse") === Infinity,
      shares: parts.map((part) => part / error),
    };
  });
  const drawn = results.filter((f) => !f.overflow && f.shares.every(Number.isFinite));
  const over = results
    .filter((f) => f.overflow)
    .map((f) => `${f.name} overflowed here, so its error is not finite and has no parts.`)
    .join(" ");
  if (!drawn.length)
    return place.replaceChildren(
      element(
        "p",
        { class: "empty" },
        over || "No parts to show: the two have no error here, or do not round to a float grid.",
      ),
    );
  const rowName = (f) => `${f.name}, pooled NMSE ${figure(f.nmse)}`;
  const bars = drawn.flatMap((f) =>
    PARTS.map(([name, , says], k) => ({ row: rowName(f), name, says, share: f.shares[k] })),
  );
  const words = drawn
    .map(
      (f) => `${f.name}: ${PARTS.map(([name], k) => `${name} ${percent(f.shares[k])}`).join(", ")}`,
    )
    .join("; ");
  chart(place, `Parts of the squared errors. ${words}.`, {
    height: 58 + 30 * drawn.length,
    marginLeft: 190,
    marginBottom: 34,
    x: {
      percent: true,
      label: "share of the squared error",
      tickFormat: (v) => `${v} %`,
      grid: true,
    },
    y: { type: "band", domain: drawn.map(rowName), label: null },
    color: { domain: PARTS.map((p) => p[0]), range: PARTS.map((p) => p[1]), legend: true },
    marks: [
      Plot.barX(bars, {
        x: "share",
        y: "row",
        fill: "name",
        insetTop: 2,
        insetBottom: 2,
        title: (b) => `${b.name}: ${percent(b.share)}\n${b.says}`,
        tip: true,
      }),
      Plot.ruleX([0]),
    ],
  });
  if (over) place.append(element("p", { class: "note" }, over));
}
