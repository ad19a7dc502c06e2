"""RemovePodsViolatingInterPodAntiAffinity: evict pods too near to those they keep away from.

The pod that states the rule goes, the least important of a node first. Neighbours are counted per
selector and node, so a pod's question is a lookup, not a walk over the namespace.
"""

from __future__ import annotations

from collections import Counter

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.selection import Selection
from resettle.framework.verdict import Limit, Stopped
from resettle.model.affinity import PodTerm
from resettle.model.node import Node
from resettle.model.pod import Pod, Template, by_priority
from resettle.model.selector import Selector
from resettle.model.snapshot import Snapshot
from resettle.plugins.reporting import LIMIT_REACHED, NO_CANDIDATE
from resettle.policy.args import SelectingArgs

Args = SelectingArgs


class Neighbourhood:
    """The pods in view, counted by who selects them and where they are."""

    def __init__(self, args: Args, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._selection = snapshot.prepared(args, Selection)
        self._gone: set[Pod] = set()
        self._counts: dict[str, dict[tuple[Selector, str], Counter[tuple[str, str]]]] = {}

    def pods_with_rules(self) -> list[Pod]:
        """Pods in view that state a rule of their own."""
        return [
            pod
            for template in self._snapshot.population.templates
            if template.spec.anti_affinity
            for pod in self._in_view(template)
        ]

    def _in_view(self, template: Template) -> list[Pod]:
        scope = self._snapshot.names_in_scope
        active = self._snapshot.active_of(template)
        return [pod for pod in active if pod.node in scope and pod in self._selection]

    def _named(self, namespace: str, name: str) -> Pod | None:
        pod = self._snapshot.pod(namespace, name)
        if pod is None or pod.finished or pod in self._gone or pod not in self._selection:
            return None
        return pod if pod.node in self._snapshot.names_in_scope else None

    def violated(self, pod: Pod) -> PodTerm | None:
        """The first of the pod's own rules that a neighbour breaks."""
        for term in pod.spec.anti_affinity:
            if term.selector is None:
                return None
            for namespace in dict.fromkeys(term.namespaces or (pod.namespace,)):
                if self._neighbours(pod, term, term.selector, namespace):
                    return term
        return None

    def forget(self, pod: Pod) -> None:
        """Takes a pod that leaves out of every count."""
        self._gone.add(pod)
        for (selector, topology_key), count in self._counts.get(pod.namespace, {}).items():
            if selector.matches(pod.labels):
                count[self._place(pod.node, topology_key)] -= 1

    def _neighbours(self, pod: Pod, term: PodTerm, selector: Selector, namespace: str) -> int:
        """Pods of one namespace that the rule means and that share the pod's topology."""
        counts = self._counts.setdefault(namespace, {})
        key = (selector, term.topology_key)
        count = counts.get(key)
        if count is None:
            count = counts[key] = self._count(selector, namespace, term.topology_key)
        place = self._place(pod.node, term.topology_key)
        near = count[place]
        # Pods are told apart by name alone: a namesake is no neighbour, be it the pod itself.
        namesake = self._named(namespace, pod.name)
        if namesake is not None and selector.matches(namesake.labels):
            near -= place == self._place(namesake.node, term.topology_key)
        return near

    def _count(
        self, selector: Selector, namespace: str, topology_key: str
    ) -> Counter[tuple[str, str]]:
        count: Counter[tuple[str, str]] = Counter()
        for template in self._snapshot.population.templates_matching(namespace, selector):
            for pod in self._in_view(template):
                if pod not in self._gone:
                    count[self._place(pod.node, topology_key)] += 1
        return count

    def _place(self, node: str, topology_key: str) -> tuple[str, str]:
        """Where a pod on this node counts: its domain, or the node alone where it has no label."""
        value = self._snapshot.fleet.values_of(topology_key).get(node)
        return ("node", node) if value is None else ("domain", value)


def deschedule(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes on each node the pods whose own rule is broken, least important first."""
    neighbourhood = Neighbourhood(args, snapshot)
    found = False
    for node, pods in snapshot.in_turn(neighbourhood.pods_with_rules()):
        for pod in draft.ordered(draft.walked(pods), by_priority):
            term = neighbourhood.violated(pod)
            if term is None:
                continue
            found = True
            verdict = draft.propose(pod, because=_because(term, node))
            if verdict.gone:
                neighbourhood.forget(pod)
            elif verdict.limit is Limit.TOTAL:
                return LIMIT_REACHED
            elif verdict.limit is Limit.NODE:
                break
    return None if found else NO_CANDIDATE


def _because(term: PodTerm, node: Node) -> str:
    where = node.labels.get(term.topology_key, node.name)
    return f"a pod it keeps away from shares its {term.topology_key} ({where})"


PLUGIN = Plugin(name="RemovePodsViolatingInterPodAntiAffinity", args=Args, deschedule=deschedule)
