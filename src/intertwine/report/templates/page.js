"use strict";
// Clicking a heading sorts a table by that column: ascending, descending, then in the original order.
function makeSortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const written = [...body.rows];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value ?? cell.textContent.trim();
  };
  const sorted = (column, sign) => {
    const keys = new Map(written.map((row) => [row, key(row, column)]));
    const numbers = [...keys.values()].every((value) => value === "" || !Number.isNaN(Number(value)));
    return [...written].sort((first, second) => {
      const [a, b] = [keys.get(first), keys.get(second)];
      if (a === "" || b === "") return (a === "") - (b === ""); // empty cells come last in both directions
      if (numbers) return sign * (Number(a) - Number(b) || 0);
      return sign * a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" });
    });
  };
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  heads.forEach((head, column) => {
    const button = document.createElement("button"); // works with the keyboard
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const state = next[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? state : "none"));
      body.append(...(state === "none" ? written : sorted(column, state === "ascending" ? 1 : -1)));
    });
  });
}
for (const table of document.querySelectorAll("table[data-sortable]")) makeSortable(table);
for (const root of document.querySelectorAll("[data-picker]")) {
  layerPicker(root, JSON.parse(root.querySelector("script").textContent));
}
