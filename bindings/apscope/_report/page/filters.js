// The bar of filters: trace, reduction, family, format, bits, layer.

import { boxes, choice, element, select } from "./dom.js";
import { clip } from "./text.js";

export function filters(bar, data, state, traces, update) {
  const layerField = element("span");
  const layers = () => {
    const trace = traces.get(state.trace);
    const options = [
      { value: "", text: `all ${trace.layers.length}` },
      ...[...new Set(trace.roles.values())]
        .filter(Boolean)
        .map((r) => ({ value: `role ${r}`, text: clip(r), group: "by role" })),
      ...trace.layers.map((l) => ({ value: `layer ${l}`, text: clip(l), group: "one layer" })),
    ];
    layerField.replaceChildren(choice("layers", options, state, "layer", update));
  };
  const values = (key) => [...new Set(data.schemes.map((s) => String(s[key])))];
  const topologies = data.tables.rows.topology.levels.filter(
    (t) => t && data.reductionKinds[t] !== "own",
  );
  layers();
  bar.replaceChildren(
    select(
      "trace",
      [...traces.keys()].map((value) => ({ value, text: clip(value) })),
      state.trace,
      (value) => {
        Object.assign(state, { trace: value, layer: "", picked: null }, data.startOf[value]);
        layers();
        update();
      },
    ),
    topologies.length
      ? select(
          "reduction",
          topologies.map((value) => ({ value })),
          state.topology,
          (value) => {
            Object.assign(state, { topology: value, aReduction: "", bReduction: "" });
            update();
          },
        )
      : "",
    layerField,
    boxes("families", values("family"), state.families, update),
    boxes("formats", values("format"), state.formats, update),
    boxes(
      "bits",
      values("bits").sort((a, b) => a - b),
      state.bits,
      update,
    ),
  );
}
