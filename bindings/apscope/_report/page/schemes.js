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
  const column = (key, label, text, shown = false) => ({
    key,
    label,
    title: data.figureSays[key],
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
    column("error_over_noise", "error over noise", figure, true),
    { ...column("step_nmse", "step NMSE", figure, true), text: marked },
    column(
      "layer_cosine",
      "layer cosine",
      (v) => (v == null || Number.isNaN(v) ? "–" : v.toFixed(4)),
      true,
    ),
    column("worst_nmse", "worst NMSE", nmseText, true),
    column("underflow_wire", "underflow, wire", percent, true),
    column("underflow_reduced", "underflow, reduced", percent, true),
    column("relative_bias", "relative bias", percent, true),
    column("volume", "volume", figure, true),
    column("speedup", "speed-up", figure, true),
    column("expected_variance", "expected variance", figure),
    column("nmse", "pooled NMSE", nmseText),
    words("worst_layer", "layer of the worst NMSE", data.figureSays.worst_layer),
    column("worst_step", "step of the worst NMSE", String),
    column("time", "time", seconds),
    words("family", "family", "kind of scheme"),
    words("format", "format", "format of the sent values"),
    { ...column("bits", "bits", String), title: "of a value, without side information" },
    column("skipped", "skipped", String),
    column("overflowed", "overflowed", String),
    column("nonfinite", "NaN or infinite", String),
  ];
  const known = new Set(columns.map((c) => c.key));
  for (const key of Object.keys(data.figureSays))
    if (!known.has(key)) columns.push(column(key, key.replaceAll("_", " "), figure));
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
