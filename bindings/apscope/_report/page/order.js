// Part (e): the error of encoding, and the error that the order of the additions adds.

import { beside, chart, charts, figureBox, powerOfTen, powersOfTen } from "./chart.js";
import { element } from "./dom.js";
import { additions } from "./fill.js";
import { figure } from "./text.js";

const NONE =
  "No scheme of this selection is summed in an order: the trace has no local gradients, " +
  "or only exact sums were asked for.";

export function orderPart(box) {
  const place = element("div", { class: "plot" });
  box.append(figureBox(charts.kinds.order.caption, place));
  return (view) => {
    const { bars, marks } = additions(view.everyTopology);
    if (!bars.length) {
      place.replaceChildren(element("p", { class: "empty" }, NONE));
      return;
    }
    const schemes = [...new Set(marks.map((p) => p.scheme))];
    const topologies = [...new Set(marks.map((p) => p.topology))];
    const drawn = marks.filter((p) => Number.isFinite(p.added) && p.added !== 0);
    const low = Math.min(...bars.map((p) => p.exact)) / 8;
    const sizes = [...bars.map((p) => p.exact), ...drawn.map((p) => Math.abs(p.added))];
    const high = 4 * Math.max(...sizes);
    const width = place.clientWidth || 600;
    const { margin, fit } = beside(schemes, width);
    const x = (p) => Math.max(Math.abs(p.added), low);
    const colours = charts.colours.map((c) => (c === "#000000" ? "currentColor" : c));
    const orders = topologies.join(", ");
    const says = `NMSE of ${schemes.length} schemes, summed exactly and in ${orders}.`;
    chart(place, says, {
      height: 70 + schemes.length * 20,
      marginLeft: margin,
      marginBottom: 40,
      x: {
        type: "log",
        label: charts.kinds.order.x.label,
        grid: true,
        ticks: powersOfTen([low, high], 0, width - margin),
        tickFormat: powerOfTen,
        domain: [low, high],
      },
      y: { type: "band", domain: schemes, label: null, tickFormat: fit },
      color: { domain: topologies, range: colours },
      symbol: { domain: topologies, range: charts.symbols, legend: true },
      marks: [
        Plot.barX(bars, {
          x1: low,
          x2: "exact",
          y: "scheme",
          fill: "currentColor",
          fillOpacity: 0.16,
          insetTop: 3,
          insetBottom: 3,
        }),
        ...[true, false].map((adds) =>
          Plot.dot(
            drawn.filter((p) => Math.abs(p.added) >= low && p.added > 0 === adds),
            {
              x,
              y: "scheme",
              stroke: "topology",
              fill: adds ? "topology" : "none",
              symbol: "topology",
              r: 4,
              strokeWidth: 1.6,
            },
          ),
        ),
        Plot.vector(
          drawn.filter((p) => Math.abs(p.added) < low),
          {
            x,
            y: "scheme",
            stroke: "topology",
            rotate: 270,
            length: 12,
            anchor: "end",
            strokeWidth: 2,
          },
        ),
        Plot.text(
          marks.filter((p) => p.overflowed > 0),
          { x: high / 1.2, y: "scheme", text: () => "×", fill: "topology" },
        ),
        Plot.tip(
          drawn,
          Plot.pointer({
            x,
            y: "scheme",
            title: (p) =>
              `${p.scheme}\nexact ${figure(p.exact)}\n${p.topology}: ${figure(p.added)} more`,
          }),
        ),
      ],
    });
  };
}
