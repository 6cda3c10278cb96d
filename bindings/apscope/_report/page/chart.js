// Common parts of charts: colours of families, the theme, text for screen readers, a place
// that redraws.

import { element } from "./dom.js";
import { clip, raised, tail } from "./text.js";

// Paper is white, also if the screen is dark.
export const onPaper = { now: false };
export const dark = () => matchMedia("(prefers-color-scheme: dark)").matches && !onPaper.now;

// Axes, marks, bands, colours and symbols, described in _charts/kinds.py; the payload brings them.
export const charts = {};
export const colourOf = (family) => charts.families[family].colour;
export const symbolOf = (family) => charts.families[family].symbol;

// Pixels of a chart's letters; smaller where the chart is narrow.
const letters = (width) => (width < 500 ? 10 : 12);

// Pixels of a text in letters of a size; each is measured and shortened once, because a redraw has
// no time for it.
const lengths = new Map(),
  fitted = new Map();
let pen = null,
  family = "";
export function lengthOf(text, size) {
  const key = `${size} ${text}`;
  if (!lengths.has(key)) {
    pen ??= document.createElement("canvas").getContext("2d");
    family ||= getComputedStyle(document.body).fontFamily;
    pen.font = `${size}px ${family}`;
    lengths.set(key, pen.measureText(text).width);
  }
  return lengths.get(key);
}

// The text on a colour, #rrggbb: black or white, whichever differs more.
export function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map(
    (k) => (Number.parseInt(colour.slice(k, k + 2), 16) / 255) ** 2.2,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

// The part of a name that fits into a room of pixels in a chart of this width.
export function within(name, room, width, cut = tail) {
  const size = letters(width),
    key = `${size} ${room} ${cut.name} ${name}`;
  if (!fitted.has(key)) {
    let text = name;
    for (let longest = [...name].length; lengthOf(text, size) > room && longest > 4; longest--)
      text = cut(name, longest - 1);
    fitted.set(key, text);
  }
  return fitted.get(key);
}

// Names beside an axis: the margin that they need, within limits, and the part of each that fits,
// cut at the front; where that makes two names one, both keep their beginning and their end.
export function beside(names, width) {
  const wide = (text) => lengthOf(text, letters(width));
  const room = Math.min(Math.max(40, ...names.map(wide)), 330, width * (width < 500 ? 0.46 : 0.38));
  const shortened = (name, cut) => within(name, room, width, cut);
  const ends = names.map((name) => shortened(name, tail)),
    counts = new Map();
  for (const text of ends) counts.set(text, (counts.get(text) ?? 0) + 1);
  const labels = new Map(
    names.map((name, i) => [name, counts.get(ends[i]) > 1 ? shortened(name, clip) : ends[i]]),
  );
  return { margin: Math.ceil(room) + 12, fit: (name) => labels.get(name) };
}

// Options of Plot, themed; `says` is what the chart shows, in a sentence.
export function chart(place, says, options) {
  const width = Math.max(260, Math.floor(place.clientWidth || 600));
  const made = Plot.plot({
    width,
    marginLeft: 44,
    ...options,
    ariaLabel: says,
    style: {
      background: "none",
      color: "currentColor",
      fontFamily: "inherit",
      fontSize: `${letters(width)}px`,
      overflow: "visible",
      ...options.style,
    },
  });
  (made.matches("svg") ? made : made.querySelector("svg[aria-label]")).setAttribute("role", "img");
  place.replaceChildren(made);
  return made;
}

// Steps are numbers with gaps: one place each, and as many labels as fit; the axis says where they
// are not evenly apart.
export function stepScale(steps, width) {
  const even = steps.every((s, i) => i < 2 || s - steps[i - 1] === steps[1] - steps[0]);
  const every = Math.ceil(steps.length / Math.max(2, Math.floor(width / 42)));
  return {
    type: "band",
    domain: steps,
    ticks: steps.filter((_, i) => i % every === 0),
    label: even ? "step" : "step (recorded ones, equally spaced)",
    tickFormat: String,
    padding: 0,
  };
}

export function powerOfTen(x) {
  if (x === 0 || (x >= 0.001 && x <= 1000)) return String(x);
  return `10${raised(Math.round(Math.log10(x)))}`;
}

// Ticks of a log axis: the powers of ten among the values, as many as have room in a width of
// pixels.
export function powersOfTen(values, floor = 0, width = Infinity) {
  const [low, high] = d3.extent(
    values.filter((v) => v > 0),
    (v) => Math.log10(Math.max(v, floor)),
  );
  const powers = d3.range(Math.ceil(low), Math.floor(high) + 1).map((k) => 10 ** k);
  const every = Math.max(1, Math.ceil((42 * powers.length) / width));
  return powers.filter((_, i) => i % every === 0);
}

export function figureBox(caption, ...inner) {
  return element("figure", {}, element("figcaption", {}, caption), ...inner);
}
