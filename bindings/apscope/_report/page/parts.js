// The parts of the squared errors of A and B: bars of the five columns split_..., which add up
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

// Sums over the steps of the layers that count, or of `layer` alone; skipped steps have no parts.
export function partSums(view, { scheme, topology, judged }, counts, layer) {
  const { rows, layers, steps, sums: table } = view;
  const chosen = new Set();
  let reference = 0,
    overflow = 0;
  for (let i = 0; i < judged.length; i++) {
    const own = layers[Math.floor(i / steps.length)];
    if (!counts[i] || rows.skipped[judged[i]] || (layer && own !== layer)) continue;
    chosen.add(own);
    overflow += rows.overflow[judged[i]] || 0;
    reference += rows.sum_squared_reference[judged[i]];
  }
  const sums = Object.fromEntries(PARTS.map(([name]) => [name, 0]));
  for (const i of view.sumsOf(scheme, topology))
    if (chosen.has(table.tensor.levels[table.tensor.codes[i]]))
      for (const [name] of PARTS) sums[name] += table[`split_${name}`][i];
  const error = Object.values(sums).reduce((a, b) => a + b, 0);
  return { sums, error, overflow, nmse: reference > 0 ? error / reference : NaN };
}

export function drawParts(place, view, sides, counts, layer) {
  const found = sides.map((s, k) => ({
    name: "AB"[k],
    ...partSums(view, s, counts, layer),
  }));
  const told = found.filter(
    (f) => f.error > 0 && !f.overflow && PARTS.every(([name]) => !Number.isNaN(f.sums[name])),
  );
  const over = found
    .filter((f) => f.overflow)
    .map((f) => `${f.name} overflowed here, so its error is not finite and has no parts.`)
    .join(" ");
  if (!told.length)
    return place.replaceChildren(
      element(
        "p",
        { class: "empty" },
        over || "No parts to show: the two have no error here, or do not round to a float grid.",
      ),
    );
  const rowName = (f) => `${f.name}, pooled NMSE ${figure(f.nmse)}`;
  const bars = told.flatMap((f) =>
    PARTS.map(([name, , says]) => ({ row: rowName(f), name, says, share: f.sums[name] / f.error })),
  );
  const shares = (f) => PARTS.map(([name]) => `${name} ${percent(f.sums[name] / f.error)}`);
  const words = told.map((f) => `${f.name}: ${shares(f).join(", ")}`).join("; ");
  chart(place, `Parts of the squared errors. ${words}.`, {
    height: 58 + 30 * told.length,
    marginLeft: 190,
    marginBottom: 34,
    x: {
      percent: true,
      label: "share of the squared error",
      tickFormat: (v) => `${v} %`,
      grid: true,
    },
    y: { type: "band", domain: told.map(rowName), label: null },
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
