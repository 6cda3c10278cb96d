// The data of the page's parts: one trace's rows, its layers that are kept, its schemes that are
// kept.

import { front, judged, judgedTopology, rankOf } from "./ranking.js";
import { record, rowIndex, spans } from "./rows.js";

// Data that depends only on the trace.
export function traceOf(data, name, code) {
  const { rows, sums, figures, filtered } = data.tables,
    span = spans(rows)[code];
  const index = (table, ...columns) =>
    rowIndex(table, spans(table)[table.trace.levels.indexOf(name)], columns);
  const staged = (table) => {
    const found = index(table, "scheme", "topology", "stage");
    return (scheme, topology, atWire = topology === "") =>
      found(scheme, topology, atWire ? "wire" : "reduced");
  };
  const steps = new Set(),
    layers = new Map(),
    found = new Map();
  for (let i = span[0]; i < span[1]; i++) {
    steps.add(rows.step[i]);
    if (!layers.has(rows.tensor.codes[i]))
      layers.set(rows.tensor.codes[i], rows.role.levels[rows.role.codes[i]]);
    const s = rows.scheme.codes[i];
    if (!found.has(s)) found.set(s, new Set());
    found.get(s).add(rows.topology.codes[i]);
  }
  return {
    name,
    span,
    steps: [...steps].sort((a, b) => a - b),
    layers: [...layers.keys()].map((c) => rows.tensor.levels[c]),
    roles: new Map([...layers].map(([c, role]) => [rows.tensor.levels[c], role])),
    rowsOf: staged(rows),
    sumsOf: staged(sums),
    topologies: new Map(
      [...found].map(([s, t]) => [
        rows.scheme.levels[s],
        [...t].map((c) => rows.topology.levels[c]),
      ]),
    ),
    figures: new Map(
      index(
        figures,
        "trace",
      )(name).map((i) => {
        const r = summaryOf(figures, i);
        return [`${r.scheme} ${r.topology}`, r];
      }),
    ),
    filtered: index(filtered, "filter"),
    filteredOf: index(filtered, "scheme", "topology"),
    records: new Map(),
  };
}

function summaryOf(table, i) {
  const r = record(table, i);
  return { ...r, worst_layer: r.worst_layer || null };
}

// The records of the layers that a filter keeps, or of all. Costs are modelled for whole models and
// steps are counted of the trace; neither depends on the layers that are kept.
function recordsOf(data, trace, filter, all) {
  if (all) return [...trace.figures.values()];
  return trace.filtered(filter).map((i) => {
    const r = summaryOf(data.tables.filtered, i),
      whole = trace.figures.get(`${r.scheme} ${r.topology}`);
    return { ...r, ...Object.fromEntries(data.wholeFigures.map((key) => [key, whole[key]])) };
  });
}

// Layers that a filter keeps: all (""), those of a role ("role conv"), or one ("layer
// conv1.weight").
export function keptLayers(trace, filter) {
  if (!filter) return trace.layers;
  const what = filter.slice(filter.indexOf(" ") + 1);
  if (filter.startsWith("layer ")) return trace.layers.filter((l) => l === what);
  return trace.layers.filter((l) => trace.roles.get(l) === what);
}

export function look(data, trace, state) {
  const rows = data.tables.rows;
  const layers = keptLayers(trace, state.layer);
  const schemes = new Map(
    data.schemes.filter((s) => trace.topologies.has(s.spec)).map((s) => [s.spec, s]),
  );
  const kept = (spec) => {
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
  const everyTopology = trace.records.get(state.layer).filter((r) => kept(r.scheme));
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
    span: trace.span,
    steps: trace.steps,
    rowsOf: trace.rowsOf,
    sums: data.tables.sums,
    sumsOf: trace.sumsOf,
    filtered: data.tables.filtered,
    filteredOf: trace.filteredOf,
    histograms: data.tables.histograms,
    formats: data.formats,
    topologiesOf,
    called: (topology) => data.reductionNames[topology] ?? topology,
    volumeOf: (spec, topology) => trace.figures.get(`${spec} ${topology}`)?.volume ?? NaN,
    judgedOf: (spec) => judgedTopology(topologiesOf(spec), state.topology),
  };
}
