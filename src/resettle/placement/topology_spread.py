"""Topology spread as the scheduler reads it, and what a move does to the spread of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from resettle.model.constraints import SpreadConstraint
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.selectors import NOTHING, Requirement, Selector
from resettle.placement.pod_locations import Domains, Residents

HARD = "DoNotSchedule"


class Rule(Struct, frozen=True, eq=False):
    """A constraint as pods of some template state it, over the domains that count for them.

    Equal rules are one object.
    """

    namespace: str
    selector: Selector
    topology_key: str
    among: NodeSet
    max_skew: int
    min_domains: int
    hard: bool


class Evenness:
    """The spread rules of a cluster, and how pods lie by them."""

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._known: dict[tuple[Any, ...], Rule] = {}
        self._domains: dict[Rule, Domains] = {}
        self._rules: dict[tuple[Template, str], tuple[Rule, ...]] = {}
        self._stated: dict[str, tuple[Rule, ...]] = {}
        self._about: dict[Template, tuple[Rule, ...]] = {}

    def allowed(self, pod: Pod) -> NodeSet:
        """Nodes where every hard constraint of the pod would let it in."""
        nodes = self._residents.fleet.everyone
        for rule in self.stated_by(pod):
            if rule.hard:
                nodes &= self.open_under(rule, pod)
        return nodes

    def open_under(self, rule: Rule, pod: Pod) -> NodeSet:
        """Nodes where one constraint would let the pod in, once it has left its own."""
        domains, home = self.domains(rule), self._residents.home(pod)
        itself = self.counts(rule, pod.template)
        here = domains.counted_at(home) if itself and self._residents.staying(pod) else None
        least = domains.least
        if here is not None:
            least = min(least, here - 1)
        if domains.number < rule.min_domains:
            least = 0
        if not domains.number:
            return domains.having
        most = rule.max_skew + least - itself
        nodes = domains.up_to(most)
        if here is not None and here - 1 <= most:
            nodes |= domains.around(home)
        if most >= 0:
            nodes |= domains.having & ~domains.counted
        return nodes

    def sparing(self, pod: Pod) -> NodeSet:
        """Nodes where no hard constraint that holds today would be broken by the pod's move."""
        nodes = self._residents.fleet.everyone
        for rule in self.about(pod.template):
            nodes &= self._keeping(rule, pod)
        return nodes

    def skew(self, rule: Rule) -> int:
        """How far apart the largest domain and the smallest are."""
        domains = self.domains(rule)
        if not domains.number:
            return 0
        return domains.most - self.floor(rule)

    def floor(self, rule: Rule) -> int:
        """What the smallest domain has; nothing while there are too few domains."""
        domains = self.domains(rule)
        return 0 if domains.number < rule.min_domains else domains.least

    def domains(self, rule: Rule) -> Domains:
        """The pods that the rule counts, by domain."""
        domains = self._domains.get(rule)
        if domains is None:
            tally = self._residents.selected(
                frozenset((rule.namespace,)), rule.selector, staying_only=True
            )
            domains = self._domains[rule] = tally.over(rule.topology_key, rule.among)
        return domains

    def counts(self, rule: Rule, template: Template) -> bool:
        """Whether pods of the template are among those the rule counts."""
        return template.namespace == rule.namespace and rule.selector.matches(template.labels)

    def stated_by(self, pod: Pod) -> tuple[Rule, ...]:
        """The constraints that the pod itself states."""
        if not pod.template.spec.spread:
            return ()
        return self._rules_of(pod.template, pod.node)

    def rules_of(self, template: Template) -> tuple[Rule, ...]:
        """The constraints that pods of the template state, wherever they are."""
        return self._rules_of(template, "") if template.spec.spread else ()

    def about(self, template: Template) -> tuple[Rule, ...]:
        """Hard constraints, whoever states them, that count pods of the template."""
        rules = self._about.get(template)
        if rules is None:
            stated = self._stated_in(template.namespace)
            rules = self._about[template] = tuple(
                rule for rule in stated if rule.selector.matches(template.labels)
            )
        return rules

    def _stated_in(self, namespace: str) -> tuple[Rule, ...]:
        rules = self._stated.get(namespace)
        if rules is None:
            population = self._residents.population
            rules = self._stated[namespace] = tuple(
                dict.fromkeys(
                    rule
                    for template in population.namespaces.get(namespace, ())
                    if template.spec.spread
                    for node in self._homes(template)
                    for rule in self._rules_of(template, node)
                    if rule.hard
                )
            )
        return rules

    def _homes(self, template: Template) -> Iterable[str]:
        """Nodes whose pods may each state rules of their own; one will do for all the others."""
        residents = self._residents
        staying = filter(residents.staying, residents.population.active_of(template))
        nodes = dict.fromkeys(pod.node for pod in staying)
        return nodes if template.spec.pinned else list(nodes)[:1]

    def _rules_of(self, template: Template, node: str) -> tuple[Rule, ...]:
        key = (template, node if template.spec.pinned else "")
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = tuple(self._read(template, node))
        return rules

    def _read(self, template: Template, node: str) -> Iterator[Rule]:
        fleet, spread = self._residents.fleet, template.spec.spread
        everywhere = fleet.everyone
        for constraint in spread:
            if constraint.when_unsatisfiable == HARD:
                everywhere &= fleet.having(constraint.topology_key)
        for constraint in spread:
            hard = constraint.when_unsatisfiable == HARD
            among = everywhere if hard else fleet.having(constraint.topology_key)
            if constraint.node_affinity_policy == "Honor":
                among &= fleet.welcoming(template.spec.demand, node)
            if constraint.node_taints_policy == "Honor":
                among &= fleet.tolerated_by(template.spec.demand.tolerations)
            parts = (
                template.namespace,
                _selector(constraint, template),
                constraint.topology_key,
                among,
                constraint.max_skew,
                constraint.min_domains if hard else 1,
                hard,
            )
            yield self._known.setdefault(parts, Rule(*parts))

    def _keeping(self, rule: Rule, pod: Pod) -> NodeSet:
        """Nodes where the rule would still hold with the pod moved there, if it holds now."""
        everyone = self._residents.fleet.everyone
        domains, home = self.domains(rule), self._residents.home(pod)
        if self.skew(rule) > rule.max_skew or not domains.number:
            return everyone
        here, floor, most = domains.counted_at(home), self.floor(rule), domains.most
        back = 0
        if here is not None:
            back = domains.around(home) & rule.among
            floor = min(floor, here - 1) if domains.number >= rule.min_domains else 0
            if here == most and not domains.exactly(most) & ~domains.around(home):
                most = max((level for level in domains.levels if level < here), default=0)
                most = max(most, here - 1)
        if most - floor > rule.max_skew:
            return back
        inside = domains.up_to(floor + rule.max_skew - 1) & rule.among
        return back | inside | everyone & ~rule.among


def _selector(constraint: SpreadConstraint, template: Template) -> Selector:
    labels = template.labels
    same = tuple(
        Requirement(key, "In", (labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    selector = (constraint.selector or NOTHING).also(same)
    # The scheduler counts nobody where nothing is asked of labels, not everybody.
    return selector if selector.requirements else NOTHING
