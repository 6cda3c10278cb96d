// Rows of a table: by the texts of some of their columns, and as objects.

// The rows of a trace, which are contiguous.
export function rowsOfTrace({ trace }, name) {
  const code = trace.levels.indexOf(name);
  return d3.range(trace.codes.indexOf(code), trace.codes.lastIndexOf(code) + 1);
}

// A function of one text per column, in their order: those of these rows that have them.
export function rowIndex(table, rows, columns) {
  const texts = columns.map((name) => table[name]);
  const key = (codes) => codes.reduce((all, code, c) => all * texts[c].levels.length + code, 0);
  const places = d3.group(rows, (i) => key(texts.map((text) => text.codes[i])));
  return (...names) => {
    const codes = names.map((name, c) => texts[c].levels.indexOf(name));
    return (!codes.includes(-1) && places.get(key(codes))) || [];
  };
}

// Row i as an object.
export function record(table, i) {
  const { length, ...columns } = table;
  const cell = (column) => (column.codes ? column.levels[column.codes[i]] : column[i]);
  return Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, cell(c)]));
}
