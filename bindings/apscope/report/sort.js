// Sorts the table by the column whose head is clicked; empty cells stay last.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const column = [...head.parentElement.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.key;
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const x = Number(a.replace("inf", "Infinity")), y = Number(b.replace("inf", "Infinity"));
      const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x < y ? -1 : x > y ? 1 : 0;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
  });
}
