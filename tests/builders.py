"""A cluster, a policy to meet it, and pods that are on their way already."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from resettle.testing.builders import Object
from resettle.testing.strategies import clusters, policies


class Case(NamedTuple):
    """What a plan is drawn from; `moving` are uids."""

    objects: list[Object]
    document: dict[str, Any]
    moving: frozenset[str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any cluster, any policy, and up to two of its pods on their way."""
    objects, document = draw(clusters()).objects, draw(policies())
    uids = [it["metadata"]["uid"] for it in objects if it["kind"] == "Pod"]
    dice = draw(st.randoms(use_true_random=True))
    moving = dice.sample(uids, min(len(uids), dice.choice([0, 0, 1, 2])))
    return Case(objects, document, frozenset(moving))
