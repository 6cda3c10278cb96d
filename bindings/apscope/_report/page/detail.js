// One layer of part (c): where its exponents lie, the scales, underflow, bias and where the error
// is made.

import {
  A_COLOUR,
  B_COLOUR,
  chart,
  figureBox,
  powerOfTen,
  powersOfTen,
  stepScale,
} from "./chart.js";
import { nmse } from "./summary.js";
import { element } from "./dom.js";
import { clip, figure, percent } from "./text.js";

const COLOURS = { domain: ["A", "B"], range: [A_COLOUR, B_COLOUR] };

export function detail(panel, view, state, sides, close) {
  const place = view.layers.indexOf(state.picked?.layer);
  if (place < 0) {
    panel.replaceChildren();
    return;
  }
  const { layer, step } = state.picked;
  const cut = (grid) =>
    grid && grid.slice(place * view.steps.length, (place + 1) * view.steps.length);
  const own = sides.map((s, k) => ({
    name: "AB"[k],
    scheme: s.scheme,
    topology: s.topology,
    wire: cut(s.wire),
    exact: cut(s.exact),
    judged: cut(s.judged),
  }));
  const boxes = PARTS.map(([caption, draw]) => ({
    draw,
    place: element("div", { class: "plot" }),
    caption,
  }));
  panel.replaceChildren(
    element(
      "h4",
      {},
      `Layer ${clip(layer, 80)}${step == null ? "" : `, step ${step}`} `,
      element("button", { type: "button", onclick: close }, "close"),
    ),
    element("div", { class: "grid" }, ...boxes.map((b) => figureBox(b.caption, b.place))),
  );
  for (const b of boxes) b.draw(b.place, view, own, layer, step);
}

const PARTS = [
  ["Exponents of the gradient, and what each format holds under its scale", histogram],
  ["Scale exponent s of Q(2ˢ g)", scales],
  ["Underflow: on the wire (line) and after the reduction (dashes)", underflow],
  ["Relative bias after the reduction, ± 2 standard errors", bias],
  [
    "Where the error is made: sent (dots), summed exactly (dashes), summed in the format (line)",
    origin,
  ],
];

// Whether values of a row overflowed: what is left of them has an error and a bias, they have none.
const over = (view, i) => i >= 0 && view.rows.overflow[i] > 0;

// A series of one value a step for A and for B; value(row) of the rows in `which`.
function series(view, own, which, value) {
  return own.flatMap((s) =>
    s[which]
      ? view.steps.map((step, j) => ({
          step,
          name: s.name,
          y: s[which][j] < 0 ? NaN : value(s[which][j]),
          over: over(view, s[which][j]),
        }))
      : [],
  );
}

const none = (place, text) => place.replaceChildren(element("p", { class: "empty" }, text));

function histogram(place, view, own, layer, step) {
  const h = view.histograms,
    counts = new Map();
  const code = h.tensor.levels.indexOf(layer),
    trace = h.trace.levels.indexOf(view.trace),
    finite = h.kind.levels.indexOf("finite");
  let total = 0;
  for (let i = 0; i < h.length; i++) {
    if (h.tensor.codes[i] !== code || h.trace.codes[i] !== trace || h.kind.codes[i] !== finite)
      continue;
    if (step != null && h.step && h.step[i] !== step) continue;
    counts.set(h.exponent[i], (counts.get(h.exponent[i]) ?? 0) + h.count[i]);
    total += h.count[i];
  }
  if (!total) return none(place, "This trace has no nonzero finite values here.");
  const bars = [...counts]
    .map(([exponent, count]) => ({ exponent, share: count / total }))
    .sort((a, b) => a.exponent - b.exponent);
  const ranges = own.flatMap((s) => rangeOf(view, s, step));
  const exponents = [...bars.map((b) => b.exponent), ...ranges.flatMap((r) => [r.low, r.high])];
  const top = Math.max(...bars.map((b) => b.share));
  chart(
    place,
    `Histogram of the exponents of ${layer}, from 2^${bars[0].exponent} to 2^${bars[bars.length - 1].exponent}. ${ranges.map((r) => `${r.name} holds ${r.kind} numbers from 2^${r.low} to 2^${r.high}`).join("; ")}.`,
    {
      height: 230,
      marginBottom: 38,
      marginLeft: 46,
      x: {
        label: "exponent k of 2ᵏ ≤ |g| < 2ᵏ⁺¹",
        domain: [Math.min(...exponents) - 0.5, Math.max(...exponents) + 1.5],
      },
      y: {
        label: "share of values",
        percent: true,
        domain: [-28 * top, 105 * top],
        ticks: 4,
        tickFormat: (v) => (v < 0 ? "" : figure(v, 2)),
      },
      color: COLOURS,
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
          y1: (r) => (r.name === "A" ? -0.13 : -0.26) * top,
          y2: (r) => (r.name === "A" ? -0.03 : -0.16) * top,
          fill: "name",
          fillOpacity: (r) => (r.kind === "normal" ? 1 : 0.4),
          title: (r) => `${r.name}: ${r.kind} numbers, 2^${r.low} to 2^${r.high}`,
        }),
        Plot.text(
          ranges.filter((r) => r.kind === "normal"),
          {
            x: (r) => (r.low + r.high + 1) / 2,
            y: (r) => (r.name === "A" ? -0.08 : -0.21) * top,
            text: (r) => r.name,
            fill: "white",
            fontWeight: "bold",
            fontSize: 10,
          },
        ),
      ],
    },
  );
}

// Exponents of the gradient that a format holds at the scale of the step (of all steps: at the
// middle one).
function rangeOf(view, s, step) {
  const rows = s.wire.filter((i) => i >= 0 && (step == null || view.rows.step[i] === step));
  const format = view.formats[view.schemes.get(s.scheme).format];
  const scales = Array.from(rows, (i) => view.rows.scale_exponent[i])
    .filter((x) => !Number.isNaN(x))
    .sort((a, b) => a - b);
  if (!format || !scales.length) return [];
  const scale = scales[scales.length >> 1];
  const normal = {
    name: s.name,
    kind: "normal",
    low: format.normal - scale,
    high: format.largest - scale,
  };
  return format.smallest < format.normal
    ? [
        normal,
        {
          name: s.name,
          kind: "subnormal",
          low: format.smallest - scale,
          high: format.normal - 1 - scale,
        },
      ]
    : [normal];
}

function scales(place, view, own) {
  const points = series(view, own, "wire", (i) => view.rows.scale_exponent[i]);
  if (points.every((p) => Number.isNaN(p.y)))
    return none(place, "Neither scheme has one power of two as its scale.");
  lines(
    place,
    view,
    `Scale exponents of A and B over ${view.steps.length} steps.`,
    [Plot.lineY(points, { x: "step", y: "y", stroke: "name", curve: "step", strokeWidth: 2 })],
    { label: "s", nice: true },
    points,
  );
}

function underflow(place, view, own) {
  const rate = (i) =>
    view.rows.skipped[i] || !view.rows.nonzero[i]
      ? NaN
      : view.rows.underflow[i] / view.rows.nonzero[i];
  const wire = series(view, own, "wire", rate),
    reduced = series(
      view,
      own.filter((s) => s.topology),
      "judged",
      rate,
    );
  lines(
    place,
    view,
    `Underflow rates of A and B over the steps, on the wire and after the reduction.`,
    [
      Plot.lineY(wire, { x: "step", y: "y", stroke: "name", strokeWidth: 2 }),
      Plot.lineY(reduced, { x: "step", y: "y", stroke: "name", strokeDasharray: "4 3" }),
    ],
    {
      label: "underflow",
      percent: true,
      tickFormat: (v) => `${figure(v, 2)} %`,
      nice: true,
      zero: true,
    },
    wire,
    percent,
  );
}

function bias(place, view, own) {
  const {
    sum_signed_error: signed,
    sum_absolute_reference: absolute,
    sum_squared_error: squared,
    skipped,
  } = view.rows;
  const points = own.flatMap((s) =>
    view.steps.map((step, j) => {
      const i = s.judged[j];
      if (i < 0 || !(absolute[i] > 0)) return { step, name: s.name, y: NaN, low: NaN, high: NaN };
      const y = skipped[i] ? -1 : signed[i] / absolute[i],
        error = skipped[i]
          ? 0
          : (2 * Math.sqrt(Math.max(0, squared[i] - signed[i] ** 2 / view.rows.counted[i]))) /
            absolute[i];
      return { step, name: s.name, y, low: y - error, high: y + error, over: over(view, i) };
    }),
  );
  lines(
    place,
    view,
    "Relative bias of A and B over the steps, with bands of two standard errors.",
    [
      Plot.ruleY([0], { strokeOpacity: 0.4 }),
      Plot.areaY(points, { x: "step", y1: "low", y2: "high", fill: "name", fillOpacity: 0.2 }),
      Plot.lineY(points, { x: "step", y: "y", stroke: "name", strokeWidth: 1.5 }),
    ],
    { label: "relative bias", percent: true, tickFormat: (v) => `${figure(v, 2)} %`, nice: true },
    points,
    percent,
  );
}

function origin(place, view, own) {
  const loss = (i) => {
    const value = nmse(view.rows, i);
    return value > 0 && Number.isFinite(value) ? value : NaN;
  };
  const wire = series(view, own, "wire", loss),
    exact = series(
      view,
      own.filter((s) => s.topology),
      "exact",
      loss,
    ),
    sums = series(
      view,
      own.filter((s) => s.topology && s.topology !== "exact"),
      "judged",
      loss,
    );
  lines(
    place,
    view,
    "NMSE of A and B over the steps: sent, summed exactly and summed in the format.",
    [
      Plot.dot(wire, { x: "step", y: "y", stroke: "name", r: 1.8 }),
      Plot.lineY(exact, { x: "step", y: "y", stroke: "name", strokeDasharray: "4 3" }),
      Plot.lineY(sums, { x: "step", y: "y", stroke: "name", strokeWidth: 1.5 }),
    ],
    {
      type: "log",
      label: "NMSE",
      tickFormat: powerOfTen,
      ticks: powersOfTen([...wire, ...exact, ...sums].map((p) => p.y)),
    },
    sums.length ? sums : wire,
  );
}

function lines(place, view, says, marks, y, points, text = figure) {
  chart(place, says, {
    height: 230,
    marginLeft: 54,
    marginBottom: 38,
    x: { ...stepScale(view.steps, (place.clientWidth || 400) - 54), type: "point" },
    y: { grid: true, ...y },
    color: { ...COLOURS, legend: true },
    marks: [
      ...marks,
      Plot.text(
        points.filter((p) => p.over),
        { x: "step", y: "y", text: () => "×", fill: "name", fontSize: 13 },
      ),
      Plot.tip(
        points,
        Plot.pointerX({
          x: "step",
          y: "y",
          title: (p) =>
            `${p.name}, step ${p.step}: ${text(p.y)}${p.over ? ", with overflow (×)" : ""}`,
        }),
      ),
    ],
  });
}
