"""RemovePodsViolatingInterPodAntiAffinity: evict pods whose podAntiAffinity is violated.

With upstream's semantics the pod that states the rule goes, the least important of a node first.
With `resettle/v1` both sides of a conflict count, over the whole domain: the less important side
goes, and no pod goes whose conflicts are already resolved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.constraints import PodTerm
from resettle.model.node_index import NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Pod, Template, by_name_hash, by_priority
from resettle.model.selectors import Selector
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE
from resettle.plugins.remove_pods_violating_inter_pod_anti_affinity.conflicts import (
    Conflict,
    Conflicts,
)
from resettle.policy.args import SelectingArgs
from resettle.policy.document import ResettleOnly


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingInterPodAntiAffinity."""

    include_preferred: ResettleOnly[bool] = False
    """Anti-affinity that is only preferred counts too."""


class NearbyPods:
    """The pods in view, counted by who selects them and where they are."""

    def __init__(self, args: Args, view: View) -> None:
        self._view = view
        self._selection = view.templates_selected_by(args)
        self._gone: set[Pod] = set()
        self._counts: dict[str, dict[tuple[Selector, str], Counter[tuple[str, str]]]] = {}

    def pods_with_rules(self) -> list[Pod]:
        """Pods in view that have podAntiAffinity."""
        return [
            pod
            for template in self._view.pod_index.templates
            if template.spec.anti_affinity
            for pod in self._in_view(template)
        ]

    def _in_view(self, template: Template) -> list[Pod]:
        if template not in self._selection:
            return []
        scope = self._view.names_in_scope
        return [pod for pod in self._view.active_of(template) if pod.node in scope]

    def _pod_by_name(self, namespace: str, name: str) -> Pod | None:
        pod = self._view.pod(namespace, name)
        if pod is None or pod.finished or pod in self._gone or pod.template not in self._selection:
            return None
        return pod if pod.node in self._view.names_in_scope else None

    def violated_term(self, pod: Pod) -> PodTerm | None:
        """The first of the pod's own rules that another pod violates."""
        for term in pod.spec.anti_affinity:
            if term.selector is None:
                return None
            for namespace in dict.fromkeys(term.namespaces or (pod.namespace,)):
                if self._count_nearby(pod, term, term.selector, namespace):
                    return term
        return None

    def forget(self, pod: Pod) -> None:
        """Remove a pod that leaves from every count."""
        self._gone.add(pod)
        for (selector, topology_key), count in self._counts.get(pod.namespace, {}).items():
            if selector.matches(pod.labels):
                count[self._domain(pod.node, topology_key)] -= 1

    def _count_nearby(self, pod: Pod, term: PodTerm, selector: Selector, namespace: str) -> int:
        """Pods of one namespace that the rule means and that share the pod's topology."""
        counts = self._counts.setdefault(namespace, {})
        key = (selector, term.topology_key)
        count = counts.get(key)
        if count is None:
            count = counts[key] = self._count(selector, namespace, term.topology_key)
        place = self._domain(pod.node, term.topology_key)
        near = count[place]
        # Upstream compares pods by name alone: neither the pod itself nor a namesake counts.
        namesake = self._pod_by_name(namespace, pod.name)
        if namesake is not None and selector.matches(namesake.labels):
            near -= place == self._domain(namesake.node, term.topology_key)
        return near

    def _count(
        self, selector: Selector, namespace: str, topology_key: str
    ) -> Counter[tuple[str, str]]:
        count: Counter[tuple[str, str]] = Counter()
        for template in self._view.pod_index.templates_matching(namespace, selector):
            for pod in self._in_view(template):
                if pod not in self._gone:
                    count[self._domain(pod.node, topology_key)] += 1
        return count

    def _domain(self, node: str, topology_key: str) -> tuple[str, str]:
        """Where a pod on this node counts: its domain, or the node alone where it has no label."""
        value = self._view.node_index.values_of(topology_key).get(node)
        return ("node", node) if value is None else ("domain", value)


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose pods until no podAntiAffinity is violated."""
    if draft.semantics.one_sided_anti_affinity:
        return evict_violating_pods(args, view, draft)
    return resolve_conflicts(args, view, draft)


def evict_violating_pods(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose on each node the pods whose own rule is violated, least important first."""
    nearby = NearbyPods(args, view)
    violated = False
    for node, pods in view.pods_by_node(nearby.pods_with_rules()):
        for pod in draft.sort(draft.presort(pods), by_priority):
            term = nearby.violated_term(pod)
            if term is None:
                continue
            violated = True
            verdict = draft.propose(pod, because=_because(term, node))
            if verdict.is_leaving:
                nearby.forget(pod)
            elif verdict.limit is Limit.TOTAL:
                return LIMIT_REACHED
            elif verdict.limit in (Limit.NODE, Limit.NODES):
                break
    return None if violated else NO_CANDIDATE


def _because(term: PodTerm, node: Node) -> str:
    where = node.labels.get(term.topology_key, node.name)
    return f"violates podAntiAffinity with another pod on {where} ({term.topology_key})"


# -- improved: both sides, whole domains ----------------------------------------------------------


def resolve_conflicts(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose the pods whose eviction resolves every conflict that can be resolved."""
    selection = view.templates_selected_by(args)
    has_conflicts = False
    full: set[str] = set()
    while True:
        conflicts = Conflicts(_conflicts(args, view))
        has_conflicts = has_conflicts or any(True for _ in conflicts.pods)
        candidates = [
            pod
            for pod in draft.sort(
                draft.presort(sorted(conflicts.pods, key=by_name_hash)), by_priority
            )
            if pod.template in selection and pod.node not in full and not draft.is_terminating(pod)
        ]
        movable = [pod for pod in candidates if not draft.objection(pod, _apart(pod, args, view))]
        moved = False
        for pod in conflicts.leaving(movable):
            better = _apart(pod, args, view)
            verdict = draft.propose(pod, because=conflicts.why(pod), onto=better)
            moved = moved or verdict.admitted
            if verdict.limit is Limit.TOTAL:
                return LIMIT_REACHED
            if verdict.limit in (Limit.NODE, Limit.NODES):
                full.add(pod.node)
        if not moved:
            break
    for pod in candidates:
        better = _apart(pod, args, view)
        if refusal := draft.objection(pod, better):
            draft.decline(pod, refusal, because=conflicts.why(pod), onto=better)
    return None if has_conflicts else NO_CANDIDATE


def _conflicts(args: Args, view: View) -> Iterator[Conflict]:
    """Every rule and domain with a pod that states the rule and a pod that it selects."""
    pod_affinity, node_index = view.projection.pod_affinity, view.node_index
    for rule, templates in pod_affinity.templates_by_anti_affinity(
        preferred=args.include_preferred
    ).items():
        values = node_index.values_of(rule.topology_key)
        stating = _by_domain(templates, values, view)
        if not stating:
            continue
        selected = _by_domain(pod_affinity.matching_templates(rule), values, view)
        for where in sorted(stating.keys() & selected.keys()):
            if len(stating[where] | selected[where]) > 1:
                why = f"violates podAntiAffinity with another pod on {where} ({rule.topology_key})"
                yield Conflict(why, stating[where], selected[where])


def _by_domain(
    templates: Iterable[Template], values: dict[str, str], view: View
) -> dict[str, set[Pod]]:
    pod_locations, scope = view.projection.pod_locations, view.names_in_scope
    by_domain: dict[str, set[Pod]] = {}
    for template in templates:
        for pod in view.active_of(template):
            node = pod_locations.current_node(pod)
            if node in scope and node in values and pod_locations.is_staying(pod):
                by_domain.setdefault(values[node], set()).add(pod)
    return by_domain


def _apart(pod: Pod, args: Args, view: View) -> NodeSet | None:
    """Nodes where preferred rules hold too; None where only required rules count."""
    if not args.include_preferred:
        return None
    pod_affinity, home = (
        view.projection.pod_affinity,
        view.projection.pod_locations.current_node(pod),
    )
    nodes = view.node_index.all_nodes
    for _, rule in pod_affinity.preferred_anti_affinity_terms(pod.template):
        domains = pod_affinity.matching_pods(rule).per_domain(rule.topology_key)
        nodes &= ~domains.nodes_with_any_other(home) & ~domains.domain_of(home)
    return nodes


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: it has no rule, or no pod violates it."""
    if view.semantics.one_sided_anti_affinity:
        if not pod.spec.anti_affinity:
            return NotProposed("no-rule", "has no podAntiAffinity")
        if view.prepare_once(args, NearbyPods).violated_term(pod):
            return None
        return NotProposed("satisfied", "no pod violates its podAntiAffinity")
    pod_affinity = view.projection.pod_affinity
    here = view.node_index.only(pod.node)
    if not here & pod_affinity.satisfying_own_anti_affinity(
        pod
    ) or not here & pod_affinity.satisfying_others_anti_affinity(pod):
        return None
    return NotProposed(
        "satisfied", "violates no podAntiAffinity, neither its own nor that of another pod"
    )


PLUGIN = Plugin(
    name="RemovePodsViolatingInterPodAntiAffinity",
    args=Args,
    deschedule=deschedule,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
)
