// Part (g): every scheme of the selection in one table.

import { Table } from "./table.js";
import { clip, figure, nmseText, percent, seconds } from "./text.js";

export function schemesPart(box, state, redraw, data) {
  const narrow = matchMedia("(max-width: 640px)").matches;
  const few = new Set([
    "scheme",
    "topology",
    "error_over_noise",
    "step_nmse",
    "underflow_wire",
    "volume",
  ]);
  const column = (key, label, title, text, shown = false) => ({
    key,
    label,
    title,
    text: (r) => text(r[key]),
    numeric: true,
    shown: narrow ? few.has(key) : shown,
  });
  const words = (key, label, title, shown = false) => ({
    key,
    label,
    title,
    text: (r) => clip(String(r[key]), 60),
    shown: narrow ? few.has(key) : shown,
  });
  const marked = (r) =>
    figure(r.step_nmse) +
    (r.overflowed ? ` †${r.overflowed}` : "") +
    (r.skipped ? ` ‡${r.skipped}` : "") +
    (r.gaps ? ` §${r.gaps}` : "") +
    (r.lost_layers ? ` ¶${r.lost_layers}` : "");
  const columns = [
    {
      ...words("scheme", "scheme", "a spec that --scheme takes", true),
      text: (r) => r.scheme,
    },
    words("topology", "reduction", "two phases, order of additions, or the scheme's own", true),
    column(
      "error_over_noise",
      "error over noise",
      "squared error over the noise of the batch, in the typical block",
      figure,
      true,
    ),
    {
      ...column("step_nmse", "step NMSE", "mean over the steps of the step's NMSE", figure, true),
      text: marked,
    },
    column(
      "layer_cosine",
      "layer cosine",
      "mean over layers and steps",
      (v) => (v == null || Number.isNaN(v) ? "–" : v.toFixed(4)),
      true,
    ),
    column("worst_nmse", "worst NMSE", "of one layer at one step", nmseText, true),
    column(
      "underflow_wire",
      "underflow, wire",
      "nonzero values that a worker sends as 0",
      percent,
      true,
    ),
    column("underflow_reduced", "underflow, reduced", "nonzero sums that became 0", percent, true),
    column(
      "relative_bias",
      "relative bias",
      "sum of sign(x)(y - x) over sum of |x|",
      percent,
      true,
    ),
    column(
      "volume",
      "volume",
      "bytes of the busiest rank divided by those of an fp32 ring",
      figure,
      true,
    ),
    column("speedup", "speed-up", "modelled, against the fp32 ring", figure, true),
    column(
      "expected_variance",
      "expected variance",
      "over the random draws, relative to the mean square; 0 for deterministic schemes",
      figure,
    ),
    column("nmse", "pooled NMSE", "all layers and steps together", nmseText),
    words("worst_layer", "layer of the worst NMSE", "at one step"),
    column("worst_step", "step of the worst NMSE", "of that layer", (v) => String(v)),
    column("time", "time", "modelled, a step", seconds),
    words("family", "family", "kind of scheme"),
    words("format", "format", "format of the sent values"),
    column("bits", "bits", "of a value, without side information", String),
    column("skipped", "skipped", "steps", String),
    column("overflowed", "overflowed", "steps", String),
    column("nonfinite", "NaN or infinite", "steps with such gradients, which are left out", String),
  ];
  const known = new Set(columns.map((c) => c.key));
  for (const [key, says] of Object.entries(data.figureSays))
    if (!known.has(key)) columns.push(column(key, key.replaceAll("_", " "), says, figure));
  const table = new Table({
    name: "schemes",
    caption:
      "Schemes. † steps with overflow, which count at least 1; ‡ skipped steps, which count 1; " +
      "§ steps at which a scheme's memory is of an earlier step; ¶ layers of which less than " +
      "half arrives, over all steps: no rank, last",
    sort: "rank",
    search: true,
    columns,
  });
  box.append(table.box);
  return (view) => table.update(view.records);
}
