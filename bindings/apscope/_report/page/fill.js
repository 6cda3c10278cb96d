// The numbers of charts that the page computes itself, because filters and clicks select their
// rows. _charts/fill.py has the same functions for notebooks; test_page_charts.py holds both equal.

// The histogram of one layer, at one step or all: {exponent, share} of its finite values,
// ascending.
export function shares(h, traceName, layer, step = null) {
  const code = h.tensor.levels.indexOf(layer);
  const trace = h.trace.levels.indexOf(traceName);
  const finite = h.kind.levels.indexOf("finite");
  const rows = d3
    .range(h.length)
    .filter((i) => h.tensor.codes[i] === code && h.trace.codes[i] === trace)
    .filter((i) => h.kind.codes[i] === finite && (step == null || !h.step || h.step[i] === step));
  const sum = (some) => d3.sum(some, (i) => h.count[i]);
  const counts = d3.rollups(rows, sum, (i) => h.exponent[i]);
  const total = sum(rows);
  return d3
    .sort(counts, ([exponent]) => exponent)
    .map(([exponent, count]) => ({ exponent, share: count / total }));
}

// The relative bias of row i and its band of two standard errors: {y, low, high}. With overflow
// there is no band. A skipped step is a gap: its -1 would hide the others.
export function bias(rows, i) {
  const absolute = rows.sum_absolute_reference[i];
  if (!(absolute > 0) || rows.skipped[i]) return { y: NaN, low: NaN, high: NaN };
  const signed = rows.sum_signed_error[i];
  const y = signed / absolute;
  if (rows.overflow[i] > 0) return { y, low: NaN, high: NaN };
  const squared = rows.nmse[i] * rows.sum_squared_reference[i];
  const square = Math.max(0, squared - signed ** 2 / rows.counted[i]);
  const half = (2 * Math.sqrt(square)) / absolute;
  return { y, low: y - half, high: y + half };
}

// Two phases add other messages than those that are summed exactly.
const isOrder = ({ topology }) => !/^(two_phase|reduce_scatter|hierarchical:\d+\()/.test(topology);

// The pooled NMSE of every scheme with an exact sum, and the part that every order of additions
// adds.
export function additions(records) {
  const bars = [];
  const marks = [];
  for (const [scheme, orders] of Map.groupBy(records.filter(isOrder), (r) => r.scheme)) {
    const exact = orders.find((r) => r.topology === "exact")?.nmse;
    if (exact === undefined || orders.length < 2) continue;
    if (exact > 0 && Number.isFinite(exact)) bars.push({ scheme, exact });
    for (const { topology, nmse, overflowed } of orders)
      if (topology !== "exact")
        marks.push({ scheme, topology, exact, added: nmse - exact, overflowed });
  }
  return { bars, marks };
}

// The points {x, y} that no other beats in both, by x, then by y; costs that differ by at most
// `same` are one.
export function stepFront(points, same = 0) {
  const front = [];
  let anchor = -Infinity;
  for (const p of [...points].sort((a, b) => a.x - b.x || a.y - b.y)) {
    if (front.length && p.y >= front[front.length - 1].y) continue;
    if (front.length && p.x <= anchor + same) front[front.length - 1] = p;
    else {
      front.push(p);
      anchor = p.x;
    }
  }
  return front;
}
