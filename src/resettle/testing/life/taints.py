"""Taints that pods have to leave for (`NoExecute`), at once or when their patience is over.

Patience (`tolerationSeconds`) counts from the taint's `timeAdded`; a taint that does not say when
it came has been there for longer than anyone is patient.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from resettle.testing.life.births import active
from resettle.testing.life.moments import read_as
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Write, farewell
from resettle.testing.objects import Object

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def taints(seen: Sight) -> Iterator[Write | Later]:
    """Farewells to pods that a taint of their node does not suffer any longer."""
    strict = {
        node["metadata"]["name"]: hard
        for node in seen.all("Node")
        if (hard := [it for it in _taints(node) if it["effect"] == "NoExecute"])
    }
    for pod in seen.pods if strict else ():
        hard = strict.get(pod["spec"].get("nodeName", ""), [])
        ends = [end for taint in hard if (end := end_of_stay(pod, taint)) is not None]
        if ends and active(pod):
            if min(ends) <= seen.now:
                yield from farewell(pod, seen.now)
            else:
                yield Later(min(ends))


def _taints(node: Object) -> list[Object]:
    return list((node.get("spec") or {}).get("taints") or ())


def end_of_stay(pod: Object, taint: Object) -> datetime | None:
    """When the pod has to leave for this taint; None if it need not."""
    came = read_as(taint["timeAdded"]) if taint.get("timeAdded") else _LONG_AGO
    consenting = [it for it in pod["spec"].get("tolerations") or () if tolerates(it, taint)]
    if not consenting:
        return came
    patience = [
        it["tolerationSeconds"] for it in consenting if it.get("tolerationSeconds") is not None
    ]
    return came + timedelta(seconds=max(min(patience), 0)) if patience else None


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether the toleration is about this taint."""
    exists = toleration.get("operator") == "Exists"
    key, effect = toleration.get("key", ""), toleration.get("effect", "")
    return (
        (effect in ("", taint["effect"]))
        and (key == taint["key"] or (exists and not key))
        and (exists or toleration.get("value", "") == taint.get("value", ""))
    )
