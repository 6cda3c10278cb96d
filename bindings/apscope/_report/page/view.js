// The data of the page's parts: one trace's rows, its layers that are kept, its schemes that are
// kept.

import { rowIndex } from "./compare.js";
import { front, judged, judgedTopology, rankOf, spans, summarize } from "./summary.js";

// Data that depends only on the trace.
export function traceOf(data, name, code) {
  const rows = data.tables.rows,
    sums = data.tables.sums,
    span = spans(rows)[code],
    spanOfSums = spans(sums)[sums.trace.levels.indexOf(name)];
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
    spanOfSums,
    steps: [...steps].sort((a, b) => a - b),
    layers: [...layers.keys()].map((c) => rows.tensor.levels[c]),
    roles: new Map([...layers].map(([c, role]) => [rows.tensor.levels[c], role])),
    rowsOf: rowIndex(rows, span),
    sumsOf: rowIndex(sums, spanOfSums),
    topologies: new Map(
      [...found].map(([s, t]) => [
        rows.scheme.levels[s],
        [...t].map((c) => rows.topology.levels[c]),
      ]),
    ),
    figures: figuresOf(data.tables.figures, name),
    pooled: new Map(),
    numericallyZero: zeroLayers(data, name, rows),
  };
}

// The summary of all layers, by scheme and topology.
function figuresOf(table, trace) {
  const found = new Map();
  const cell = (column, i) => (column.codes ? column.levels[column.codes[i]] : column[i]);
  const columns = Object.entries(table).filter(([name]) => name !== "length");
  for (let i = 0; i < table.length; i++) {
    if (cell(table.trace, i) !== trace) continue;
    const record = Object.fromEntries(columns.map(([name, column]) => [name, cell(column, i)]));
    found.set(`${record.scheme} ${record.topology}`, {
      ...record,
      worst_layer: record.worst_layer || null,
    });
  }
  return found;
}

// Costs are modelled for whole models and steps are counted of the trace; neither depends on the
// layers that are kept.
const OF_THE_TRACE = ["volume", "time", "speedup", "nonfinite", "gaps", "lost_layers"];

// The records of the layers that a filter keeps.
function recordsOf(trace, rows, sums, kept, layer) {
  if (!kept) return [...trace.figures.values()];
  const zero = layer.startsWith("layer ") ? null : trace.numericallyZero;
  return summarize(rows, trace.span, sums, trace.spanOfSums, kept, zero).map((r) => {
    const whole = trace.figures.get(`${r.scheme} ${r.topology}`);
    return { ...r, ...Object.fromEntries(OF_THE_TRACE.map((key) => [key, whole?.[key] ?? NaN])) };
  });
}

// By code of a layer: 1 for those whose gradients are numerically zero, in this trace.
function zeroLayers(data, trace, rows) {
  const zero = new Uint8Array(rows.tensor.levels.length);
  for (const [name, layer] of data.numericallyZero) {
    const code = rows.tensor.levels.indexOf(layer);
    if (name === trace && code >= 0) zero[code] = 1;
  }
  return zero;
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
  const mask = new Uint8Array(rows.tensor.levels.length);
  for (const layer of layers) mask[rows.tensor.levels.indexOf(layer)] = 1;
  const schemes = new Map(
    data.schemes.filter((s) => trace.topologies.has(s.spec)).map((s) => [s.spec, s]),
  );
  const kept = (spec) => {
    const s = schemes.get(spec);
    return (
      state.families.has(s.family) && state.formats.has(s.format) && state.bits.has(String(s.bits))
    );
  };
  // Pooling reads every row of the trace, and which schemes are kept does not change it.
  if (!trace.pooled.has(state.layer)) {
    const all = layers.length === trace.layers.length;
    const records = recordsOf(trace, rows, data.tables.sums, all ? null : mask, state.layer);
    trace.pooled.set(
      state.layer,
      records.map((r) => ({ ...r, ...schemes.get(r.scheme), rank: rankOf(r) })),
    );
  }
  const topologiesOf = (spec) => (trace.topologies.get(spec) ?? []).filter(Boolean);
  const everyTopology = trace.pooled.get(state.layer).filter((r) => kept(r.scheme));
  return {
    state,
    rows,
    layers,
    schemes,
    everyTopology,
    records: front(everyTopology, state.topology, data.ownReductions),
    judged: judged(everyTopology, state.topology),
    kindOf: (topology) =>
      topology.startsWith("two_phase")
        ? "two phases"
        : data.ownReductions.includes(topology)
          ? "own"
          : "rounded sums",
    trace: trace.name,
    span: trace.span,
    steps: trace.steps,
    rowsOf: trace.rowsOf,
    sums: data.tables.sums,
    sumsOf: trace.sumsOf,
    histograms: data.tables.histograms,
    formats: data.formats,
    topologiesOf,
    called: (topology) => data.reductionNames[topology] ?? topology,
    volumeOf: (spec, topology) => trace.figures.get(`${spec} ${topology}`)?.volume ?? NaN,
    judgedOf: (spec) => judgedTopology(topologiesOf(spec), state.topology),
  };
}
