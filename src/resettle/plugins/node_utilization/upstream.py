"""What LowNodeUtilization and HighNodeUtilization share: moving pods from sources to destinations.

Follows upstream's evictPodsFromSourceNodes: sources are taken one after the other while the
destinations together still have room; the usage of each admitted pod is subtracted from its node
and from that room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit, Stopped
from resettle.framework.view import View
from resettle.model.constraints import Toleration
from resettle.model.objects import Node
from resettle.model.pod import Pod, Spec, by_priority
from resettle.model.resources import NANO, in_resource_unit
from resettle.plugins._common import LIMIT_REACHED
from resettle.policy.args import Namespaces
from resettle.policy.problems import Problem
from resettle.utilization.bands import allowance
from resettle.utilization.usage import Usage


def threshold_problems(thresholds: Mapping[str, float], key: str) -> Iterator[Problem]:
    """Problems of missing thresholds and of each that is not a percentage."""
    if not thresholds:
        yield Problem(
            what=f"`{key}` is missing or empty",
            fix="write a percentage for at least one resource, for instance `cpu: 20`",
            at=(key,),
        )
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            yield Problem(
                what=f"{percent:g} is not a percentage",
                fix="write a number from 0 to 100",
                at=(key, name),
            )


class EvictableNamespaces(Namespaces, frozen=True, kw_only=True):
    """Namespaces whose pods stay."""

    include: tuple[str, ...] = ()
    """Accepted only for a better error: just `exclude` is possible here."""
    exclude: tuple[str, ...] = ()
    """Pods of these namespaces count as load but are not proposed."""


def exclude_only(namespaces: Namespaces | None) -> Iterator[Problem]:
    """The problem of `include`, which these plugins do not support."""
    if namespaces is not None and namespaces.include:
        yield Problem(
            what="`include` is not possible here",
            fix="list the namespaces to leave out under `exclude`",
            at=("evictableNamespaces", "include"),
        )


class Balance:
    """The state of one plugin run: what sources use, and what destinations can still take."""

    def __init__(
        self,
        usage: Usage,
        thresholds: Iterable[str],
        limits: Mapping[str, float],
        destinations: list[Node],
        *,
        tolerations_counted: bool,
    ) -> None:
        self.usage = usage
        self._tolerations_counted = tolerations_counted
        self.resources = usage.tracked_resources(thresholds)
        self._limits = limits
        self._taints = {node.taints for node in destinations}
        self._tolerated: dict[tuple[Toleration, ...], bool] = {}
        self.room = {
            name: sum(self.limit(node, name) - self.usage_of(node, name) for node in destinations)
            for name in self.resources
        }

    def usage_of(self, node: Node, name: str) -> int:
        """What the node uses of a resource before any move."""
        return self.usage.of_node(node).get(name, 0)

    def limit(self, node: Node, name: str) -> int:
        """What the node may use of a resource."""
        return allowance(name, self.usage.capacity(node), self._limits)

    def total_usage(self, node: Node) -> int:
        """The figure nodes are ordered by: all that is used, each resource in its own unit."""
        return sum(in_resource_unit(name, self.usage_of(node, name)) for name in self.resources)

    @property
    def has_room(self) -> bool:
        """Whether the destinations have something left of every resource."""
        return min(self.room.values(), default=1) > 0

    def tolerates_some_destination(self, spec: Spec) -> bool:
        """Whether the tolerations match the taints of some destination.

        As upstream counts, all taints must be tolerated, PreferNoSchedule too, by at least as
        many tolerations.
        """
        known = self._tolerated.get(spec.tolerations)
        if known is None:
            known = self._tolerated[spec.tolerations] = any(
                len(spec.tolerations) >= len(taints) and all(map(spec.tolerates, taints))
                if self._tolerations_counted
                else all(spec.tolerates(taint) for taint in taints if taint.hard)
                for taints in self._taints
            )
        return known

    def cost(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod's leaving frees, or None where its usage is unknown."""
        amounts = self.usage.of_pod(pod)
        if amounts is None:
            return None
        cost = {name: amounts.get(name, 0) for name in self.resources}
        if "pods" in cost:
            cost["pods"] = NANO
        return cost


class SourceNode:
    """A node that load is moved away from."""

    def __init__(self, node: Node, balance: Balance) -> None:
        self.node = node
        self._balance = balance
        self._used = {name: balance.usage_of(node, name) for name in balance.resources}
        self._allowed = {name: balance.limit(node, name) for name in balance.resources}
        self._why = ""
        self._figures = ""

    def without(self, cost: Mapping[str, int]) -> None:
        """Subtract a leaving pod's usage from the node and from the room of the destinations."""
        room = self._balance.room
        for name, amount in cost.items():
            self._used[name] -= amount
            room[name] -= amount
        self._why = ""

    def above(self, limits: Mapping[str, float]) -> str:
        """Which resources are used beyond their limits, and by how much, as things stand now."""
        if not self._why:
            usage = self._balance.usage
            capacity = usage.capacity(self.node)
            parts = [
                f"{used / capacity[name]:.0%} {usage.display_name(name)}"
                f" (target {limits[name]:.0f}%)"
                for name, used in self._used.items()
                if used > self._allowed[name] and name in limits and capacity.get(name)
            ]
            self._why = ", ".join(parts) or "more than its capacity"
        return self._why

    def figures(self, limits: Mapping[str, float]) -> str:
        """What was used before any move of each resource that has a threshold, in percent."""
        if not self._figures:
            usage = self._balance.usage
            capacity = usage.capacity(self.node)
            parts = (
                f"{self._used[name] / capacity[name]:.0%} {usage.display_name(name)}"
                f" (threshold {limit:.0f}%)"
                for name, limit in limits.items()
                if name in self._used and capacity.get(name)
            )
            self._figures = ", ".join(parts) or "nothing that was measured"
        return self._figures

    @property
    def is_over(self) -> bool:
        """Whether some resource is used beyond what the limits allow."""
        allowed = self._allowed
        return any(used > allowed[name] for name, used in self._used.items())

    @property
    def excess(self) -> dict[str, int]:
        """How much is used beyond what the limits allow, of each resource that is."""
        over = {name: used - self._allowed[name] for name, used in self._used.items()}
        return {name: amount for name, amount in over.items() if amount > 0}

    def usage_copy(self) -> ProjectedUsage:
        """A copy of what the node uses now, to try moves on."""
        return ProjectedUsage(dict(self._used), self._allowed)


class ProjectedUsage:
    """What a node would use if some pods left it."""

    def __init__(self, used: dict[str, int], allowed: Mapping[str, int]) -> None:
        self._used = used
        self._allowed = allowed

    @property
    def is_over(self) -> bool:
        """Whether some resource would be used beyond what is allowed."""
        return any(used > self._allowed[name] for name, used in self._used.items())

    def is_relieved_by(self, cost: Mapping[str, int]) -> bool:
        """Whether a pod uses some of what is used beyond what is allowed."""
        return any(
            amount > 0 and self._used[name] > self._allowed[name] for name, amount in cost.items()
        )

    def shift(self, cost: Mapping[str, int], by: int) -> None:
        """Let a pod leave (-1) or come back (1)."""
        for name, amount in cost.items():
            self._used[name] += by * amount


def move_load(
    sources: Iterable[SourceNode],
    balance: Balance,
    view: View,
    draft: Draft,
    *,
    keep_going: Callable[[SourceNode], bool],
    concerns: Callable[[Pod], bool],
    because: Callable[[SourceNode], str],
    per_node: int | None = None,
) -> Stopped | None:
    """Propose pods of each source, least important first, as long as that helps."""
    for source in sources:
        pods = [pod for pod in view.active_on(source.node) if concerns(pod)]
        if not keep_going(source):
            continue
        moved = 0
        for pod in draft.sort(draft.presort(pods), by_priority):
            if per_node is not None and moved >= per_node:
                break
            if not balance.tolerates_some_destination(pod.spec):
                draft.note(pod, "taints", "does not tolerate the taints of any node that has room")
                continue
            if problem := balance.usage.pod_problem(pod):
                draft.note(pod, "usage-unknown", problem.says)
                continue
            verdict = draft.propose(pod, because=because(source))
            if not verdict.is_leaving:
                if verdict.limit is Limit.TOTAL:
                    return LIMIT_REACHED
                if verdict.limit in (Limit.NODE, Limit.NODES):
                    break
                continue
            cost = balance.cost(pod)
            if cost is None and per_node is None:
                break
            moved += 1
            if cost is not None:
                source.without(cost)
                if not keep_going(source):
                    break
    return None if balance.has_room else NO_ROOM


NO_ROOM = Stopped("no-room", "the nodes that should take pods have no room left")
NO_UNDERUTILIZED = Stopped("none-underutilized", "no node is underutilized")
NO_DESTINATION = Stopped("no-destination", "no node that is not underutilized takes pods")
NONE_OVER = Stopped("none-overutilized", "no node is overutilized")
ALL_UNDER = Stopped("all-underutilized", "every node is underutilized")


def too_few_under(count: int, wanted: int) -> Stopped:
    """Fewer underutilized nodes than `numberOfNodes` asks for."""
    return Stopped(
        "too-few-underutilized",
        f"{count} underutilized nodes are no more than `numberOfNodes` ({wanted})",
    )
