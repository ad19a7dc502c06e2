"""HTML put together by hand: whatever a cluster has named is escaped on its way in."""

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
    top = "".join(tag("th", text(it), class_=side) for it, side in zip(heads, sides, strict=True))
    body = "\n".join(
        tag("tr", *(tag("td", it, class_=side) for it, side in zip(row, sides, strict=True)))
        for row in rows
    )
    return tag("table", tag("thead", tag("tr", top)), tag("tbody", body))


def data(name: str, value: Any) -> str:
    """Figures for the script of the page; no text in them can end the element."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    safe = written.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" id="{text(name)}">{safe}</script>'
