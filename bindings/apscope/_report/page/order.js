// Part (e): what encoding costs, and what the order of the additions adds to it.

import { beside, chart, figureBox, powerOfTen, powersOfTen } from "./chart.js";
import { element } from "./dom.js";
import { figure } from "./text.js";

const FLOOR = 1e-7; // as in part (b)
const SYMBOLS = ["circle", "triangle", "diamond", "square", "star", "times", "wye", "plus"];
const COLOURS = [
  "#3b82d6",
  "#e8871e",
  "#2f9e6e",
  "#d1495b",
  "#b07aa1",
  "#c9a227",
  "#6c8ebf",
  "#8d6e63",
];

export function orderPart(box) {
  const place = element("div", { class: "plot" });
  box.append(
    figureBox(
      "Step NMSE. Bar: the sent values summed exactly, the error of encoding alone. Marks: summed in each order, every addition rounded; the distance from the bar is the error of the additions.",
      place,
    ),
  );
  return (view) => {
    const groups = [...Map.groupBy(view.everyTopology, (r) => r.scheme)].filter(
      ([, g]) => g.some((r) => r.topology === "exact") && g.length > 1,
    );
    const points = groups
      .flatMap(([, g]) => {
        const exact = g.find((r) => r.topology === "exact").step_nmse;
        return g.map((r) => ({ ...r, exact }));
      })
      .filter((p) => p.step_nmse > 0 && Number.isFinite(p.step_nmse));
    if (!points.length) {
      place.replaceChildren(
        element(
          "p",
          { class: "empty" },
          "No scheme of this selection is summed in an order: the trace holds no local gradients, or only exact sums were asked for.",
        ),
      );
      return;
    }
    const schemes = [...new Set(points.map((p) => p.scheme))];
    const bars = points.filter((p) => p.topology === "exact"),
      sums = points.filter((p) => p.topology !== "exact");
    const topologies = [...new Set(sums.map((p) => p.topology))];
    const low = Math.min(...points.map((p) => p.step_nmse)) / 1.5;
    const width = place.clientWidth || 600,
      { margin, fit } = beside(schemes, width);
    chart(
      place,
      `Step NMSE of ${schemes.length} schemes, summed exactly and in the orders ${topologies.join(", ")}.`,
      {
        height: 70 + schemes.length * 20,
        marginLeft: margin,
        marginBottom: 40,
        x: {
          type: "log",
          label: "step NMSE",
          grid: true,
          ticks: powersOfTen(
            points.map((p) => p.step_nmse),
            FLOOR,
            width - margin,
          ),
          tickFormat: (v) => (v <= FLOOR ? "≤ " : "") + powerOfTen(v),
          domain: [Math.max(low, FLOOR), Math.max(...points.map((p) => p.step_nmse)) * 1.3],
          clamp: true,
        },
        y: { type: "band", domain: schemes, label: null, tickFormat: fit },
        color: { domain: topologies, range: COLOURS },
        symbol: { domain: topologies, range: SYMBOLS, legend: true },
        marks: [
          Plot.barX(bars, {
            x1: Math.max(low, FLOOR),
            x2: "step_nmse",
            y: "scheme",
            fill: "currentColor",
            fillOpacity: 0.16,
            insetTop: 3,
            insetBottom: 3,
          }),
          Plot.dot(sums, {
            x: "step_nmse",
            y: "scheme",
            stroke: "topology",
            symbol: "topology",
            r: 4.5,
            strokeWidth: 1.8,
          }),
          Plot.tip(
            points,
            Plot.pointer({
              x: "step_nmse",
              y: "scheme",
              title: (p) =>
                `${p.scheme}\n${p.topology}: ${figure(p.step_nmse)}${p.overflowed ? `, overflow in ${p.overflowed} steps` : ""}${p.topology === "exact" ? "" : `\nof it made by the additions: ${figure(p.step_nmse - p.exact)}`}`,
            }),
          ),
        ],
      },
    );
  };
}
