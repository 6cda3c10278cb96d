// The data of the page's parts: one trace's rows, its layers and its schemes that the filters keep.

import { front, judged, judgedTopology, rankOf } from "./ranking.js";
import { record, rowIndex, rowsOfTrace } from "./rows.js";

// Data that depends only on the trace.
export function traceOf(data, name) {
  const { rows, figures, filtered } = data.tables;
  const index = (table, ...columns) => rowIndex(table, rowsOfTrace(table, name), columns);
  const staged = index(rows, "scheme", "topology", "stage");
  const whole = index(figures, "scheme", "topology"),
    part = index(filtered, "filter", "scheme", "topology");
  const cells = rowsOfTrace(rows, name);
  const textOf = (column) => (i) => column.levels[column.codes[i]];
  const roles = d3.rollup(cells, ([i]) => textOf(rows.role)(i), textOf(rows.tensor));
  return {
    name,
    steps: d3.sort(new Set(cells.map((i) => rows.step[i]))),
    layers: [...roles.keys()],
    roles,
    topologies: d3.rollup(
      cells,
      (own) => [...new Set(own.map(textOf(rows.topology)))],
      textOf(rows.scheme),
    ),
    rowsOf: (scheme, topology, atWire = topology === "") =>
      staged(scheme, topology, atWire ? "wire" : "reduced"),
    summaries: rowsOfTrace(figures, name),
    filtered: index(filtered, "filter"),
    // The core's figure of the layers that a filter keeps, over all steps.
    figureOf: (column, filter, scheme, topology) =>
      (filter
        ? filtered[column][part(filter, scheme, topology)[0]]
        : figures[column][whole(scheme, topology)[0]]) ?? NaN,
    records: new Map(),
  };
}

// The records of the layers that a filter keeps, or of all. Costs are modelled for whole models and
// steps are counted of the trace; neither depends on the layers that are kept.
function recordsOf(data, trace, filter, all) {
  const { figures, filtered } = data.tables;
  const records = all
    ? trace.summaries.map((i) => record(figures, i))
    : trace.filtered(filter).map((i) => record(filtered, i));
  return records.map((r) => {
    const whole = data.wholeFigures.map((key) => [
      key,
      trace.figureOf(key, "", r.scheme, r.topology),
    ]);
    return { ...r, ...Object.fromEntries(whole), worst_layer: r.worst_layer || null };
  });
}

// Layers that a filter keeps: all (""), those of a role ("role conv"), or one ("layer
// conv1.weight").
function layersOf(trace, filter) {
  if (!filter) return trace.layers;
  const what = filter.slice(filter.indexOf(" ") + 1);
  if (filter.startsWith("layer ")) return trace.layers.filter((l) => l === what);
  return trace.layers.filter((l) => trace.roles.get(l) === what);
}

export function look(data, trace, state) {
  const rows = data.tables.rows;
  const layers = layersOf(trace, state.layer);
  const schemes = new Map(
    data.schemes.filter((s) => trace.topologies.has(s.spec)).map((s) => [s.spec, s]),
  );
  const selected = (spec) => {
    const s = schemes.get(spec);
    return (
      state.families.has(s.family) && state.formats.has(s.format) && state.bits.has(String(s.bits))
    );
  };
  if (!trace.records.has(state.layer)) {
    const all = layers.length === trace.layers.length;
    const records = recordsOf(data, trace, state.layer, all);
    trace.records.set(
      state.layer,
      records.map((r) => ({ ...r, ...schemes.get(r.scheme), rank: rankOf(r) })),
    );
  }
  const topologiesOf = (spec) => (trace.topologies.get(spec) ?? []).filter(Boolean);
  const everyTopology = trace.records.get(state.layer).filter((r) => selected(r.scheme));
  return {
    state,
    rows,
    layers,
    schemes,
    everyTopology,
    records: front(everyTopology, state.topology, data.reductionKinds),
    judged: judged(everyTopology, state.topology),
    kindOf: (topology) => data.reductionKinds[topology],
    trace: trace.name,
    steps: trace.steps,
    rowsOf: trace.rowsOf,
    figureOf: trace.figureOf,
    histograms: data.tables.histograms,
    formats: data.formats,
    topologiesOf,
    called: (topology) => data.reductionNames[topology] ?? topology,
    judgedOf: (spec) => judgedTopology(topologiesOf(spec), state.topology),
  };
}
