// Places of names beside the points of a chart: where no mark and no other name is. Boxes are
// [left, top, right, bottom] in pixels. As _charts/places.py; test_page_places.py compares both.

import { clip } from "./text.js";

const ASIDE = [7, 16, 28, 44, 64, 88, 116, 148];
const BESIDE = Array.from({ length: 53 }, (_, k) => 4 * (k - 26));
const SHORT = 26;
const SHORTER = 900,
  LEFTWARD = 24,
  ON_A_LINE = 900;
const HALF = 0.5,
  BASE = 0.27;

// A name, then shorter forms of it: without its last parts, or with a gap in its middle.
export function formsOf(name) {
  const parts = name.split(", ");
  const cut = parts.slice(1).map((_, k) => `${parts.slice(0, parts.length - 1 - k).join(", ")}…`);
  return [...new Set([name, ...(cut.length ? cut : [clip(name, SHORT)])])];
}

// A place {form, left, base, end} for each name {x, y, widths}, or null if everything is taken. A
// line is covered only by a name that would be far from its point elsewhere.
export function places(names, marks, lines, room, size) {
  const forms = Math.max(0, ...names.map((name) => name.widths.length));
  const offsets = [];
  for (let form = 0; form < forms; form++)
    for (const beside of BESIDE)
      for (const far of ASIDE)
        for (const aside of [far, -far]) {
          const cost = far * far + beside * beside + SHORTER * form + (aside < 0 ? LEFTWARD : 0);
          offsets.push([cost, form, aside, beside]);
        }
  offsets.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
  const taken = [];
  return names.map((name) => {
    let best = null;
    for (const [cost, form, aside, beside] of offsets) {
      if (best && cost > best.cost + ON_A_LINE) break;
      if (form >= name.widths.length) continue;
      const wide = name.widths[form],
        middle = name.y + beside,
        near = name.x + aside;
      const left = aside > 0 ? near : near - wide;
      const box = [left, middle - HALF * size, left + wide, middle + HALF * size];
      if (box[0] < room[0] || box[1] < room[1] || box[2] > room[2] || box[3] > room[3]) continue;
      const way = [name.x, name.y, near, middle];
      if (marks.some((mark) => meet(box, mark))) continue;
      if (taken.some(([other, othersWay]) => conflict(box, way, other, othersWay))) continue;
      const free = !lines.some((line) => meet(box, line));
      const place = { form, left, base: middle + BASE * size, end: [near, middle] };
      if (free || !best) best = { cost, place, box, way };
      if (free) break;
    }
    if (best) taken.push([best.box, best.way]);
    return best && best.place;
  });
}

const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

// Whether names or lines meet, or names above one another are not in their points' order.
function conflict(box, way, other, othersWay) {
  if (meet(box, other) || through(way, other) || through(othersWay, box)) return true;
  const above = way[3] - othersWay[3],
    over = way[1] - othersWay[1];
  if (box[0] < other[2] && other[0] < box[2] && Math.abs(over) >= 1 && above * over < 0)
    return true;
  return cross(way, othersWay);
}

// Whether a line from one point to another meets a box.
function through(way, box) {
  let start = 0,
    end = 1;
  for (const k of [0, 1]) {
    const at = way[k],
      step = way[k + 2] - at,
      low = box[k],
      high = box[k + 2];
    if (step === 0) {
      if (!(low < at && at < high)) return false;
      continue;
    }
    const one = (low - at) / step,
      two = (high - at) / step;
    start = Math.max(start, Math.min(one, two));
    end = Math.min(end, Math.max(one, two));
  }
  return start < end;
}

// Whether two lines cross.
function cross(a, b) {
  const side = (line, x, y) =>
    (line[2] - line[0]) * (y - line[1]) - (line[3] - line[1]) * (x - line[0]);
  return (
    side(a, b[0], b[1]) * side(a, b[2], b[3]) < 0 && side(b, a[0], a[1]) * side(b, a[2], a[3]) < 0
  );
}
