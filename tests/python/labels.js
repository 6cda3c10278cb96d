// Faults of the labels that a reader sees now: [kind, text, where], for labels.py. Labels are SVG
// texts and the lines of HTML text; boxes are those of their letters, not of their lines.
(() => {
  // Pixels by which boxes may touch; the least contrast of a label, of WCAG's large texts.
  const NEAR = 1.5,
    CONTRAST = 3;
  const found = [],
    seen = new Set();
  const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 60);
  // Colours are read off a canvas: a browser may write them in several ways.
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  function rgba(text) {
    if (!colours.has(text)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = text;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  }
  const light = ([r, g, b]) =>
    [r, g, b]
      .map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const over = (top, below, alpha) => below.map((v, i) => (i < 3 ? v + alpha * (top[i] - v) : 1));

  function placeOf(node) {
    const named = node.closest("svg[aria-label], [aria-label], figure, table, section, article");
    const section = node.closest("section[id], article[id], details[id]");
    const label = named?.getAttribute("aria-label") ?? named?.tagName.toLowerCase() ?? "page";
    return `${section ? `#${section.id} ` : ""}${short(label)}`;
  }
  function report(kind, label) {
    const key = `${kind} ${label.text} ${label.where}`;
    if (!seen.has(key)) found.push([kind, label.text, label.where]);
    seen.add(key);
  }
  // A box without the blank above and below the letters.
  function inner({ left, top, right, bottom }, size) {
    const blank = Math.max(0, (bottom - top - 0.72 * size) / 2);
    return { left, top: top + blank, right, bottom: bottom - blank };
  }
  // The corners of an SVG text's letters on the screen; a text may be turned.
  function cornersOf(text, size) {
    const boxes = Array.from({ length: text.getNumberOfChars() }, (_, i) =>
      text.getExtentOfChar(i),
    );
    const { left, top, right, bottom } = inner(
      {
        left: Math.min(...boxes.map((b) => b.x)),
        top: Math.min(...boxes.map((b) => b.y)),
        right: Math.max(...boxes.map((b) => b.x + b.width)),
        bottom: Math.max(...boxes.map((b) => b.y + b.height)),
      },
      size,
    );
    const places = [
      [left, top],
      [right, top],
      [right, bottom],
      [left, bottom],
    ];
    const at = text.getScreenCTM();
    return places.map(([x, y]) => new DOMPoint(x, y).matrixTransform(at));
  }
  const around = (corners) => ({
    left: Math.min(...corners.map((p) => p.x)),
    top: Math.min(...corners.map((p) => p.y)),
    right: Math.max(...corners.map((p) => p.x)),
    bottom: Math.max(...corners.map((p) => p.y)),
  });
  const square = ({ left, top, right, bottom }) =>
    [
      [left, top],
      [right, top],
      [right, bottom],
      [left, bottom],
    ].map(([x, y]) => ({ x, y }));
  // Whether two boxes, each in its own direction, have more than an edge in common: no side of
  // either separates them.
  function meet(a, b) {
    const [one, other] = [a, b].map((label) => label.corners ?? square(label.box));
    return [one, other].every((box) =>
      [0, 1].every((k) => {
        const [p, q] = [box[k], box[k + 1]],
          long = Math.hypot(q.x - p.x, q.y - p.y) || 1;
        const along = (r) => (r.x * (q.x - p.x) + r.y * (q.y - p.y)) / long;
        const [first, second] = [one.map(along), other.map(along)];
        return (
          Math.min(Math.max(...first), Math.max(...second)) -
            Math.max(Math.min(...first), Math.min(...second)) >
          NEAR
        );
      }),
    );
  }
  const outside = (box, frame) =>
    box.left < frame.left - NEAR ||
    box.right > frame.right + NEAR ||
    box.top < frame.top - NEAR ||
    box.bottom > frame.bottom + NEAR;

  // Everything that can be read.
  const labels = [];
  const shown = (node) =>
    node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
    !node.closest(".skip, [aria-hidden=true], title, style, script, option, select");
  for (const node of document.querySelectorAll("svg text")) {
    if (!node.textContent.trim() || !shown(node)) continue;
    const size = parseFloat(getComputedStyle(node).fontSize),
      lines = [...node.querySelectorAll("tspan[y], tspan[dy], tspan[x]")];
    const title = node.querySelector("title")?.textContent ?? "";
    for (const part of lines.length ? lines : [node]) {
      if (!part.getNumberOfChars()) continue;
      const corners = cornersOf(part, size);
      labels.push({
        node,
        svg: true,
        corners,
        box: around(corners),
        whole: node,
        size,
        text: short(part === node ? node.textContent.replace(title, "") : part.textContent),
        where: placeOf(node),
        colour: getComputedStyle(part).fill,
      });
    }
  }
  const walk = document.createTreeWalker(document.body ?? document, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const node = walk.currentNode,
      parent = node.parentElement;
    if (!node.data.trim() || !parent || parent.closest("svg") || !shown(parent)) continue;
    const style = getComputedStyle(parent);
    range.selectNodeContents(node);
    for (const line of range.getClientRects())
      if (line.width > 0.5)
        labels.push({
          node: parent,
          svg: false,
          corners: null,
          box: inner(line, parseFloat(style.fontSize)),
          whole: node,
          text: short(node.data),
          where: placeOf(parent),
          colour: style.color,
        });
    // Words that are no names are not broken.
    for (const word of node.data.matchAll(
      /(?<![\p{L}\p{N}_…])[\p{L}\p{N}_]{3,16}(?![\p{L}\p{N}_…])/gu,
    )) {
      // Part of a long name, which has to be broken somewhere.
      const end = word.index + word[0].length;
      const token =
        node.data.slice(0, word.index).match(/\S*$/)[0] +
        node.data.slice(word.index).match(/^\S*/)[0];
      if (token.length > 24) continue;
      range.setStart(node, word.index);
      range.setEnd(node, end);
      const tops = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
      if (tops.size > 1)
        report("broken", { text: `${word[0]} in ${short(node.data)}`, where: placeOf(parent) });
    }
  }

  // Frames: the picture, whatever cuts, and the page. What scrolls shows everything, but not on
  // paper, and a screen has room.
  const paper = matchMedia("print").matches;
  const wide = document.documentElement.clientWidth;
  const everywhere = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };
  const frames = new Map();
  // Of an element: the boxes that cut what it holds, and whether something scrolls sideways.
  function framesOf(node) {
    if (!node || node === document.body) return { cuts: [], within: false };
    if (!frames.has(node)) frames.set(node, ownFrames(node, framesOf(node.parentElement)));
    return frames.get(node);
  }
  function ownFrames(node, { cuts, within }) {
    const style = getComputedStyle(node);
    if (node instanceof SVGElement || ["inline", "contents"].includes(style.display))
      return { cuts, within };
    const { left, top, right, bottom } = node.getBoundingClientRect();
    const hides = (how) => how === "hidden" || how === "clip";
    const told = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
    const own = [];
    if (hides(style.overflowX)) own.push({ told, kind: "cut", ...everywhere, left, right });
    if (hides(style.overflowY)) own.push({ told, kind: "cut", ...everywhere, top, bottom });
    if (node.matches("td, th, button, dd, dt") && !told)
      own.push({ told, kind: "outside its cell", left, top, right, bottom });
    if (!["auto", "scroll"].includes(style.overflowX)) return { cuts: [...cuts, ...own], within };
    // What is scrolled sideways is cut by nothing around it, but on paper.
    const above = cuts.map((cut) => ({ ...cut, left: -1e9, right: 1e9 }));
    const wide = document.documentElement.clientWidth >= 1400;
    if (paper || wide)
      own.push({
        told: false,
        kind: paper ? "cut on paper" : "scrolled away",
        ...everywhere,
        left,
        right,
      });
    return { cuts: [...above, ...own], within: true };
  }
  for (const label of labels) {
    if (label.svg) {
      const outer = label.node.closest("svg:not(svg svg)") ?? label.node.ownerSVGElement;
      if (outside(label.box, outer.getBoundingClientRect())) report("outside its picture", label);
    }
    const { cuts, within } = framesOf(label.svg ? label.node.parentElement : label.node);
    const met = cuts.filter((cut) => outside(label.box, cut));
    label.hidden = met.some((cut) => cut.told); // an ellipsis says so
    if (label.hidden) continue;
    for (const cut of met) report(cut.kind, label);
    if (!within && (label.box.left < -NEAR || label.box.right + scrollX > wide + NEAR))
      report("beyond the page", label);
  }
  // Labels that the sheet writes, as those of a card's values.
  for (const cell of document.querySelectorAll("td, th"))
    if (shown(cell) && cell.scrollWidth > cell.clientWidth + NEAR) {
      const style = getComputedStyle(cell);
      if (style.textOverflow !== "ellipsis")
        report("wider than its cell", { text: short(cell.textContent), where: placeOf(cell) });
    }

  // Overlap, by a sweep from the top.
  const sorted = labels.filter((label) => !label.hidden).sort((a, b) => a.box.top - b.box.top);
  let open = [];
  for (const label of sorted) {
    open = open.filter((other) => other.box.bottom > label.box.top);
    for (const other of open)
      if (other.whole !== label.whole && meet(label, other) && together(label, other))
        report("overlap", { text: `${label.text} | ${other.text}`, where: label.where });
    open.push(label);
  }
  // What sticks to an edge of the window lies over what is scrolled below it, by intent.
  function together(a, b) {
    const stuck = (label) => {
      for (let node = label.node; node; node = node.parentElement)
        if (["sticky", "fixed"].includes(getComputedStyle(node).position)) return node;
      return null;
    };
    return stuck(a) === stuck(b);
  }

  // Contrast with what is behind the middle of a label of a picture: fills of cells and bars.
  const pictures = new Map();
  function shapesOf(svg) {
    if (!pictures.has(svg)) {
      let paper = [255, 255, 255, 1];
      for (let node = svg; node; node = node.parentElement) {
        const colour = rgba(getComputedStyle(node).backgroundColor);
        if (colour[3] === 1) {
          paper = colour;
          break;
        }
      }
      const filled = [...svg.querySelectorAll("rect, path, circle")]
        .map((node) => ({ node, style: getComputedStyle(node), box: node.getBoundingClientRect() }))
        .filter(({ style }) => style.fill !== "none" && !style.fill.startsWith("url"));
      pictures.set(svg, { paper, filled });
    }
    return pictures.get(svg);
  }
  for (const label of labels) {
    if (label.hidden || !label.svg) continue;
    const x = (label.box.left + label.box.right) / 2,
      y = (label.box.top + label.box.bottom) / 2;
    const { paper: behind, filled } = shapesOf(label.node.closest("svg:not(svg svg)"));
    let below = behind;
    for (const { node, style, box } of filled) {
      if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
      if (label.whole.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING) continue;
      const at = new DOMPoint(x, y).matrixTransform(node.getScreenCTM().inverse());
      if (!node.isPointInFill(at)) continue;
      const top = rgba(style.fill);
      below = over(top, below, top[3] * Number(style.fillOpacity) * Number(style.opacity));
    }
    const ink = rgba(label.colour);
    if (contrast(over(ink, below, ink[3]), below) < CONTRAST) report("faint", label);
  }
  return { found, labels: labels.length };
})();
