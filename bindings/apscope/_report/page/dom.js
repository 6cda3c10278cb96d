// Elements of the page. Text is inserted as text, never as markup, so names can contain anything.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c != null));
  return made;
}

// A name that may be broken behind its punctuation.
export function breakable(name) {
  return name
    .split(/(?<=[,:/_.])(?=.)/u)
    .flatMap((piece, i) => (i ? [element("wbr"), piece] : [piece]));
}

// A <select> with a label before it. options: [{value, text, group}]; groups become <optgroup>.
export function select(label, options, value, onchange) {
  const list = element("select", {
    onchange: (event) => onchange(event.target.value),
    "aria-label": label,
  });
  for (const [group, members] of Map.groupBy(options, (o) => o.group ?? "")) {
    const made = members.map((o) =>
      element("option", { value: o.value, selected: o.value === value }, o.text ?? o.value),
    );
    list.append(...(group ? [element("optgroup", { label: group }, ...made)] : made));
  }
  list.value = value;
  return element("label", { class: "field" }, element("span", {}, label), list);
}

// A <select> that sets a key of the state.
export const choice = (label, options, state, key, redraw) =>
  select(label, options, state[key], (value) => {
    state[key] = value;
    redraw();
  });

// A folded list of boxes to tick; `chosen` is a Set that is changed in place.
export function boxes(label, values, chosen, onchange) {
  const summary = element("summary", {});
  const write = () =>
    summary.replaceChildren(
      `${label}: ${chosen.size === values.length ? "all" : `${chosen.size} of ${values.length}`}`,
    );
  const tick = (value) =>
    element(
      "label",
      {},
      element("input", {
        type: "checkbox",
        checked: chosen.has(value),
        value,
        onchange: (event) => {
          event.target.checked ? chosen.add(value) : chosen.delete(value);
          write();
          onchange();
        },
      }),
      ` ${value}`,
    );
  const every = (on) =>
    element(
      "button",
      {
        type: "button",
        onclick: () => {
          values.forEach((v) => (on ? chosen.add(v) : chosen.delete(v)));
          menu.querySelectorAll("input").forEach((box) => (box.checked = on));
          write();
          onchange();
        },
      },
      on ? "all" : "none",
    );
  const menu = element(
    "details",
    {
      class: "menu",
      onkeydown: (event) => {
        if (event.key === "Escape") {
          menu.open = false;
          summary.focus();
        }
      },
      onfocusout: (event) => {
        if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
      },
    },
    summary,
    element(
      "div",
      { class: "choices" },
      element("div", {}, every(true), every(false)),
      ...values.map(tick),
    ),
  );
  write();
  return menu;
}
