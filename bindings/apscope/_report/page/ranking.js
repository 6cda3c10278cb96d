// Which records of a summary rank side by side.

// The figure that ranks a record; none after a gap in a scheme's memory, and where a layer is lost.
export const rankOf = (r) => (r.gaps || r.lost_layers ? NaN : r.step_nmse);

// The topology that ranks a scheme: the selected one, else its own reduction, else exact,
// else the wire.
export function judgedTopology(available, selected) {
  if (available.includes(selected)) return selected;
  return available.find((t) => t && t !== "exact") ?? (available.includes("exact") ? "exact" : "");
}

// Records of every reduction that ranks: the selected one, two phases and a scheme's own; other
// orders of the same additions do not. Of `exact`, which no system runs, alone if it is selected.
export function front(records, selected, kinds) {
  const one = judged(records, selected);
  if (selected === "exact") return one;
  return records.filter(
    (r) => one.includes(r) || r.topology === selected || kinds[r.topology] !== "rounded sums",
  );
}

// Records by scheme, at the topology that ranks each.
export function judged(records, selected) {
  const bySchemes = Map.groupBy(records, (r) => r.scheme);
  return [...bySchemes.values()].map((group) => {
    const topology = judgedTopology(
      group.map((r) => r.topology),
      selected,
    );
    return group.find((r) => r.topology === topology);
  });
}
