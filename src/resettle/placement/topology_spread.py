"""Topology spread as kube-scheduler's PodTopologySpread filter reads it.

It also says where a pod can move without breaking the constraints of other pods, which the
scheduler does not ask: it counts pods when it places one, not when one leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from resettle.model.constraints import SpreadConstraint
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.selectors import NOTHING, Requirement, Selector
from resettle.placement.pod_locations import PodLocations, PodsPerDomain

HARD = "DoNotSchedule"


class SpreadRule(Struct, frozen=True, eq=False):
    """A spread constraint resolved for pods of a template, over the nodes that count for them.

    Equal rules are one object.
    """

    namespace: str
    selector: Selector
    topology_key: str
    among: NodeSet
    max_skew: int
    min_domains: int
    hard: bool


class TopologySpread:
    """The spread rules of a cluster, and the number of pods in their domains."""

    def __init__(self, pod_locations: PodLocations) -> None:
        self._pod_locations = pod_locations
        self._known: dict[tuple[Any, ...], SpreadRule] = {}
        self._domains: dict[SpreadRule, PodsPerDomain] = {}
        self._rules: dict[tuple[Template, str], tuple[SpreadRule, ...]] = {}
        self._hard_rules: dict[str, tuple[SpreadRule, ...]] = {}
        self._rules_about: dict[Template, tuple[SpreadRule, ...]] = {}

    def feasible_nodes(self, pod: Pod) -> NodeSet:
        """Nodes that every hard constraint of the pod allows."""
        nodes = self._pod_locations.node_index.all_nodes
        for rule in self.rules_of_pod(pod):
            if rule.hard:
                nodes &= self.nodes_allowed_by(rule, pod)
        return nodes

    def nodes_allowed_by(self, rule: SpreadRule, pod: Pod) -> NodeSet:
        """Nodes that one constraint allows, once the pod has left its current node."""
        domains, current = self.domains(rule), self._pod_locations.current_node(pod)
        counts_itself = self.counts(rule, pod.template)
        here = (
            domains.count_at(current)
            if counts_itself and self._pod_locations.is_staying(pod)
            else None
        )
        least = domains.smallest
        if here is not None:
            least = min(least, here - 1)
        if domains.number < rule.min_domains:
            least = 0
        if not domains.number:
            return domains.nodes_with_label
        most = rule.max_skew + least - counts_itself
        nodes = domains.nodes_with_at_most(most)
        if here is not None and here - 1 <= most:
            nodes |= domains.domain_of(current)
        if most >= 0:
            nodes |= domains.nodes_with_label & ~domains.counted_nodes
        return nodes

    def harmless_nodes(self, pod: Pod) -> NodeSet:
        """Nodes that the pod can move to without breaking a hard constraint that holds now."""
        nodes = self._pod_locations.node_index.all_nodes
        for rule in self.rules_about(pod.template):
            nodes &= self._nodes_keeping(rule, pod)
        return nodes

    def skew(self, rule: SpreadRule) -> int:
        """The difference between the largest domain and the smallest."""
        domains = self.domains(rule)
        if not domains.number:
            return 0
        return domains.largest - self.smallest_count(rule)

    def smallest_count(self, rule: SpreadRule) -> int:
        """The count of the smallest domain; 0 while there are fewer than `minDomains`."""
        domains = self.domains(rule)
        return 0 if domains.number < rule.min_domains else domains.smallest

    def domains(self, rule: SpreadRule) -> PodsPerDomain:
        """The pods that the rule counts, by domain."""
        domains = self._domains.get(rule)
        if domains is None:
            counts = self._pod_locations.selected_by(
                frozenset((rule.namespace,)), rule.selector, staying_only=True
            )
            domains = self._domains[rule] = counts.per_domain(rule.topology_key, rule.among)
        return domains

    def counts(self, rule: SpreadRule, template: Template) -> bool:
        """Whether pods of the template are among those the rule counts."""
        return template.namespace == rule.namespace and rule.selector.matches(template.labels)

    def rules_of_pod(self, pod: Pod) -> tuple[SpreadRule, ...]:
        """The pod's own constraints."""
        if not pod.template.spec.spread:
            return ()
        return self._rules_of(pod.template, pod.node)

    def rules_of_template(self, template: Template) -> tuple[SpreadRule, ...]:
        """The constraints of pods of the template, on whichever node they are."""
        return self._rules_of(template, "") if template.spec.spread else ()

    def rules_about(self, template: Template) -> tuple[SpreadRule, ...]:
        """Hard constraints of any pod that count pods of the template."""
        rules = self._rules_about.get(template)
        if rules is None:
            rules_there = self._hard_rules_in(template.namespace)
            rules = self._rules_about[template] = tuple(
                rule for rule in rules_there if rule.selector.matches(template.labels)
            )
        return rules

    def _hard_rules_in(self, namespace: str) -> tuple[SpreadRule, ...]:
        rules = self._hard_rules.get(namespace)
        if rules is None:
            pod_index = self._pod_locations.pod_index
            rules = self._hard_rules[namespace] = tuple(
                dict.fromkeys(
                    rule
                    for template in pod_index.namespaces.get(namespace, ())
                    if template.spec.spread
                    for node in self._nodes_with_rules(template)
                    for rule in self._rules_of(template, node)
                    if rule.hard
                )
            )
        return rules

    def _nodes_with_rules(self, template: Template) -> Iterable[str]:
        """Nodes of pods whose rules may differ; one node is enough unless pods name their node."""
        pod_locations = self._pod_locations
        staying = filter(pod_locations.is_staying, pod_locations.pod_index.active_of(template))
        nodes = dict.fromkeys(pod.node for pod in staying)
        return nodes if template.spec.pinned else list(nodes)[:1]

    def _rules_of(self, template: Template, node: str) -> tuple[SpreadRule, ...]:
        key = (template, node if template.spec.pinned else "")
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = tuple(self._resolve(template, node))
        return rules

    def _resolve(self, template: Template, node: str) -> Iterator[SpreadRule]:
        node_index, spread = self._pod_locations.node_index, template.spec.spread
        everywhere = node_index.all_nodes
        for constraint in spread:
            if constraint.when_unsatisfiable == HARD:
                everywhere &= node_index.with_label(constraint.topology_key)
        for constraint in spread:
            hard = constraint.when_unsatisfiable == HARD
            among = everywhere if hard else node_index.with_label(constraint.topology_key)
            if constraint.node_affinity_policy == "Honor":
                among &= node_index.matching_node_affinity(template.spec.demand, node)
            if constraint.node_taints_policy == "Honor":
                among &= node_index.tolerated_by(template.spec.demand.tolerations)
            parts = (
                template.namespace,
                _selector(constraint, template),
                constraint.topology_key,
                among,
                constraint.max_skew,
                constraint.min_domains if hard else 1,
                hard,
            )
            yield self._known.setdefault(parts, SpreadRule(*parts))

    def _nodes_keeping(self, rule: SpreadRule, pod: Pod) -> NodeSet:
        """Nodes where the rule still holds after the pod moves there, if it holds now."""
        all_nodes = self._pod_locations.node_index.all_nodes
        domains, current = self.domains(rule), self._pod_locations.current_node(pod)
        if self.skew(rule) > rule.max_skew or not domains.number:
            return all_nodes
        here, smallest, most = domains.count_at(current), self.smallest_count(rule), domains.largest
        back = 0
        if here is not None:
            back = domains.domain_of(current) & rule.among
            smallest = min(smallest, here - 1) if domains.number >= rule.min_domains else 0
            if here == most and not domains.nodes_with_exactly(most) & ~domains.domain_of(current):
                most = max((level for level in domains.distinct_counts if level < here), default=0)
                most = max(most, here - 1)
        if most - smallest > rule.max_skew:
            return back
        inside = domains.nodes_with_at_most(smallest + rule.max_skew - 1) & rule.among
        return back | inside | all_nodes & ~rule.among


def _selector(constraint: SpreadConstraint, template: Template) -> Selector:
    labels = template.labels
    same = tuple(
        Requirement(key, "In", (labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    selector = (constraint.selector or NOTHING).narrow(same)
    # For the scheduler a selector without requirements counts no pods, not all pods.
    return selector if selector.requirements else NOTHING
