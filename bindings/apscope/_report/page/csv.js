// A table as a CSV file, by the rule of csv_table.py: text that begins like a formula gets an
// apostrophe.

export function csv(columns, records) {
  const rows = [columns, ...records.map((r) => columns.map((c) => harmless(r[c])))];
  return rows.map((row) => `${d3.csvFormatRow(row)}\r\n`).join("");
}

function harmless(value) {
  if (typeof value === "string") return /^'*[=+\-@\t\r＝＋－＠]/.test(value) ? `'${value}` : value;
  return Number.isNaN(value) ? null : value;
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
