// Which records of a summary rank side by side.

// The figure that ranks a record; none after a gap in a scheme's memory, and where a layer is lost.
export const rankOf = (r) => (r.gaps || r.lost_layers ? NaN : r.step_nmse);

// The topology that ranks a scheme: the selected one, else its own reduction, else exact,
// else the wire.
export function judgedTopology(available, wanted) {
  if (available.includes(wanted)) return wanted;
  return available.find((t) => t && t !== "exact") ?? (available.includes("exact") ? "exact" : "");
}

// Records of every reduction that ranks: the selected one, two phases and a scheme's own; other
// orders of the same additions do not. Of `exact`, which no system runs, alone if it is selected.
export function front(records, wanted, kinds) {
  const one = judged(records, wanted);
  if (wanted === "exact") return one;
  return records.filter(
    (r) => one.includes(r) || r.topology === wanted || kinds[r.topology] !== "rounded sums",
  );
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
