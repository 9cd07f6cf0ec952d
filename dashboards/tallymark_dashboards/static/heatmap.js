/* The heatmap by keyboard, as a grid: one cell can be reached by Tab, arrow keys move from there.
   Without this file the links of the cells work as links do. */
"use strict";
(() => {
  let place = { row: 0, column: 0 };

  const grid = () => document.querySelector("table[data-heat]");
  const rows = (table) => Array.from(table.tBodies[0].rows);
  const target = (cell) => cell.querySelector("a") || cell;

  /* Column 0 is the name of the topic. */
  function cellAt(table, row, column) {
    const all = rows(table);
    const line = all[Math.max(0, Math.min(row, all.length - 1))];
    return line && line.cells[Math.max(0, Math.min(column, line.cells.length - 1))];
  }

  function prepare() {
    const table = grid();
    if (!table) return;
    table.setAttribute("role", "grid");
    for (const one of table.querySelectorAll("tbody a")) one.tabIndex = -1;
    const cell = cellAt(table, place.row, place.column);
    if (cell) target(cell).tabIndex = 0;
  }

  function say(table, cell, row, column) {
    if (cell.querySelector("a")) return;
    const start = Number(table.dataset.start) + (column - 1) * Number(table.dataset.step);
    const words = { g: "all there", n: "no messages", w: "open or settling", u: "not judged" };
    const topic = rows(table)[row].cells[0].textContent.trim();
    const time = new Date(start).toISOString().slice(0, 16).replace("T", " ");
    cell.setAttribute("aria-label", `${topic}, ${time} UTC: ${words[cell.className] || ""}`);
  }

  function go(table, row, column) {
    const all = rows(table);
    row = Math.max(0, Math.min(row, all.length - 1));
    column = Math.max(0, Math.min(column, all[row].cells.length - 1));
    const before = cellAt(table, place.row, place.column);
    if (before) target(before).tabIndex = -1;
    place = { row, column };
    const cell = cellAt(table, row, column);
    say(table, cell, row, column);
    target(cell).tabIndex = 0;
    target(cell).focus();
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /* All of the topic in the span of a cell that has no link of its own. */
  function open(table, row, column) {
    const name = cellAt(table, row, 0).querySelector("a");
    const start = Number(table.dataset.start) + (column - 1) * Number(table.dataset.step);
    const url = new URL(name.href);
    url.searchParams.delete("range");
    url.searchParams.set("from", String(start));
    url.searchParams.set("to", String(start + Number(table.dataset.step)));
    window.location.assign(url);
  }

  function cellOf(event) {
    const table = event.target.closest && event.target.closest("table[data-heat]");
    const cell = table && event.target.closest("tbody td, tbody th");
    if (!cell) return null;
    return { table, cell, row: rows(table).indexOf(cell.parentElement), column: cell.cellIndex };
  }

  document.addEventListener("keydown", (event) => {
    const at = cellOf(event);
    if (!at || event.altKey || event.metaKey) return;
    const { table, cell, row, column } = at;
    const last = rows(table).length - 1;
    const moves = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [event.ctrlKey ? 0 : row, 0],
      End: [event.ctrlKey ? last : row, cell.parentElement.cells.length - 1],
      PageUp: [row - 10, column],
      PageDown: [row + 10, column],
    };
    if (moves[event.key]) {
      event.preventDefault();
      go(table, ...moves[event.key]);
    } else if (event.key === "Enter" && !cell.querySelector("a") && column > 0) {
      event.preventDefault();
      open(table, row, column);
    }
  });

  document.addEventListener("click", (event) => {
    const at = cellOf(event);
    if (at && at.column > 0 && !at.cell.querySelector("a")) open(at.table, at.row, at.column);
  });

  document.addEventListener("focusin", (event) => {
    const at = cellOf(event);
    if (!at || (at.row === place.row && at.column === place.column)) return;
    const before = cellAt(at.table, place.row, place.column);
    if (before) target(before).tabIndex = -1;
    place = { row: at.row, column: at.column };
    target(at.cell).tabIndex = 0;
  });

  document.addEventListener("tallymark:shown", prepare);
  prepare();
  // The newest is at the right: on a narrow screen it is what is seen first.
  const region = grid() && grid().closest(".scroll");
  if (region) region.scrollLeft = region.scrollWidth;
})();
