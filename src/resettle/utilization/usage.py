"""What nodes and pods use, whoever measures it.

    requests      what pods ask for; always known, and known for every pod
    metrics API   what nodes and pods really use of cpu and memory
    Prometheus    whatever a query says of nodes, from 0 to 1; it cannot tell pods apart

Balancing plugins ask a `Usage` and need not know which. A figure that is missing, old or impossible
is no figure: the node then has a `Doubt` in its place, and nothing is taken from it or brought to
it. Policies of the descheduler are stricter still: there one doubt is enough to do nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from resettle.errors import ResettleError
from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.utilization.bands import Shares, offered, shares

BASIC = ("cpu", "memory", "pods")


class UsageMissingError(ResettleError):
    """The figures a plugin is to decide on are not there; it then decides nothing."""


class Doubt(Struct, frozen=True):
    """Why a figure cannot be gone by: a code, and words to follow the name of its node or pod."""

    code: str
    says: str


class Usage(Protocol):
    """A source of figures, in nano units."""

    @property
    def blind(self) -> bool:
        """Whether it cannot say what a single pod uses."""

    def followed(self, thresholds: Iterable[str]) -> list[str]:
        """The resources whose use is followed, given those that have thresholds."""

    def offer(self, node: Node) -> Mapping[str, int]:
        """What the node's use is measured against."""

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What the node uses of each resource; `pods` is their number."""

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod uses, or None where that is not known."""

    def doubt(self, node: Node) -> Doubt | None:
        """Why the node's figures cannot be gone by, if they cannot."""

    def pod_doubt(self, pod: Pod) -> Doubt | None:
        """The same of a pod; a source that is blind doubts none."""

    def taken(self, node: Node) -> datetime:
        """When the node's figures were taken; to be asked only where there is no doubt."""

    def named(self, resource: str) -> str:
        """A resource in words to follow a percentage."""


class Requests:
    """Usage as pods request it, whatever they really use."""

    blind = False

    def __init__(self, view: View) -> None:
        self._view = view

    def followed(self, thresholds: Iterable[str]) -> list[str]:
        """Those with thresholds, and the basic ones."""
        return list(dict.fromkeys((*thresholds, *BASIC)))

    def offer(self, node: Node) -> Mapping[str, int]:
        """What it can allocate."""
        return offered(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What its pods request."""
        return self._view.requested(node)

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What it requests."""
        return pod.spec.requests

    def doubt(self, node: Node) -> Doubt | None:
        """None: requests are what they are."""
        return None

    def pod_doubt(self, pod: Pod) -> Doubt | None:
        """None either."""
        return None

    def taken(self, node: Node) -> datetime:
        """Now."""
        return self._view.taken_at

    def named(self, resource: str) -> str:
        """Just so."""
        return resource


# -- over many nodes ------------------------------------------------------------------------------


def measured(
    usage: Usage, nodes: Iterable[Node], resources: Iterable[str], view: View
) -> dict[Node, Shares]:
    """The shares of all nodes whose figures can be gone by; an error where too few can.

    Policies of the descheduler need all of them, `resettle/v1` more than half: what most nodes do
    not tell, the others cannot make up for.
    """
    wanted, everyone = list(resources), list(nodes)
    doubts = {node: doubt for node in everyone if (doubt := usage.doubt(node))}
    few = len(doubts) * 2 >= len(everyone) > 0
    if doubts and (few or view.semantics.figures_judged_together):
        node, doubt = next(iter(doubts.items()))
        others = len(doubts) - 1
        more = f", and {others} more of {len(everyone)} nodes have none either" if others else ""
        raise UsageMissingError(f"{node.name} {doubt.says}{more}; nothing is moved without figures")
    return {
        node: shares(usage.of_node(node), usage.offer(node), wanted)
        for node in everyone
        if node not in doubts
    }


def in_words(age: timedelta) -> str:
    """A length of time as people say it: `40 s`, `12 min`, `3 h`."""
    seconds = abs(age.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def aged(age: timedelta, limit: timedelta) -> Doubt | None:
    """The doubt about a figure of this age, be it too old or from the future."""
    if age > limit:
        return Doubt("usage-stale", f"has a figure that is {in_words(age)} old")
    if age < -limit:
        return Doubt("usage-stale", f"has a figure from {in_words(age)} ahead of our clock")
    return None
