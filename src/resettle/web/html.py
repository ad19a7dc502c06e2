"""HTML elements, and the style and script of the pages.

Every name that comes from a cluster is escaped. The script only adds the figures of the node under
the pointer and the filter of the table: without it the page is complete.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any


def text(value: object) -> str:
    """A name or a number as it may stand in HTML, between tags or in an attribute."""
    return html.escape(str(value), quote=True)


def tag(name: str, *inner: str, **attributes: object) -> str:
    """An element around markup; attributes are escaped, `_` in their names becomes `-`."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(inner)}</{name}>"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    """A table of markup; `numbers` are the columns set to the right."""
    sides = ["number" if i in numbers else None for i in range(len(heads))]
    top = "".join(
        tag("th", text(head), class_=side) for head, side in zip(heads, sides, strict=True)
    )
    body = "\n".join(
        tag("tr", *(tag("td", cell, class_=side) for cell, side in zip(row, sides, strict=True)))
        for row in rows
    )
    return tag("table", tag("thead", tag("tr", top)), tag("tbody", body))


def data(name: str, value: Any) -> str:
    """Figures for the script of the page; no text in them can end the element."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    safe = written.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" id="{text(name)}">{safe}</script>'


STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f6f7f9; --line: #d9dde3; --ink: #1c2128; --soft: #5c6673;
  --moved: #3d6fb4; --back: #d98a1f; --trouble: #a3443f; --event: #6b4fa0; --mark: #fff3c4;
  --taint: #1f6f8b;
  --h0: #eef0f3; --h1: #fdf3d7; --h2: #fde8b4; --h3: #fbd88a; --h4: #f8c265; --h5: #f3a74b;
  --h6: #ea893a; --h7: #dc6a32; --h8: #c64c2e; --h9: #a5322d; --h10: #6f1430; --none: transparent;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --card: #1c2128; --line: #343b46; --ink: #e6e9ee; --soft: #98a2b0;
    --moved: #6fa0e0; --back: #e8a548; --trouble: #e0837d; --event: #b59be6; --mark: #4a4220;
    --taint: #7fd0ea;
    --h0: #232933; --h1: #332f2a; --h2: #46392a; --h3: #5d452a; --h4: #77532a; --h5: #94632b;
    --h6: #b27532; --h7: #cd8b42; --h8: #e2a55f; --h9: #f0c48a; --h10: #fff0d0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 2rem 3rem; max-width: 90rem;
  background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
h3 { font-size: .95rem; margin: .2rem 0 .4rem; color: var(--soft); font-weight: 600; }
p { margin: .2rem 0 .8rem; max-width: 62rem; }
.soft, figcaption { color: var(--soft); }
.pair { display: grid; gap: 1rem 1.6rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 62rem), print { .two { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.cards { display: grid; gap: .6rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
.two .cards { grid-template-columns: repeat(3, minmax(0, 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .5rem .8rem; }
.card b { display: block; font-size: 1.5rem; line-height: 1.3; font-weight: 650; }
.card span { color: var(--soft); font-size: .85rem; }
.verdict { font-weight: 600; margin: .6rem 0; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
footer { margin-top: 2rem; }
svg text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
svg text.inside { font-size: 10px; text-anchor: middle; fill: var(--ink); }
svg text.bright { fill: var(--page); }
svg .axis { stroke: var(--line); }
svg .moved { fill: var(--moved); } svg .back { fill: var(--back); }
svg .total { fill: none; stroke: var(--soft); stroke-width: 1.5; }
svg .event { stroke: var(--event); stroke-dasharray: 3 3; }
svg .flag { fill: var(--event); } svg .taint { fill: var(--taint); }
svg .trouble { fill: none; stroke: var(--trouble); stroke-width: 2; stroke-linejoin: round; }
svg .under { fill: var(--trouble); opacity: .14; }
svg .cell:hover, svg .cell.chosen { stroke: var(--ink); stroke-width: 1.5; }
.h0 { fill: var(--h0); } .h1 { fill: var(--h1); } .h2 { fill: var(--h2); } .h3 { fill: var(--h3); }
.h4 { fill: var(--h4); } .h5 { fill: var(--h5); } .h6 { fill: var(--h6); } .h7 { fill: var(--h7); }
.h8 { fill: var(--h8); } .h9 { fill: var(--h9); } .h10 { fill: var(--h10); }
.unknown { fill: var(--none); stroke: var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; align-items: center;
  margin: .3rem 0 .6rem; font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; width: .9em; height: .9em; border-radius: 2px;
  margin-right: .35em; vertical-align: -.1em; }
.scale { display: inline-flex; } .scale i { width: 1.5em; margin: 0; border-radius: 0; }
.readout { min-height: 1.5em; font-size: .9rem; font-variant-numeric: tabular-nums; }
.multiples { display: grid; gap: .8rem 1.4rem;
  grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); }
.multiples b { font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
th, td { padding: .25rem .8rem .25rem 0; vertical-align: top; overflow-wrap: break-word; }
td { border-bottom: 1px solid var(--line); }
.number { text-align: right; width: 1%; font-variant-numeric: tabular-nums; white-space: nowrap; }
.word, .name { white-space: nowrap; }
td:last-child { padding-right: 0; }
tr.returned td.word { color: var(--back); font-weight: 600; }
tr.waits td.word { color: var(--trouble); font-weight: 600; }
input[type=search] { font: inherit; padding: .35rem .6rem; width: min(30rem, 100%);
  border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--ink); }
.filter label { flex: 0 1 34rem; display: flex; gap: .5rem; align-items: center; }
.filter { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .4rem 0; }
.meter { display: inline-block; height: .7em; background: var(--moved); border-radius: 2px;
  min-width: 2px; }
[hidden] { display: none; }
@media print {
  body { padding: 0; font-size: 11px; max-width: none; }
  .filter, .readout { display: none; } .scroll { overflow: visible; }
  td { overflow-wrap: anywhere; } td.name { white-space: normal; } table { font-size: 9px; }
  .card b { font-size: 1.1rem; } .multiples { grid-template-columns: repeat(3, 1fr); }
  h2 { break-after: avoid; } figure, .card, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

SCRIPT = """
"use strict";
const held = (id) => JSON.parse(document.getElementById(id).textContent);
const percent = (share) => share === null ? "unknown" : Math.round(share) + "%";

for (const map of document.querySelectorAll("svg.heat")) {
  const figuresOf = held(map.dataset.figures);
  const readout = document.getElementById(map.dataset.readout);
  const standing = readout.textContent;
  let chosen = null;
  const show = (cell) => {
    const [row, column] = [Number(cell.dataset.r), Number(cell.dataset.c)];
    const load = figuresOf.loads[column][row];
    const when = column === 0 ? "at the start" : "after cycle " + figuresOf.cycles[column - 1];
    const figures = load && (load[3] === null ? "" : percent(load[3]) + " by query, ")
      + percent(load[0]) + " cpu, " + percent(load[1]) + " memory, "
      + load[2] + (load[2] === 1 ? " pod" : " pods")
      + (load[4] ? ", " + load[4] + (load[4] === 1 ? " soft taint" : " soft taints") : "");
    readout.textContent = figuresOf.nodes[row] + " " + when + ": " + (figures || "not there");
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
