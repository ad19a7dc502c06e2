"""What the page does beyond standing there: figures of a node under the mouse, and the filter.

Without it everything is still to be read; it only adds.
"""

from __future__ import annotations

SCRIPT = """
"use strict";
const held = (id) => JSON.parse(document.getElementById(id).textContent);
const percent = (share) => share === null ? "unknown" : Math.round(share) + "%";

for (const map of document.querySelectorAll("svg.heat")) {
  const told = held(map.dataset.figures);
  const readout = document.getElementById(map.dataset.readout);
  const standing = readout.textContent;
  let chosen = null;
  const show = (cell) => {
    const [row, column] = [Number(cell.dataset.r), Number(cell.dataset.c)];
    const load = told.loads[column][row];
    const when = column === 0 ? "at the start" : "after cycle " + told.cycles[column - 1];
    const figures = load && (load[3] === null ? "" : percent(load[3]) + " by query, ")
      + percent(load[0]) + " cpu, " + percent(load[1]) + " memory, "
      + load[2] + (load[2] === 1 ? " pod" : " pods")
      + (load[4] ? ", " + load[4] + (load[4] === 1 ? " soft taint" : " soft taints") : "");
    readout.textContent = told.nodes[row] + " " + when + ": " + (figures || "not there");
  };
  const cellOf = (event) => event.target.closest(".cell");
  map.addEventListener("mouseover", (event) => { if (cellOf(event)) show(cellOf(event)); });
  map.addEventListener("mouseleave", () => {
    if (chosen) show(chosen); else readout.textContent = standing;
  });
  map.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (chosen) chosen.classList.remove("chosen");
    chosen = cell === chosen ? null : cell;
    if (chosen) { chosen.classList.add("chosen"); show(chosen); }
  });
}

for (const box of document.querySelectorAll("input[type=search]")) {
  const rows = [...document.querySelectorAll("#" + box.dataset.rows + " tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = document.getElementById(box.dataset.count);
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = shown + " of " + rows.length + " shown";
  });
}
"""
