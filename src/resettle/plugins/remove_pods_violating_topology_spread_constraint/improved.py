"""Topology spread in `resettle/v1`: all constraints of a pod are balanced together.

Pods are counted as the scheduler's PodTopologySpread counts them. As long as a constraint is
violated, one pod moves from a domain that has too many to one that has at least two fewer, if no
other constraint of the pod becomes more violated. Moving from the largest to the smallest domain
takes the fewest moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit
from resettle.framework.view import View
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, by_priority
from resettle.placement.pod_locations import PodsPerDomain
from resettle.placement.topology_spread import SpreadRule
from resettle.policy.args import SelectingArgs

Rules = dict[SpreadRule, list[Pod]]


class SpreadImprover:
    """Moves pods until the constraints that count hold."""

    def __init__(
        self, args: SelectingArgs, actions: tuple[str, ...], view: View, draft: Draft
    ) -> None:
        self._args = args
        self._actions = actions
        self._view = view
        self._draft = draft
        self._evenness = view.projection.topology_spread
        self._home = view.projection.pod_locations.current_node
        self._full_nodes: set[str] = set()
        self.limit_reached = False
        self.violated = False
        self.rules: Rules = dict(self._rules_with_pods())

    def run(self) -> None:
        """Move pods until no rule is violated, or nothing more can be done about it."""
        moved = True
        while moved and not self.limit_reached:
            moved = False
            for rule, pods in self.rules.items():
                moved = self._balance_rule(rule, pods) or moved

    def _rules_with_pods(self) -> Iterator[tuple[SpreadRule, list[Pod]]]:
        """The rules that count, each with the pods that state it and could help by leaving."""
        pod_index, evenness = self._view.pod_index, self._evenness
        rules: Rules = {}
        for space in sorted(pod_index.namespaces):
            templates = pod_index.namespaces[space]
            for template in templates:
                if not template.spec.spread or template.spec.pinned:
                    continue
                pods = self._view.active_of_selected(self._args, template)
                for rule in evenness.rules_of_template(template):
                    if self._counts(rule) and pods:
                        stating = rules.setdefault(rule, [])
                        stating += pods if evenness.counts(rule, template) else ()
        scope = self._view.names_in_scope
        staying = self._view.projection.pod_locations.is_staying
        for rule, pods in rules.items():
            yield rule, [pod for pod in pods if pod.node in scope and staying(pod)]

    def _counts(self, rule: SpreadRule) -> bool:
        return ("DoNotSchedule" if rule.hard else "ScheduleAnyway") in self._actions

    def _balance_rule(self, rule: SpreadRule, pods: list[Pod]) -> bool:
        evenness, domains = self._evenness, self._evenness.domains(rule)
        if evenness.skew(rule) <= rule.max_skew:
            return False
        self.violated = True
        waiting = self._waiting(domains, pods)
        moved = False
        while evenness.skew(rule) > rule.max_skew and self._move_one(rule, domains, waiting):
            moved = True
        return moved

    def _waiting(self, domains: PodsPerDomain, pods: list[Pod]) -> dict[str, list[Pod]]:
        """Pods by domain, the first to go at the end."""
        draft = self._draft
        staying = [pod for pod in pods if not draft.is_terminating(pod)]
        waiting: dict[str, list[Pod]] = {}
        for pod in reversed(draft.sort(draft.presort(staying), by_priority)):
            if (value := domains.value_at(self._home(pod))) is not None:
                waiting.setdefault(value, []).append(pod)
        return dict(sorted(waiting.items()))

    def _move_one(
        self, rule: SpreadRule, domains: PodsPerDomain, waiting: dict[str, list[Pod]]
    ) -> bool:
        """Move a pod out of the largest domain that has one to spare."""
        floor = self._evenness.smallest_count(rule)
        for level in domains.distinct_counts:
            if level - floor <= rule.max_skew:
                break
            for value, pods in waiting.items():
                if domains.count(value) == level and self._move_from(rule, domains, value, pods):
                    return True
                if self.limit_reached:
                    return False
        return False

    def _move_from(
        self, rule: SpreadRule, domains: PodsPerDomain, value: str, pods: list[Pod]
    ) -> bool:
        level, least = domains.count(value), domains.smallest
        why = (
            f"{rule.topology_key} {value} has {level} matching pods, the emptiest {least}"
            f" (maxSkew {rule.max_skew})"
        )
        while pods:
            pod = pods.pop()
            if pod.node in self._full_nodes:
                continue
            verdict = self._draft.propose(pod, because=why, onto=self._better(rule, domains, pod))
            if verdict.admitted:
                return True
            if verdict.limit is Limit.TOTAL:
                self.limit_reached = True
                return False
            if verdict.limit in (Limit.NODE, Limit.NODES):
                self._full_nodes.add(pod.node)
            elif not pod.claims and verdict.refusal and verdict.refusal.code in _SAME_FOR_TEMPLATE:
                # The refusal holds for all pods of this template here.
                pods[:] = [other for other in pods if other.template is not pod.template]
        return False

    def _better(self, rule: SpreadRule, domains: PodsPerDomain, pod: Pod) -> NodeSet:
        """Nodes in smaller domains, where no other rule of the pod becomes more violated."""
        home = self._home(pod)
        here = domains.count_at(home) or 0
        nodes = domains.nodes_with_at_most(here - 2)
        for other in self._evenness.rules_of_pod(pod):
            if other == rule or not (other.hard or self._counts(other)):
                continue
            other_domains = self._evenness.domains(other)
            there = other_domains.count_at(home)
            if there is not None and self._evenness.counts(other, pod.template):
                nodes &= (
                    other_domains.nodes_with_at_most(there - 1)
                    | other_domains.domain_of(home)
                    | ~other_domains.counted_nodes
                )
        return nodes


_SAME_FOR_TEMPLATE = (
    "no-node-fits",
    "no-better-node",
    "would-break",
    "would-return",
    "would-stray",
)
