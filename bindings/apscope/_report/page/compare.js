// One scheme against another, layer by layer and step by step.

// Row of each (layer, step) of a scheme at a topology ("" is the wire): layers x steps, -1 where
// there is none.
export function grid(view, scheme, topology) {
  return placed(view, view.rowsOf(scheme, topology));
}

// The same of what is sent: rows for all topologies, and those for this one only.
export function wireGrid(view, scheme, topology) {
  const named = topology ? view.rowsOf(scheme, topology, true) : [];
  return placed(view, [...view.rowsOf(scheme, "", true), ...named]);
}

function placed(view, rowsOfScheme) {
  const { rows, layers, steps } = view;
  const stepPlace = new Map(steps.map((step, j) => [step, j]));
  const layerPlace = new Map(layers.map((layer, i) => [rows.tensor.levels.indexOf(layer), i]));
  const places = new Int32Array(layers.length * steps.length).fill(-1);
  for (const i of rowsOfScheme) {
    const layer = layerPlace.get(rows.tensor.codes[i]);
    if (layer !== undefined) places[layer * steps.length + stepPlace.get(rows.step[i])] = i;
  }
  return places;
}

// log2(NMSE a / NMSE b) of every cell: {layer, step, a, b, overA, overB, ratio}; a ratio is NaN
// where one is missing, 0 where both are 0.
export function ratios({ rows, layers, steps }, [gridA, gridB]) {
  const over = (i) => i >= 0 && rows.overflow[i] > 0;
  return d3.cross(layers, steps).map(([layer, step], cell) => {
    const [i, j] = [gridA[cell], gridB[cell]];
    const a = rows.nmse[i] ?? NaN,
      b = rows.nmse[j] ?? NaN;
    const ratio = a === b ? 0 : Math.log2(a / b);
    return { layer, step, a, b, overA: over(i), overB: over(j), ratio };
  });
}

// One record per layer: of the cells of `ratios`, in how many steps a loses less (wins), more
// (losses) or as much as b, and by how much; the core's figures of the layer over all steps.
export function layerTable(view, cells, sides) {
  const steps = view.steps.length;
  return view.layers.map((layer, l) => {
    const known = cells.slice(l * steps, (l + 1) * steps).filter((c) => !Number.isNaN(c.ratio));
    const sorted = known.map((c) => 2 ** c.ratio).sort((x, y) => x - y);
    const figures = sides.flatMap(({ scheme, topology, exact }, k) => {
      const figure = (column, reduced = topology) =>
        view.figureOf(column, `layer ${layer}`, scheme, reduced);
      const error = figure("mse");
      return [
        [`nmse_${"ab"[k]}`, figure("nmse")],
        [`underflow_${"ab"[k]}`, figure("underflow_wire")],
        [
          `accumulation_${"ab"[k]}`,
          exact && error > 0 && error < Infinity ? 1 - figure("mse", "exact") / error : NaN,
        ],
      ];
    });
    return {
      layer,
      steps: known.length,
      wins: known.filter((c) => c.a < c.b).length,
      losses: known.filter((c) => c.a > c.b).length,
      median_ratio: (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2,
      worst_ratio: sorted.at(-1),
      ...Object.fromEntries(figures),
    };
  });
}
