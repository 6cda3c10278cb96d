// The first screen, which Python drew: the order of its layers, and the targets of clicks.

// Two attributes of every row hold its place in the two orders; labels and boxes of the worst
// layers go with their rows.
function order(svg, which) {
  for (const row of svg.querySelectorAll("g[data-layer]"))
    row.setAttribute("transform", row.dataset[which]);
  for (const mark of svg.querySelectorAll("[data-of]"))
    mark.style.display = which === "model" ? "none" : "";
}

export function firstScreen(state, traces, update) {
  const button = document.getElementById("layer-order"),
    maps = [...document.querySelectorAll(".chart.cells")];
  let which = "worst";
  if (!maps.length) button.hidden = true;
  button.addEventListener("click", () => {
    which = which === "worst" ? "model" : "worst";
    maps.forEach((svg) => order(svg, which));
    button.textContent = which === "worst" ? "layers in the model's order" : "worst layers first";
  });
  const names = [...traces.keys()];
  document.querySelectorAll("article.first").forEach((article, i) => {
    for (const row of article.querySelectorAll("g[data-layer]")) {
      row.addEventListener("click", () => {
        const scheme = article.querySelector(".chosen")?.title;
        Object.assign(state, {
          trace: names[i],
          layer: "",
          a: scheme ?? state.a,
          picked: { layer: row.dataset.layer, step: null },
        });
        update();
        document.getElementById("versus").scrollIntoView();
      });
    }
  });
  // A name is copied as the spec that commands take.
  document.addEventListener("copy", (event) => {
    const node = document.getSelection()?.anchorNode,
      spec = (node?.nodeType === 1 ? node : node?.parentElement)?.closest(".spec");
    if (!spec?.title || document.getSelection().toString().length > spec.textContent.length) return;
    event.clipboardData.setData("text/plain", spec.title);
    event.preventDefault();
  });
  // A row of a table inside a folded part is shown by unfolding it.
  const open = () =>
    document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();
}
