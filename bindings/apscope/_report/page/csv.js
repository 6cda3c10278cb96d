// A table as a CSV file, by the rule of csv_table.py: text that begins like a formula gets an
// apostrophe.

export function csv(columns, records) {
  const line = (cells) => cells.map(cell).join(",");
  return (
    [line(columns), ...records.map((r) => line(columns.map((c) => r[c])))].join("\r\n") + "\r\n"
  );
}

function cell(value) {
  if (value == null || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const text = /^'*[=+\-@\t\r＝＋－＠]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
