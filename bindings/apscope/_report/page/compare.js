// One scheme against another, layer by layer and step by step.

import { nmse } from "./rows.js";

// Row of each (layer, step) of a scheme at a topology ("" is the wire): layers x steps, -1 where
// there is none.
export function grid(view, scheme, topology) {
  return placed(view, view.rowsOf(scheme, topology));
}

// The same of what is sent: rows for all topologies, and those for this one only.
export function wireGrid(view, scheme, topology) {
  return placed(view, wireRows(view, scheme, topology));
}

export function wireRows(view, scheme, topology) {
  const own = topology ? view.rowsOf(scheme, topology, true) : [];
  return [...view.rowsOf(scheme, "", true), ...own];
}

function placed(view, rowsOfScheme) {
  const { rows, layers, steps } = view;
  const stepPlace = new Map(steps.map((step, j) => [step, j]));
  const layerPlace = new Map(layers.map((layer, i) => [rows.tensor.levels.indexOf(layer), i]));
  const found = new Int32Array(layers.length * steps.length).fill(-1);
  for (const i of rowsOfScheme) {
    const layer = layerPlace.get(rows.tensor.codes[i]);
    if (layer !== undefined) found[layer * steps.length + stepPlace.get(rows.step[i])] = i;
  }
  return found;
}

// log2(NMSE a / NMSE b) of every cell: {layer, step, a, b, overA, overB, ratio}; a ratio is NaN
// where one is missing, 0 where both are 0.
export function ratios(rows, layers, steps, gridA, gridB) {
  const cells = [],
    over = (i) => i >= 0 && rows.overflow[i] > 0;
  for (let l = 0, i = 0; l < layers.length; l++) {
    for (let j = 0; j < steps.length; j++, i++) {
      const a = gridA[i] < 0 ? NaN : nmse(rows, gridA[i]),
        b = gridB[i] < 0 ? NaN : nmse(rows, gridB[i]);
      cells.push({
        layer: layers[l],
        step: steps[j],
        a,
        b,
        overA: over(gridA[i]),
        overB: over(gridB[i]),
        ratio: a === b ? 0 : Math.log2(a / b),
      });
    }
  }
  return cells;
}

// One record per layer, from the cells of `ratios`: how often a loses less (wins), more (losses) or
// as much as b (ties), and by how much.
export function layerTable(cells, layers, sumsA, sumsB) {
  const steps = cells.length / layers.length;
  return layers.map((layer, l) => {
    const own = cells.slice(l * steps, (l + 1) * steps).filter((c) => !Number.isNaN(c.ratio));
    const sorted = own.map((c) => 2 ** c.ratio).sort((x, y) => x - y);
    const middle = sorted.length
      ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
      : NaN;
    const a = sumsA.get(layer),
      b = sumsB.get(layer);
    return {
      layer,
      steps: own.length,
      wins: own.filter((c) => c.a < c.b).length,
      losses: own.filter((c) => c.a > c.b).length,
      median_ratio: middle,
      worst_ratio: sorted.length ? sorted[sorted.length - 1] : NaN,
      nmse_a: a?.nmse,
      nmse_b: b?.nmse,
      underflow_a: a?.underflow_wire,
      underflow_b: b?.underflow_wire,
      accumulation_a: a?.accumulation,
      accumulation_b: b?.accumulation,
    };
  });
}

// Whether row i has numbers: a skipped one has, one that could not be measured on the trace has
// not.
const measured = (rows, i) =>
  i >= 0 && (rows.skipped[i] || !Number.isNaN(rows.sum_squared_error[i]));

// The cells of two grids in which both schemes have numbers.
export const bothMeasured = (rows, one, other) =>
  one.map((i, cell) => (measured(rows, i) && measured(rows, other[cell]) ? 1 : 0));

// Pooled over the steps that count, for every layer: NMSE, underflow at the wire, and the share of
// the reduced squared error of what was sent that the additions made (what is not in the exact sum
// of it).
export function layerSums(rows, layers, steps, { wire, exact, judged }, counts) {
  const out = new Map();
  layers.forEach((layer, l) => {
    let error = 0,
      reference = 0,
      sentError = 0,
      exactError = 0,
      underflow = 0,
      nonzero = 0,
      overflow = 0;
    for (let j = 0, i = l * steps.length; j < steps.length; j++, i++) {
      if (!counts[i]) continue;
      const r = judged[i],
        w = wire[i],
        skipped = rows.skipped[r];
      error += skipped ? rows.sum_squared_reference[r] : rows.sum_squared_error[r];
      reference += rows.sum_squared_reference[r];
      if (!skipped) {
        overflow += rows.overflow[r] || 0;
        sentError += rows.sum_squared_error[r];
        if (exact) exactError += rows.sum_squared_error[exact[i]];
      }
      if (w >= 0 && !rows.skipped[w]) {
        underflow += rows.underflow[w];
        nonzero += rows.nonzero[w];
      }
    }
    out.set(layer, {
      nmse: overflow ? Infinity : reference > 0 ? error / reference : NaN,
      underflow_wire: nonzero ? underflow / nonzero : NaN,
      accumulation:
        exact && sentError > 0 && !overflow ? (sentError - exactError) / sentError : NaN,
    });
  });
  return out;
}
