"""Relieving hot nodes with few moves: of equally important pods, the best fit for the excess goes.

A pod that just covers what a node uses above its threshold scores 2; larger ones fall towards 1,
since they move more than is needed, and smaller ones stay below 1. Less important pods go first in
any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit, Stopped
from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.pod import Pod, by_name_hash, by_priority
from resettle.plugins._common import LIMIT_REACHED
from resettle.plugins.low_node_load.args import NodePool
from resettle.plugins.node_utilization.improved import Destinations
from resettle.plugins.node_utilization.upstream import NO_ROOM, Balance, SourceNode
from resettle.plugins.sorters import deletion_cost
from resettle.utilization.bands import Bands
from resettle.utilization.history import InFlight
from resettle.utilization.usage import Usage

Cost = Mapping[str, int]


class HotNodeReliever:
    """Moves pods from the hot nodes of one pool to its idle nodes."""

    def __init__(
        self,
        pool: NodePool,
        bands: Bands,
        usage: Usage,
        view: View,
        draft: Draft,
        *,
        concerns: Callable[[Pod], bool],
        node_fit: bool,
    ) -> None:
        self._pool = pool
        self._bands = bands
        self._usage = usage
        self._view = view
        self._draft = draft
        self._concerns = concerns
        self._node_fit = node_fit
        self._balance = Balance(
            usage,
            pool.low_thresholds,
            bands.high,
            bands.under,
            tolerations_counted=draft.semantics.tolerations_counted,
        )
        self._destinations = Destinations(bands.under, self._balance, view)
        self.moved: list[InFlight] = []

    def relieve(self, hot: Iterable[Node]) -> Stopped | None:
        """Move pods off the busiest nodes first, as long as the idle ones have room."""
        for node in sorted(hot, key=lambda node: (-self._weighted_load(node), node.name)):
            if not self._balance.has_room:
                return NO_ROOM
            if self._relieve(SourceNode(node, self._balance)):
                return LIMIT_REACHED
        return None

    def _weighted_load(self, node: Node) -> float:
        """How busy a node is, all resources with their weights."""
        shares = self._bands.measured[node]
        weights = {name: self._pool.weight(name) for name in shares}
        total = sum(weights.values())
        return sum(shares[name] * weights[name] for name in shares) / total if total else 0.0

    def _relieve(self, source: SourceNode) -> bool:
        """Move pods off one node; True if the cycle takes no more moves."""
        waiting = self._waiting(source)
        while waiting and source.is_over and self._balance.has_room:
            pod = self._best(source, waiting)
            cost = waiting.pop(pod)
            if self._usage.knows_pods and not _score(cost, source.excess, self._pool.weight):
                says = f"uses none of the resources that {source.node.name} is short of"
                self._draft.note(pod, "no-relief", says)
                continue
            onto = self._destinations.with_room_for(cost) if self._node_fit else None
            verdict = self._draft.propose(pod, because=self._why(source), onto=onto)
            if verdict.limit is Limit.TOTAL:
                return True
            if verdict.limit in (Limit.NODE, Limit.NODES):
                return False
            if verdict.is_leaving:
                target = self._view.projection.pod_locations.current_node(pod)
                source.without(cost)
                if target != source.node.name:
                    self._destinations.take(target, cost)
                if verdict.admitted:
                    self._remember(pod, cost, target)
                if not self._usage.knows_pods:
                    return False
        return False

    def _why(self, source: SourceNode) -> str:
        return f"{source.node.name} is at {source.above(self._bands.high)}"

    def _waiting(self, source: SourceNode) -> dict[Pod, Cost]:
        """The pods that could be moved off a node, and what each uses."""
        waiting: dict[Pod, Cost] = {}
        for pod in self._view.active_on(source.node):
            if not self._concerns(pod) or self._draft.is_terminating(pod):
                continue
            cost = self._balance.cost(pod)
            if cost is not None or not self._usage.knows_pods:
                waiting[pod] = cost or {}
            elif problem := self._usage.pod_problem(pod):
                self._draft.note(pod, "usage-unknown", problem.says)
        return waiting

    def _best(self, source: SourceNode, waiting: Mapping[Pod, Cost]) -> Pod:
        excess = source.excess

        def key(pod: Pod) -> Any:
            fit = _score(waiting[pod], excess, self._pool.weight)
            age = pod.age(self._view.taken_at)
            return (
                *by_priority(pod),
                deletion_cost(pod),
                -fit,
                age,
                by_name_hash(pod),
            )

        return self._draft.sort(self._draft.presort(waiting), key)[0]

    def _remember(self, pod: Pod, cost: Cost, target: str) -> None:
        rest: timedelta = self._pool.condition.rest
        self.moved.append(
            InFlight(
                pod=pod.key,
                uid=pod.uid,
                source=pod.node,
                target="" if target == pod.node else target,
                cost=dict(cost),
                until=self._view.taken_at + rest,
            )
        )


def _score(cost: Cost, excess: Mapping[str, int], weight: Callable[[str], float]) -> float:
    """How well a pod fits what is used above the thresholds."""
    total = score = 0.0
    for name, amount in excess.items():
        ratio = cost.get(name, 0) / amount
        total += weight(name)
        score += weight(name) * (ratio if ratio < 1 else 1 + 1 / ratio)
    return score / total if total else 0.0
