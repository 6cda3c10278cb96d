// Rows of a table: by the texts of some of their columns, as objects, and their NMSE.

// The range of rows of each trace (rows of one trace are contiguous).
export function spans(rows) {
  const found = rows.trace.levels.map(() => [rows.length, 0]);
  for (let i = 0; i < rows.length; i++) {
    const span = found[rows.trace.codes[i]];
    if (i < span[0]) span[0] = i;
    span[1] = i + 1;
  }
  return found;
}

// A function of one text per column, in their order: the rows of a span that have them.
export function rowIndex(table, [from, to], columns) {
  const texts = columns.map((name) => table[name]);
  const key = (codes) => codes.reduce((all, code, c) => all * texts[c].levels.length + code, 0);
  const found = new Map();
  for (let i = from; i < to; i++) {
    const at = key(texts.map((text) => text.codes[i]));
    const list = found.get(at);
    if (list) list.push(i);
    else found.set(at, [i]);
  }
  return (...names) => {
    const codes = names.map((name, c) => texts[c].levels.indexOf(name));
    return (!codes.includes(-1) && found.get(key(codes))) || [];
  };
}

// Row i as an object.
export function record(table, i) {
  const { length, ...columns } = table;
  const cell = (column) => (column.codes ? column.levels[column.codes[i]] : column[i]);
  return Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, cell(c)]));
}

// NMSE of row i: 1 where the step was skipped, at least 1 where values overflowed, NaN where the
// truth is all zero.
export function nmse(rows, i) {
  if (rows.skipped[i]) return rows.sum_squared_reference[i] > 0 ? 1 : NaN;
  const reference = rows.sum_squared_reference[i];
  const value = reference > 0 ? rows.sum_squared_error[i] / reference : NaN;
  return rows.overflow[i] > 0 ? Math.max(1, value || 0) : value;
}
