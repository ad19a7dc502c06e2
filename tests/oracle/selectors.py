"""Which labels a selector picks, and which nodes a node selector does, on plain objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]
Labels = Mapping[str, str]


def labels_of(manifest: Object) -> Labels:
    """The labels of an object, none being an empty mapping."""
    labels: Labels = manifest["metadata"].get("labels") or {}
    return labels


def number(text: str) -> int | None:
    """The whole number of 64 bits that the text spells, or None."""
    value = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def holds(row: Object, labels: Labels) -> bool:
    """Whether one row of `matchExpressions` (or `matchFields`) is true of these labels."""
    value, values = labels.get(row["key"]), row.get("values") or []
    match row["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            ours, limit = number(value or ""), number(values[0])
            if ours is None or limit is None:
                return False
            return ours > limit if row["operator"] == "Gt" else ours < limit
    raise ValueError(f"no rule is known for the operator `{row['operator']}`")


def selects(selector: Object | None, labels: Labels) -> bool:
    """Whether a label selector picks these labels: an absent one never does, `{}` always."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        holds(row, labels) for row in selector.get("matchExpressions") or ()
    )


def narrowed(
    selector: Object | None,
    own: Labels,
    match: Iterable[str] | None,
    mismatch: Iterable[str] | None = None,
) -> Object | None:
    """The selector with what `matchLabelKeys` and `mismatchLabelKeys` add for these own labels."""
    if selector is None:
        return None
    more = [
        {"key": key, "operator": operator, "values": [own[key]]}
        for operator, keys in (("In", match), ("NotIn", mismatch))
        for key in keys or ()
        if key in own
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


def some_term_matches(terms: Iterable[Object] | None, node: Object) -> bool:
    """Whether one of the node selector terms is true of the node; an empty term never is."""
    name = {"metadata.name": node["metadata"]["name"]}
    for term in terms or ():
        rows, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        asked = [
            *(holds(row, labels_of(node)) for row in rows),
            *(holds(field, name) for field in fields),
        ]
        if asked and all(asked):
            return True
    return False
