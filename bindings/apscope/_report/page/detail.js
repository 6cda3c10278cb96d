// One layer of part (c): its exponents, the scales, the bias, and the causes of the error.

import { chart, charts, figureBox } from "./chart.js";
import { element } from "./dom.js";
import { drawSteps, pair } from "./draw.js";
import { bias, shares } from "./fill.js";
import { clip, figure, percent } from "./text.js";

// Kinds of charts, in their order, and the functions that draw them.
const PARTS = { exponents, scale, bias: biasOverSteps, origin };

export function detail(panel, view, state, sides, close) {
  const place = view.layers.indexOf(state.picked?.layer);
  if (place < 0) {
    panel.replaceChildren();
    return;
  }
  const { layer, step } = state.picked;
  const first = place * view.steps.length;
  const cut = (grid) => grid?.slice(first, first + view.steps.length);
  const parts = sides.map((s, k) => ({
    name: "AB"[k],
    scheme: s.scheme,
    topology: s.topology,
    wire: cut(s.wire),
    exact: cut(s.exact),
    judged: cut(s.judged),
  }));
  const boxes = Object.keys(PARTS).map((name) => [name, element("div", { class: "plot" })]);
  panel.replaceChildren(
    element(
      "h4",
      {},
      `Layer ${clip(layer, 80)}${step == null ? "" : `, step ${step}`} `,
      element("button", { type: "button", onclick: close }, "close"),
    ),
    element(
      "div",
      { class: "grid" },
      ...boxes.map(([name, box]) => figureBox(charts.kinds[name].caption, box)),
    ),
  );
  for (const [name, box] of boxes) PARTS[name](box, charts.kinds[name], view, parts, layer, step);
}

// A series of one value per step for A and for B; value(row) of the rows in `which`. Where values
// overflowed, what is left of them has an error and a bias, they have none.
function series(view, sides, which, value) {
  return sides.flatMap((s) =>
    view.steps.map((step, j) => {
      const i = s[which]?.[j] ?? -1;
      const number = i < 0 ? NaN : value(i);
      const points = typeof number === "number" ? { y: number } : number;
      return { step, name: s.name, ...points, over: i >= 0 && view.rows.overflow[i] > 0 };
    }),
  );
}

const none = (place, text) => place.replaceChildren(element("p", { class: "empty" }, text));

function exponents(place, kind, view, sides, layer, step) {
  const bars = shares(view.histograms, view.trace, layer, step);
  if (!bars.length) return none(place, "This trace has no nonzero finite values here.");
  const ranges = sides.flatMap((s) => rangeOf(view, s, step));
  const ends = [...bars.map((b) => b.exponent), ...ranges.flatMap((r) => [r.low, r.high])];
  const top = Math.max(...bars.map((b) => b.share));
  const span = (r) => `${r.name} holds ${r.kind} numbers from 2^${r.low} to 2^${r.high}`;
  const says =
    `Histogram of the exponents of ${layer}, from 2^${bars[0].exponent} to ` +
    `2^${bars[bars.length - 1].exponent}. ${ranges.map(span).join("; ")}.`;
  const strip = (r, a, b) => (r.name === "A" ? a : b) * top;
  chart(place, says, {
    height: 230,
    marginBottom: 38,
    marginLeft: 46,
    x: { label: kind.x.label, domain: [Math.min(...ends) - 0.5, Math.max(...ends) + 1.5] },
    y: {
      label: kind.y.label,
      percent: true,
      domain: [-28 * top, 105 * top],
      ticks: 4,
      tickFormat: (v) => (v < 0 ? "" : figure(v, 2)),
    },
    color: pair(),
    marks: [
      Plot.rectY(bars, {
        x1: (b) => b.exponent,
        x2: (b) => b.exponent + 1,
        y: "share",
        fill: "currentColor",
        fillOpacity: 0.35,
        insetLeft: 0.5,
        insetRight: 0.5,
        title: (b) => `2^${b.exponent}: ${percent(b.share)}`,
      }),
      Plot.ruleY([0]),
      Plot.rect(ranges, {
        x1: "low",
        x2: (r) => r.high + 1,
        y1: (r) => strip(r, -0.13, -0.26),
        y2: (r) => strip(r, -0.03, -0.16),
        fill: "name",
        fillOpacity: (r) => (r.kind === "normal" ? 1 : 0.4),
        title: span,
      }),
      Plot.text(
        ranges.filter((r) => r.kind === "normal"),
        {
          x: (r) => (r.low + r.high + 1) / 2,
          y: (r) => strip(r, -0.08, -0.21),
          text: (r) => r.name,
          fill: "white",
          fontWeight: "bold",
          fontSize: 10,
        },
      ),
    ],
  });
}

// Exponents of the gradient that a format holds at the scale of the step (of all steps: at the
// middle one).
function rangeOf(view, { name, scheme, wire }, step) {
  const rows = wire.filter((i) => i >= 0 && (step == null || view.rows.step[i] === step));
  const format = view.formats[view.schemes.get(scheme).format];
  const scales = Array.from(rows, (i) => view.rows.scale_exponent[i])
    .filter((x) => !Number.isNaN(x))
    .sort((a, b) => a - b);
  if (!format || !scales.length) return [];
  const scale = scales[scales.length >> 1];
  const { smallest, normal, largest } = format;
  const ranges = [{ name, kind: "normal", low: normal - scale, high: largest - scale }];
  if (smallest < normal)
    ranges.push({ name, kind: "subnormal", low: smallest - scale, high: normal - 1 - scale });
  return ranges;
}

function scale(place, kind, view, sides) {
  const points = series(view, sides, "wire", (i) => view.rows.scale_exponent[i]);
  if (points.every((p) => Number.isNaN(p.y)))
    return none(place, "Neither scheme has one power of two as its scale.");
  const says = `Scale exponents of A and B over ${view.steps.length} steps.`;
  drawSteps(place, says, kind, view.steps, { scale: points });
}

function biasOverSteps(place, kind, view, sides) {
  const points = series(view, sides, "judged", (i) => bias(view.rows, i));
  const says = "Relative bias of A and B over the steps, with bands of two standard errors.";
  drawSteps(place, says, kind, view.steps, { bias: points });
}

function origin(place, kind, view, sides) {
  const loss = (i) => {
    const value = view.rows.nmse[i];
    return value > 0 && Number.isFinite(value) ? value : NaN;
  };
  const reduced = sides.filter((s) => s.topology);
  const rounded = reduced.filter((s) => s.topology !== "exact");
  const says = "NMSE of A and B over the steps: sent, summed exactly and summed in the format.";
  drawSteps(place, says, kind, view.steps, {
    sent: series(view, sides, "wire", loss),
    exact: series(view, reduced, "exact", loss),
    summed: series(view, rounded, "judged", loss),
  });
}
