// The NMSE of a row, and which records of a summary rank side by side.

// NMSE of row i: 1 where the step was skipped, at least 1 where values overflowed, NaN where the
// truth is all zero.
export function nmse(rows, i) {
  if (rows.skipped[i]) return rows.sum_squared_reference[i] > 0 ? 1 : NaN;
  const reference = rows.sum_squared_reference[i];
  const value = reference > 0 ? rows.sum_squared_error[i] / reference : NaN;
  return rows.overflow[i] > 0 ? Math.max(1, value || 0) : value;
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
