// Rows of a trace pooled: the numbers of results.summary() for the layers that are kept, and NMSE
// by layer and step.

// The range of rows of each trace (rows of one trace are contiguous).
export function spans(rows) {
  const found = rows.trace.levels.map(() => [rows.length, 0]);
  for (let i = 0; i < rows.length; i++) {
    const span = found[rows.trace.codes[i]];
    if (i < span[0]) span[0] = i;
    span[1] = i + 1;
  }
  return found;
}

// Squared error of row i; of a skipped step all is lost (y = 0).
const squared = (rows, i) =>
  rows.skipped[i] ? rows.sum_squared_reference[i] : rows.sum_squared_error[i];

// NMSE of row i: 1 where the step was skipped, at least 1 where values overflowed, NaN where the
// truth is all zero.
export function nmse(rows, i) {
  if (rows.skipped[i]) return rows.sum_squared_reference[i] > 0 ? 1 : NaN;
  const reference = rows.sum_squared_reference[i];
  const value = reference > 0 ? rows.sum_squared_error[i] / reference : NaN;
  return rows.overflow[i] > 0 ? Math.max(1, value || 0) : value;
}

// One record a scheme and topology of rows [from, to) and of the sums over their steps, whose layer
// has kept[code]; kept = null keeps all. Traces without reduced rows are summarised at the wire,
// topology "".
// Layers with zero[code] are numerically zero: they have no cosine and no worst error.
export function summarize(rows, [from, to], sums, [begin, end], kept = null, zero = null) {
  const { step, tensor, scheme, topology, stage } = rows;
  const wire = stage.levels.indexOf("wire");
  let reduced = false;
  for (let i = from; i < to && !reduced; i++) reduced = stage.codes[i] !== wire;
  const steps = new Map();
  for (let i = from; i < to; i++) if (!steps.has(step[i])) steps.set(step[i], steps.size);
  const groups = new Map();
  const groupOf = (schemeName, topologyName) => {
    const key = `${schemeName} ${topologyName}`;
    if (!groups.has(key)) groups.set(key, group(schemeName, topologyName, steps.size));
    return groups.get(key);
  };
  let last = null;
  let place = -1;
  for (let i = from; i < to; i++) {
    if ((kept && !kept[tensor.codes[i]]) || (reduced && stage.codes[i] === wire)) continue;
    // Rows of one group stand together.
    const now = scheme.codes[i] * topology.levels.length + topology.codes[i];
    if (now !== place)
      last = groupOf(scheme.levels[scheme.codes[i]], topology.levels[topology.codes[i]]);
    place = now;
    add(last, rows, i, steps.get(step[i]), !zero?.[tensor.codes[i]]);
  }
  // Of a layer's messages for this topology, else of those for all.
  const wires = new Map();
  const at = (column, i) => column.levels[column.codes[i]];
  const zeroNames = new Set(tensor.levels.filter((_, code) => zero?.[code]));
  const keptNames = new Set(tensor.levels.filter((_, code) => !kept || kept[code]));
  for (let i = begin; i < end; i++) {
    const layer = at(sums.tensor, i);
    if (!keptNames.has(layer)) continue;
    const atWire = at(sums.stage, i) === "wire";
    if (atWire) {
      const key = `${at(sums.scheme, i)} ${at(sums.topology, i)}`;
      if (!wires.has(key)) wires.set(key, new Map());
      wires.get(key).set(layer, [sums.underflow[i], sums.nonzero[i]]);
    }
    if (!atWire || !reduced)
      addSums(groupOf(at(sums.scheme, i), at(sums.topology, i)), sums, i, !zeroNames.has(layer));
  }
  const sent = (g) =>
    [
      ...new Map([
        ...(wires.get(`${g.scheme} `) ?? []),
        ...(wires.get(`${g.scheme} ${g.topology}`) ?? []),
      ]).values(),
    ].reduce((a, b) => [a[0] + b[0], a[1] + b[1]], [0, 0]);
  return [...groups.values()].map((g) => finish(g, rows, reduced ? sent(g) : null));
}

function group(scheme, topology, steps) {
  return {
    scheme,
    topology,
    error: new Float64Array(steps),
    reference: new Float64Array(steps),
    flags: new Uint8Array(steps),
    signed: 0,
    absolute: 0,
    log2: 0,
    blocks: 0,
    variance: 0,
    pooledError: 0,
    pooledReference: 0,
    cosine: 0,
    cells: 0,
    underflow: 0,
    nonzero: 0,
    worst: -1,
    worstRow: -1,
  };
}

const SKIPPED = 1,
  OVERFLOWED = 2;

function add(g, rows, i, step, judged) {
  g.error[step] += squared(rows, i);
  g.reference[step] += rows.sum_squared_reference[i];
  const skipped = rows.skipped[i];
  if (skipped) g.flags[step] |= SKIPPED;
  else if (rows.overflow[i] > 0) g.flags[step] |= OVERFLOWED;
  // A row whose truth is all zero is ignored; one without numbers makes the total unknown.
  if (!judged || !(rows.overflow[i] > 0 || rows.sum_squared_reference[i] !== 0)) return;
  const known = skipped || !Number.isNaN(rows.sum_squared_error[i]);
  // A row with overflow has no finite error.
  const value = rows.overflow[i] > 0 ? Infinity : known ? nmse(rows, i) : NaN;
  if (value > g.worst || (Number.isNaN(value) && !Number.isNaN(g.worst))) {
    g.worst = value;
    g.worstRow = i;
  }
}

function addSums(g, sums, i, judged) {
  g.signed += sums.sum_signed_error[i];
  g.absolute += sums.sum_absolute_reference[i];
  g.log2 += sums.sum_log2_error_over_noise[i]; // NaN where the noise is not known
  g.blocks += sums.noise_blocks[i];
  g.variance += sums.variance[i];
  g.pooledError += sums.error[i];
  g.pooledReference += sums.reference[i];
  g.underflow += sums.underflow[i];
  g.nonzero += sums.nonzero[i];
  if (!judged) return;
  g.cosine += sums.cosine[i];
  g.cells += sums.cells[i];
}

function finish(g, rows, wire) {
  let total = 0,
    counted = 0,
    skipped = 0,
    overflowed = 0;
  for (let s = 0; s < g.error.length; s++) {
    skipped += g.flags[s] & SKIPPED;
    overflowed += (g.flags[s] & OVERFLOWED) >> 1;
    const over = g.flags[s] & OVERFLOWED;
    if (!over && g.reference[s] === 0) continue;
    const value = g.error[s] / g.reference[s];
    total += over ? Math.max(1, value || 0) : value;
    counted++;
  }
  const reference = g.pooledReference;
  const worst = g.worstRow < 0 ? NaN : g.worst;
  const rate = g.nonzero ? g.underflow / g.nonzero : NaN;
  const overNoise = g.blocks ? 2 ** (g.log2 / g.blocks) : NaN;
  const stepNmse = counted ? total / counted : NaN;
  return {
    scheme: g.scheme,
    topology: g.topology,
    error_over_noise: overNoise,
    step_nmse: stepNmse,
    layer_cosine: g.cells ? g.cosine / g.cells : NaN,
    worst_nmse: worst,
    worst_layer: Number.isNaN(worst) ? null : rows.tensor.levels[rows.tensor.codes[g.worstRow]],
    worst_step: Number.isNaN(worst) ? NaN : rows.step[g.worstRow],
    nmse: overflowed ? Infinity : reference > 0 ? g.pooledError / reference : NaN,
    relative_bias: g.absolute > 0 ? g.signed / g.absolute : NaN,
    expected_variance: reference > 0 ? g.variance / reference : NaN,
    underflow_wire: wire ? (wire[1] ? wire[0] / wire[1] : NaN) : rate,
    underflow_reduced: wire ? rate : NaN,
    skipped,
    overflowed,
  };
}

// The figure that ranks a record; none after a gap in a scheme's memory, and where a layer is lost.
export const rankOf = (r) => (r.gaps || r.lost_layers ? NaN : r.step_nmse);

// The topology that ranks a scheme: the selected one, else its own reduction, else exact,
// else the wire.
export function judgedTopology(available, wanted) {
  if (available.includes(wanted)) return wanted;
  return available.find((t) => t && t !== "exact") ?? (available.includes("exact") ? "exact" : "");
}

// Whether rows of a reduction rank beside those of the selected one: two phases and a scheme's own
// do, other orders of the same additions do not.
export function onFront(topology, wanted, own) {
  return topology === wanted || topology.startsWith("two_phase") || own.includes(topology);
}

// Records of every reduction that ranks; of `exact`, which no system runs, alone if it is selected.
export function front(records, wanted, own) {
  const one = judged(records, wanted);
  if (wanted === "exact") return one;
  return records.filter((r) => one.includes(r) || onFront(r.topology, wanted, own));
}

// Records by scheme, at the topology that ranks each.
export function judged(records, wanted) {
  const bySchemes = Map.groupBy(records, (r) => r.scheme);
  return [...bySchemes.values()].map((group) => {
    const topology = judgedTopology(
      group.map((r) => r.topology),
      wanted,
    );
    return group.find((r) => r.topology === topology);
  });
}
