"""Short words for the tests: ask what becomes of one pod, or where arguments are wrong."""

from __future__ import annotations

import re
from typing import Any

from resettle.errors import PolicyError
from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.view import View
from resettle.testing import World, cluster, node, plan

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def _propose_all(args: Any, view: View, draft: Draft) -> None:
    for each in view.nodes:
        for pod in view.pods_on(each):
            draft.propose(pod, because="was asked about")


EVERY_POD = Plugin(name="EveryPod", deschedule=_propose_all)
"""A strategy that wants every pod gone, so that only guards and limits decide."""


def answer(world: World, pod: str = "default/it", **more: Any) -> str:
    """What comes of proposing the pod: `admitted`, or the code of the refusal."""
    (note,) = plan(EVERY_POD, world, watching=[pod], **more).plan.notes
    return note.code


def faults(plugin: Plugin, **more: Any) -> list[str]:
    """The places below `args` that are complained about, in order; none when all is well."""
    try:
        plan(plugin, cluster(node("n1"), node("n2")), **more)
    except PolicyError as error:
        return [re.sub(r"^.*?\.args\.?", "", problem.path) for problem in error.problems]
    return []
