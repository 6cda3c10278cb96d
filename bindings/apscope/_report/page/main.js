// The page: the selection, the data computed from it, and the parts that show them.

import { blockColumns, blocksPart } from "./blocks.js";
import { charts, onPaper } from "./chart.js";
import { decode, gunzip } from "./decode.js";
import { element } from "./dom.js";
import { additions, bias, shares, stepFront } from "./fill.js";
import { filters } from "./filters.js";
import { firstScreen } from "./first.js";
import { frontierPart } from "./frontier.js";
import { orderPart } from "./order.js";
import { formsOf, places } from "./places.js";
import { schemesPart } from "./schemes.js";
import { underflowPart } from "./underflow.js";
import { versusPart } from "./versus.js";
import { look, traceOf } from "./view.js";

const PARTS = {
  frontier: frontierPart,
  versus: versusPart,
  underflow: underflowPart,
  order: orderPart,
  blocks: blocksPart,
  schemes: schemesPart,
};

// The inputs of a part that does not depend on everything: a pair of schemes, or the blocks of one,
// look the same whatever other schemes are kept.
const DEPENDS = {
  versus: (s) =>
    JSON.stringify([s.trace, s.topology, s.layer, s.a, s.b, s.aReduction, s.bReduction, s.picked]),
  blocks: (s) => JSON.stringify([s.trace, s.topology, s.layer, s.blockScheme, s.blockColumn]),
};

// The library is a module that assigns Plot and d3 to window.
async function loadLibrary() {
  const text = await gunzip(document.getElementById("library").textContent);
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  await import(address);
  URL.revokeObjectURL(address);
}

async function start() {
  const [data] = await Promise.all([
    decode(document.getElementById("payload").textContent),
    loadLibrary(),
  ]);
  Object.assign(charts, data.charts);
  const rows = data.tables.rows;
  const every = (key) => new Set(data.schemes.map((s) => String(s[key])));
  const state = {
    ...data.start,
    layer: "",
    picked: null,
    measure: "step_nmse",
    families: every("family"),
    formats: every("format"),
    bits: every("bits"),
  };
  const traces = new Map(rows.trace.levels.map((name) => [name, traceOf(data, name)]));
  const sight = new Set();
  const parts = Object.entries(PARTS)
    .map(([id, make]) => ({ id, section: document.getElementById(id), make }))
    .filter((p) => p.section);
  document.getElementById("blocks").hidden = !blockColumns(rows).length;
  let view;

  // Parts in the window are drawn at once, near ones after that, the others when they come near or
  // onto paper.
  const inWindow = (section) =>
    section.getBoundingClientRect().top < innerHeight && section.getBoundingClientRect().bottom > 0;
  function draw(all = false, which = () => true) {
    for (const part of parts) {
      if (
        !part.stale ||
        part.section.hidden ||
        !(all || sight.has(part.section)) ||
        !which(part.section)
      )
        continue;
      part.stale = false;
      part.draw(view, part.again);
      part.again = false;
      part.key = DEPENDS[part.id]?.(state); // a part may settle what the state left open
    }
  }
  function update() {
    const began = performance.now();
    view = look(data, traces.get(state.trace), state);
    for (const part of parts)
      part.stale ||= !DEPENDS[part.id] || DEPENDS[part.id](state) !== part.key;
    // Measured before anything is drawn, so that the browser lays the page out once.
    const seen = new Set(parts.map((p) => p.section).filter(inWindow));
    draw(false, (section) => seen.has(section));
    page.took = performance.now() - began;
    setTimeout(draw);
  }
  const page = (window.apscopePage = {
    data,
    state,
    traces,
    update,
    drawAll: () => draw(true),
    view: () => view,
    fill: { shares, bias, additions, stepFront },
    places: { formsOf, places },
  });

  for (const part of parts) {
    const place = part.section.querySelector(".live");
    place.replaceChildren();
    part.draw = part.make(place, state, update, data);
  }
  filters(document.getElementById("filters"), data, state, traces, update);
  firstScreen(state, traces, update);
  update();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const e of entries) e.isIntersecting ? sight.add(e.target) : sight.delete(e.target);
      draw();
    },
    { rootMargin: "300px" },
  );
  parts.forEach((p) => watch.observe(p.section));

  const again = () => {
    parts.forEach((p) => (p.stale = p.again = true));
    draw(onPaper.now);
  };
  // On paper nothing can be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    onPaper.now = true;
    folded = [...document.querySelectorAll("main details:not([open], .menu)")];
    for (const part of folded) part.open = true;
    again();
  });
  addEventListener("afterprint", () => {
    onPaper.now = false;
    for (const part of folded) part.open = false;
    again();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width && !onPaper.now) {
      width = innerWidth;
      again();
    }
  });
  document.documentElement.classList.add("ready");
}

// What prints a page as soon as it is loaded, without a reader, waits for a frame that is open.
const frame = document.body.appendChild(element("iframe", { hidden: true }));
frame.contentDocument?.open();
const loaded = () => {
  frame.contentDocument?.close();
  frame.remove();
};

start()
  .finally(loaded)
  .catch((error) => {
    document
      .getElementById("filters")
      .replaceChildren(
        element(
          "p",
          { class: "warning", role: "alert" },
          `The interactive parts of this page cannot be drawn: ${error.message}. ` +
            "The tables above do not depend on them.",
        ),
      );
    throw error;
  });
