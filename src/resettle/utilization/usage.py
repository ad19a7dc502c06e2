"""What nodes and pods use: one interface for requests, the metrics API and Prometheus.

    requests      what pods request; always known, for every pod
    metrics API   cpu and memory that nodes and pods really use
    Prometheus    the result of a query for each node, from 0 to 1; nothing about single pods

Balancing plugins ask a `Usage` and need not know which it is. For a figure that is missing, old or
impossible the node has a `UsageProblem`, and no pods are moved off it or to it. Policies in the
format of kubernetes-sigs/descheduler (upstream) are stricter: one problem stops the plugin.
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
from resettle.utilization.bands import Shares, node_capacity, shares

BASIC = ("cpu", "memory", "pods")


class UsageMissingError(ResettleError):
    """The figures a plugin needs are missing, so it moves nothing."""


class UsageProblem(Struct, frozen=True):
    """Why a figure cannot be used: a code, and words to follow the name of its node or pod."""

    code: str
    says: str


class Usage(Protocol):
    """A source of figures, in nano units."""

    @property
    def knows_pods(self) -> bool:
        """Whether it knows what a single pod uses."""

    def tracked_resources(self, thresholds: Iterable[str]) -> list[str]:
        """The resources whose use is tracked, given those that have thresholds."""

    def capacity(self, node: Node) -> Mapping[str, int]:
        """What the node's use is measured against."""

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What the node uses of each resource; `pods` is their number."""

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod uses, or None where that is not known."""

    def problem(self, node: Node) -> UsageProblem | None:
        """Why the node's figures cannot be used; None if they can."""

    def pod_problem(self, pod: Pod) -> UsageProblem | None:
        """Why the pod's figures cannot be used; None if they can, or if pods are not measured."""

    def measured_at(self, node: Node) -> datetime:
        """When the node's figures were taken; only defined where `problem` is None."""

    def display_name(self, resource: str) -> str:
        """The name of a resource, to follow a percentage."""


class RequestedUsage:
    """Usage as pods request it, not as they really use it."""

    knows_pods = True

    def __init__(self, view: View) -> None:
        self._view = view

    def tracked_resources(self, thresholds: Iterable[str]) -> list[str]:
        """Resources with thresholds, and cpu, memory and pods."""
        return list(dict.fromkeys((*thresholds, *BASIC)))

    def capacity(self, node: Node) -> Mapping[str, int]:
        """What the node can allocate."""
        return node_capacity(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What the node's pods request."""
        return self._view.requests_on(node)

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod requests."""
        return pod.spec.requests

    def problem(self, node: Node) -> UsageProblem | None:
        """None: requests are always known."""
        return None

    def pod_problem(self, pod: Pod) -> UsageProblem | None:
        """None: requests are always known."""
        return None

    def measured_at(self, node: Node) -> datetime:
        """The time of the snapshot."""
        return self._view.taken_at

    def display_name(self, resource: str) -> str:
        """The resource's own name."""
        return resource


# -- over many nodes ------------------------------------------------------------------------------


def node_shares(
    usage: Usage, nodes: Iterable[Node], resources: Iterable[str], view: View
) -> dict[Node, Shares]:
    """The shares of all nodes whose figures can be used; an error where too few can.

    Policies in upstream's format need the figures of all nodes, `resettle/v1` of more than half.
    """
    names, all_nodes = list(resources), list(nodes)
    problems = {node: problem for node in all_nodes if (problem := usage.problem(node))}
    few = len(problems) * 2 >= len(all_nodes) > 0
    if problems and (few or view.semantics.figures_judged_together):
        node, problem = next(iter(problems.items()))
        others = len(problems) - 1
        more = f", and {others} more of {len(all_nodes)} nodes have none either" if others else ""
        raise UsageMissingError(
            f"{node.name} {problem.says}{more}; nothing is moved without figures"
        )
    return {
        node: shares(usage.of_node(node), usage.capacity(node), names)
        for node in all_nodes
        if node not in problems
    }


def format_age(age: timedelta) -> str:
    """A length of time as people say it: `40 s`, `12 min`, `3 h`."""
    seconds = abs(age.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def age_problem(age: timedelta, limit: timedelta) -> UsageProblem | None:
    """The problem of a figure that is too old or from the future; None for any other age."""
    if age > limit:
        return UsageProblem("usage-stale", f"has a figure that is {format_age(age)} old")
    if age < -limit:
        return UsageProblem(
            "usage-stale", f"has a figure from {format_age(age)} ahead of our clock"
        )
    return None
