// A table that sorts, filters and shows more columns on demand; its rows can be saved as CSV.

import { csv, download } from "./csv.js";
import { boxes, breakable, element } from "./dom.js";

// columns: [{key, label, title, text(record), numeric, shown}]. The object keeps its sorting,
// columns and filter from one update to the next.
export class Table {
  constructor({ columns, name, caption, sort, onpick = null, search = false }) {
    Object.assign(this, {
      columns,
      name,
      onpick,
      sort: { key: sort, down: false },
      records: [],
      words: "",
      picked: null,
    });
    this.chosen = new Set(columns.filter((c) => c.shown).map((c) => c.label));
    this.count = element("span", { class: "count", role: "status" });
    this.body = element("tbody");
    this.head = element("thead");
    this.box = element(
      "div",
      { class: "table-box" },
      element(
        "div",
        { class: "tools" },
        (search &&
          element(
            "label",
            { class: "field" },
            element("span", {}, "find"),
            element("input", {
              type: "search",
              placeholder: "part of a name",
              oninput: (event) => {
                this.words = event.target.value;
                this.draw();
              },
            }),
          )) ||
          null,
        boxes(
          "columns",
          columns.map((c) => c.label),
          this.chosen,
          () => this.draw(),
        ),
        element(
          "button",
          { type: "button", onclick: () => download(`${this.name}.csv`, this.csv()) },
          "CSV of these rows",
        ),
        this.count,
      ),
      element(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        element("table", { class: "data" }, element("caption", {}, caption), this.head, this.body),
      ),
    );
  }

  update(records, picked = null) {
    this.records = records;
    this.picked = picked;
    this.draw();
  }

  shownColumns() {
    return this.columns.filter((c) => this.chosen.has(c.label));
  }

  shownRecords() {
    const words = this.words.toLowerCase();
    const text = this.columns[0].key;
    const kept = words
      ? this.records.filter((r) => String(r[text]).toLowerCase().includes(words))
      : [...this.records];
    const { key, down } = this.sort;
    const sign = down ? -1 : 1;
    const empty = (v) => v == null || Number.isNaN(v);
    // Empty values are last in either order.
    return kept.sort(
      (x, y) =>
        empty(x[key]) - empty(y[key]) ||
        (empty(x[key]) ? 0 : sign * (x[key] < y[key] ? -1 : x[key] > y[key] ? 1 : 0)),
    );
  }

  csv() {
    return csv(
      this.shownColumns().map((c) => c.key),
      this.shownRecords(),
    );
  }

  sortBy(key) {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : false };
    this.draw();
    this.head.querySelector(`[data-key="${key}"] button`)?.focus();
  }

  draw() {
    const columns = this.shownColumns(),
      records = this.shownRecords();
    this.head.replaceChildren(
      element(
        "tr",
        {},
        ...columns.map((c) =>
          element(
            "th",
            {
              scope: "col",
              "data-key": c.key,
              title: c.title,
              class: c.numeric ? "number" : "text",
              "aria-sort":
                this.sort.key === c.key ? (this.sort.down ? "descending" : "ascending") : null,
            },
            element("button", { type: "button", onclick: () => this.sortBy(c.key) }, c.label),
          ),
        ),
      ),
    );
    this.body.replaceChildren(...records.map((record) => this.row(record, columns)));
    this.count.textContent = `${records.length} of ${this.records.length} rows`;
  }

  row(record, columns) {
    const cells = columns.map((c, i) => {
      const text = c.text ? c.text(record) : String(record[c.key] ?? "–");
      const inner =
        i === 0 && this.onpick
          ? element(
              "button",
              {
                type: "button",
                class: "pick",
                "aria-pressed": String(this.picked === record[c.key]),
                onclick: () => this.onpick(record),
              },
              ...breakable(text),
            )
          : null;
      const title = c.numeric ? null : String(record[c.key] ?? "");
      return element(
        i === 0 ? "th" : "td",
        {
          scope: i === 0 ? "row" : null,
          class: c.numeric ? "number" : "text",
          title: title === text ? null : title,
        },
        ...(inner ? [inner] : i === 0 ? breakable(text) : [text]),
      );
    });
    return element(
      "tr",
      { class: this.onpick && this.picked === record[columns[0]?.key] ? "picked" : null },
      ...cells,
    );
  }
}
