"""Pod affinity and anti-affinity as kube-scheduler's InterPodAffinity filter reads them.

Anti-affinity works both ways: a node is ruled out by the terms of the pod itself and by the terms
of pods that already run in the node's domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from resettle.model.constraints import PodTerm
from resettle.model.node_index import NodeSet
from resettle.model.objects import Namespace
from resettle.model.pod import Pod, Template
from resettle.model.selectors import Requirement, Selector
from resettle.placement.pod_locations import PodLocations, PodsPerDomain, PodsPerNode


class AffinityTerm(NamedTuple):
    """A term resolved for the pod that has it (kube-scheduler's `framework.AffinityTerm`)."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str

    def matches(self, template: Template) -> bool:
        """Whether the term selects pods of this template."""
        return template.namespace in self.namespaces and self.selector.matches(template.labels)


class InterPodAffinity:
    """Which nodes the affinity and anti-affinity of all pods leave to a pod."""

    def __init__(self, pod_locations: PodLocations, namespaces: Mapping[str, Namespace]) -> None:
        self._pod_locations = pod_locations
        self._namespaces = namespaces
        self._terms_about: dict[Template, tuple[AffinityTerm, ...]] = {}
        self._affinity_terms: dict[Template, tuple[AffinityTerm, ...]] = {}

    # -- where a pod may go ---------------------------------------------------------------------

    def satisfying_own_anti_affinity(self, pod: Pod) -> NodeSet:
        """Nodes whose domains have no pod that the pod's own anti-affinity selects."""
        pod_locations, template = self._pod_locations, pod.template
        free = pod_locations.node_index.all_nodes
        for term in self.anti_affinity_terms(template):
            if term is None:
                return 0
            free &= ~_nodes_near_matches(
                self.matching_pods(term), term, template, pod_locations.current_node(pod)
            )
        return free

    def satisfying_others_anti_affinity(self, pod: Pod) -> NodeSet:
        """Nodes whose domains have no pod with an anti-affinity that selects this pod."""
        pod_locations, template = self._pod_locations, pod.template
        free = pod_locations.node_index.all_nodes
        for term in self.anti_affinity_terms_about(template):
            free &= ~_nodes_near_matches(
                self.pods_with_term(term), term, template, pod_locations.current_node(pod)
            )
        return free

    def satisfying_affinity(self, pod: Pod) -> NodeSet:
        """Nodes whose domains have the pods that the pod's required affinity asks for."""
        pod_locations, template = self._pod_locations, pod.template
        node_index, current = pod_locations.node_index, pod_locations.current_node(pod)
        terms = self.affinity_terms(template)
        if not terms:
            return node_index.all_nodes
        counts = self.pods_matching_all(terms)
        counts_itself = counts.includes(template)
        nodes, any_match = node_index.all_nodes, 0
        for term in terms:
            domains = counts.per_domain(term.topology_key)
            there = (
                domains.nodes_with_any_other(current) if counts_itself else domains.nodes_with_any()
            )
            nodes &= there
            any_match |= there
        if not any_match and counts_itself:
            # As in kube-scheduler, the first pod of a group may go to any node with the labels.
            nodes = node_index.all_nodes
            for term in terms:
                nodes &= node_index.with_label(term.topology_key)
        return nodes

    def keeping_others_affinity(self, pod: Pod) -> NodeSet:
        """Nodes that keep the pod near pods whose required affinity only this pod satisfies."""
        pod_locations, current = self._pod_locations, self._pod_locations.current_node(pod)
        nodes = pod_locations.node_index.all_nodes
        for terms, templates in self._templates_by_affinity.items():
            counts = self.pods_matching_all(terms)
            if not counts.includes(pod.template):
                continue
            for term in terms:
                domains = counts.per_domain(term.topology_key)
                if domains.count_at(current) != 1:
                    continue
                dependents = self._pods_of_templates(("near", terms), templates, staying_only=True)
                there = dependents.per_domain(term.topology_key)
                if (there.count_at(current) or 0) - (pod.template in templates) > 0:
                    nodes &= domains.domain_of(current)
        return nodes

    def is_required_by_others(self, template: Template) -> bool:
        """Whether the required affinity of some pod selects pods of the template."""
        return any(
            all(term.matches(template) for term in terms) for terms in self._templates_by_affinity
        )

    # -- terms ----------------------------------------------------------------------------------

    def anti_affinity_terms(self, template: Template) -> tuple[AffinityTerm | None, ...]:
        """The template's required anti-affinity; None for a term with an invalid selector."""
        return tuple(
            self._resolve_term(term, template, True) for term in template.spec.anti_affinity
        )

    def affinity_terms(self, template: Template) -> tuple[AffinityTerm, ...]:
        """The template's required affinity."""
        if not template.spec.affinity:
            return ()
        terms = self._affinity_terms.get(template)
        if terms is None:
            terms = self._affinity_terms[template] = tuple(
                self._resolve_term(term, template, False) or MATCHES_NO_POD
                for term in template.spec.affinity
            )
        return terms

    def preferred_anti_affinity_terms(
        self, template: Template
    ) -> Iterator[tuple[int, AffinityTerm]]:
        """The template's preferred anti-affinity, each term with its weight."""
        for row in template.spec.preferred_anti_affinity:
            term = self._resolve_term(row.term, template, True)
            if term is not None:
                yield row.weight, term

    def anti_affinity_terms_about(self, template: Template) -> tuple[AffinityTerm, ...]:
        """Anti-affinity terms of any pod, its own included, that select pods of this template."""
        terms = self._terms_about.get(template)
        if terms is None:
            index, namespace = self._anti_affinity_index, template.namespace
            candidates = list(index.get((namespace, "", ""), ()))
            for label in template.labels.items():
                candidates += index.get((namespace, *label), ())
            terms = self._terms_about[template] = tuple(
                term for term in candidates if term.matches(template)
            )
        return terms

    def templates_by_anti_affinity(
        self, *, preferred: bool
    ) -> dict[AffinityTerm, dict[Template, None]]:
        """Each anti-affinity term and the templates that have it; preferred terms on request."""
        if not preferred:
            return self._templates_by_anti_affinity
        templates_by_term = {
            term: dict(templates) for term, templates in self._templates_by_anti_affinity.items()
        }
        for template in self._pod_locations.pod_index.templates:
            for _, term in self.preferred_anti_affinity_terms(template):
                templates_by_term.setdefault(term, {})[template] = None
        return templates_by_term

    def matching_templates(self, term: AffinityTerm) -> Iterator[Template]:
        """The templates that a term selects."""
        for namespace in sorted(term.namespaces):
            yield from self._pod_locations.pod_index.templates_matching(namespace, term.selector)

    def matching_pods(self, term: AffinityTerm) -> PodsPerNode:
        """The count of pods that a term selects."""
        return self._pod_locations.selected_by(term.namespaces, term.selector)

    def pods_with_term(self, term: AffinityTerm) -> PodsPerNode:
        """The count of pods that have an anti-affinity term."""
        return self._pods_of_templates(("away", term), self._templates_by_anti_affinity[term])

    def pods_matching_all(self, terms: tuple[AffinityTerm, ...]) -> PodsPerNode:
        """The count of pods that all of the terms select; a match of one term is not enough."""
        first = terms[0]
        if all(term[:2] == first[:2] for term in terms):
            return self.matching_pods(first)
        return self._pod_locations.pods_per_node(
            ("all", tuple(term[:2] for term in terms)),
            first.namespaces,
            lambda template: all(term.matches(template) for term in terms),
            (
                template
                for namespace in sorted(first.namespaces)
                for template in self._pod_locations.pod_index.templates_matching(
                    namespace, first.selector
                )
            ),
        )

    def _pods_of_templates(
        self, key: object, templates: dict[Template, None], *, staying_only: bool = False
    ) -> PodsPerNode:
        return self._pod_locations.pods_per_node(
            ("holding", key),
            dict.fromkeys(template.namespace for template in templates),
            templates.__contains__,
            templates,
            staying_only=staying_only,
        )

    @cached_property
    def _templates_by_anti_affinity(self) -> dict[AffinityTerm, dict[Template, None]]:
        """The templates that have each required anti-affinity term."""
        templates_by_term: dict[AffinityTerm, dict[Template, None]] = {}
        for template in self._pod_locations.pod_index.templates:
            if template.spec.anti_affinity:
                for term in self.anti_affinity_terms(template):
                    if term is not None:
                        templates_by_term.setdefault(term, {})[template] = None
        return templates_by_term

    @cached_property
    def _templates_by_affinity(self) -> dict[tuple[AffinityTerm, ...], dict[Template, None]]:
        """The templates that have each required affinity."""
        templates_by_terms: dict[tuple[AffinityTerm, ...], dict[Template, None]] = {}
        for template in self._pod_locations.pod_index.templates:
            if template.spec.affinity:
                templates_by_terms.setdefault(self.affinity_terms(template), {})[template] = None
        return templates_by_terms

    @cached_property
    def _anti_affinity_index(self) -> dict[tuple[str, str, str], list[AffinityTerm]]:
        """Terms by namespace and one label that they require, so that few have to be compared."""
        index: dict[tuple[str, str, str], list[AffinityTerm]] = {}
        for term in self._templates_by_anti_affinity:
            label = next(
                (
                    (row.key, row.values[0])
                    for row in term.selector.requirements
                    if row.operator == "In" and len(row.values) == 1
                ),
                ("", ""),
            )
            for namespace in term.namespaces:
                index.setdefault((namespace, *label), []).append(term)
        return index

    def _resolve_term(
        self, term: PodTerm, template: Template, unknown: bool
    ) -> AffinityTerm | None:
        if term.selector is None:
            return None
        labels = template.labels
        more = [
            Requirement(key, operator, (labels[key],))
            for keys, operator in ((term.same_labels, "In"), (term.other_labels, "NotIn"))
            for key in keys
            if key in labels
        ]
        return AffinityTerm(
            self._namespaces_of(term, template, unknown),
            term.selector.narrow(tuple(more)),
            term.topology_key,
        )

    def _namespaces_of(self, term: PodTerm, template: Template, unknown: bool) -> frozenset[str]:
        """Namespaces of a term; a namespace with unknown labels matches if `unknown` is set."""
        selector = term.namespace_selector
        if selector is None:
            return frozenset(term.namespaces or (template.namespace,))
        chosen = set(term.namespaces)
        for namespace in self._all_namespaces:
            known = self._namespaces.get(namespace)
            if known is None:
                everywhere = not selector.requirements and not selector.never
                matches = unknown or everywhere
            else:
                matches = selector.matches(known.labels)
            if matches:
                chosen.add(namespace)
        return frozenset(chosen)

    @cached_property
    def _all_namespaces(self) -> Iterable[str]:
        return frozenset(self._pod_locations.pod_index.namespaces) | self._namespaces.keys()


MATCHES_NO_POD = AffinityTerm(frozenset(), Selector(never=True), "")


def _nodes_near_matches(
    counts: PodsPerNode, term: AffinityTerm, template: Template, current: str
) -> NodeSet:
    """Nodes whose domain has one of the counted pods, other than the pod itself."""
    domains: PodsPerDomain = counts.per_domain(term.topology_key)
    return (
        domains.nodes_with_any_other(current)
        if counts.includes(template)
        else domains.nodes_with_any()
    )
