"""Topology spread, solved for all constraints of a pod together.

Pods are counted as the scheduler counts them. As long as a constraint is violated, one pod moves
from a domain that has too many to one that has at least two fewer, if no other constraint it states
becomes worse by that. From the largest to the smallest is the least number of moves there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit
from resettle.framework.view import View
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, by_priority
from resettle.placement.pod_locations import Domains
from resettle.placement.topology_spread import Rule
from resettle.policy.args import SelectingArgs

Rules = dict[Rule, list[Pod]]


class Levelling:
    """Evens out one cluster under the rules that count."""

    def __init__(
        self, args: SelectingArgs, actions: tuple[str, ...], view: View, draft: Draft
    ) -> None:
        self._args = args
        self._actions = actions
        self._view = view
        self._draft = draft
        self._evenness = view.projection.evenness
        self._home = view.projection.residents.home
        self._full_nodes: set[str] = set()
        self.limit_reached = False
        self.violated = False
        self.rules: Rules = dict(self._stated())

    def run(self) -> None:
        """Moves pods until no rule is violated, or nothing more can be done about it."""
        moved = True
        while moved and not self.limit_reached:
            moved = False
            for rule, pods in self.rules.items():
                moved = self._level(rule, pods) or moved

    def _stated(self) -> Iterator[tuple[Rule, list[Pod]]]:
        """The rules that count, each with the pods that state it and could help by leaving."""
        population, evenness = self._view.population, self._evenness
        found: Rules = {}
        for space in sorted(population.namespaces):
            templates = population.namespaces[space]
            for template in templates:
                if not template.spec.spread or template.spec.pinned:
                    continue
                pods = self._view.active_of_selected(self._args, template)
                for rule in evenness.rules_of(template):
                    if self._counts(rule) and pods:
                        stating = found.setdefault(rule, [])
                        stating += pods if evenness.counts(rule, template) else ()
        scope = self._view.names_in_scope
        staying = self._view.projection.residents.staying
        for rule, pods in found.items():
            yield rule, [pod for pod in pods if pod.node in scope and staying(pod)]

    def _counts(self, rule: Rule) -> bool:
        return ("DoNotSchedule" if rule.hard else "ScheduleAnyway") in self._actions

    def _level(self, rule: Rule, pods: list[Pod]) -> bool:
        evenness, domains = self._evenness, self._evenness.domains(rule)
        if evenness.skew(rule) <= rule.max_skew:
            return False
        self.violated = True
        waiting = self._waiting(domains, pods)
        moved = False
        while evenness.skew(rule) > rule.max_skew and self._move_one(rule, domains, waiting):
            moved = True
        return moved

    def _waiting(self, domains: Domains, pods: list[Pod]) -> dict[str, list[Pod]]:
        """Pods by domain, the first to go at the end."""
        draft = self._draft
        staying = [pod for pod in pods if not draft.terminating(pod)]
        waiting: dict[str, list[Pod]] = {}
        for pod in reversed(draft.ordered(draft.walked(staying), by_priority)):
            if (value := domains.value_at(self._home(pod))) is not None:
                waiting.setdefault(value, []).append(pod)
        return dict(sorted(waiting.items()))

    def _move_one(self, rule: Rule, domains: Domains, waiting: dict[str, list[Pod]]) -> bool:
        """Moves a pod out of the largest domain that has one to spare."""
        floor = self._evenness.floor(rule)
        for level in domains.levels:
            if level - floor <= rule.max_skew:
                break
            for value, pods in waiting.items():
                if domains.count(value) == level and self._move_from(rule, domains, value, pods):
                    return True
                if self.limit_reached:
                    return False
        return False

    def _move_from(self, rule: Rule, domains: Domains, value: str, pods: list[Pod]) -> bool:
        level, least = domains.count(value), domains.least
        why = f"{value} has {level} of its like, the smallest {rule.topology_key} {least}"
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
            elif not pod.claims and verdict.refusal and verdict.refusal.code in _OF_ITS_KIND:
                # What holds for one holds for all of its make here.
                pods[:] = [other for other in pods if other.template is not pod.template]
        return False

    def _better(self, rule: Rule, domains: Domains, pod: Pod) -> NodeSet:
        """Nodes in smaller domains, where no other rule of the pod fares worse."""
        home = self._home(pod)
        here = domains.counted_at(home) or 0
        nodes = domains.up_to(here - 2)
        for other in self._evenness.stated_by(pod):
            if other == rule or not (other.hard or self._counts(other)):
                continue
            lying = self._evenness.domains(other)
            there = lying.counted_at(home)
            if there is not None and self._evenness.counts(other, pod.template):
                nodes &= lying.up_to(there - 1) | lying.around(home) | ~lying.counted
        return nodes


_OF_ITS_KIND = ("no-node-fits", "no-better-node", "would-break", "would-return", "would-stray")
