"""RemovePodsViolatingInterPodAntiAffinity: evict pods too near to those they keep away from.

As the peer does it, the pod that states the rule goes, the least important of a node first.
Improved, a conflict is seen from both sides and over the whole domain, the less important side
goes, and nobody goes whose neighbours have all left. Neighbours are counted, never compared in
pairs.
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
from resettle.model.pod import Pod, Template, by_lot, by_priority
from resettle.model.selectors import Selector
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE
from resettle.plugins.remove_pods_violating_inter_pod_anti_affinity.conflicts import (
    Quarrel,
    Quarrels,
)
from resettle.policy.args import SelectingArgs
from resettle.policy.document import Ours


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingInterPodAntiAffinity."""

    include_preferred: Ours[bool] = False
    """Anti-affinity that is only preferred counts too."""


class Neighbourhood:
    """The pods in view, counted by who selects them and where they are."""

    def __init__(self, args: Args, view: View) -> None:
        self._view = view
        self._selection = view.templates_selected_by(args)
        self._gone: set[Pod] = set()
        self._counts: dict[str, dict[tuple[Selector, str], Counter[tuple[str, str]]]] = {}

    def pods_with_rules(self) -> list[Pod]:
        """Pods in view that state a rule of their own."""
        return [
            pod
            for template in self._view.population.templates
            if template.spec.anti_affinity
            for pod in self._in_view(template)
        ]

    def _in_view(self, template: Template) -> list[Pod]:
        if template not in self._selection:
            return []
        scope = self._view.names_in_scope
        return [pod for pod in self._view.active_of(template) if pod.node in scope]

    def _named(self, namespace: str, name: str) -> Pod | None:
        pod = self._view.pod(namespace, name)
        if pod is None or pod.finished or pod in self._gone or pod.template not in self._selection:
            return None
        return pod if pod.node in self._view.names_in_scope else None

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
        for template in self._view.population.templates_matching(namespace, selector):
            for pod in self._in_view(template):
                if pod not in self._gone:
                    count[self._place(pod.node, topology_key)] += 1
        return count

    def _place(self, node: str, topology_key: str) -> tuple[str, str]:
        """Where a pod on this node counts: its domain, or the node alone where it has no label."""
        value = self._view.fleet.values_of(topology_key).get(node)
        return ("node", node) if value is None else ("domain", value)


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes pods until no two are nearer to each other than one of them allows."""
    if draft.semantics.one_sided_anti_affinity:
        return send_away_who_states(args, view, draft)
    return part_neighbours(args, view, draft)


def send_away_who_states(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes on each node the pods whose own rule is broken, least important first."""
    neighbourhood = Neighbourhood(args, view)
    found = False
    for node, pods in view.in_turn(neighbourhood.pods_with_rules()):
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
            elif verdict.limit in (Limit.NODE, Limit.NODES):
                break
    return None if found else NO_CANDIDATE


def _because(term: PodTerm, node: Node) -> str:
    where = node.labels.get(term.topology_key, node.name)
    return f"a pod it keeps away from shares its {term.topology_key} ({where})"


# -- improved: both sides, whole domains ----------------------------------------------------------


def part_neighbours(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes the pods whose going ends every quarrel that can be ended."""
    selection = view.templates_selected_by(args)
    found = False
    full: set[str] = set()
    while True:
        quarrels = Quarrels(_quarrels(args, view))
        found = found or any(True for _ in quarrels.pods)
        candidates = [
            pod
            for pod in draft.ordered(draft.walked(sorted(quarrels.pods, key=by_lot)), by_priority)
            if pod.template in selection and pod.node not in full and not draft.terminating(pod)
        ]
        movable = [pod for pod in candidates if not draft.objection(pod, _apart(pod, args, view))]
        moved = False
        for pod in quarrels.leaving(movable):
            better = _apart(pod, args, view)
            verdict = draft.propose(pod, because=quarrels.why(pod), onto=better)
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
            draft.decline(pod, refusal, because=quarrels.why(pod), onto=better)
    return None if found else NO_CANDIDATE


def _quarrels(args: Args, view: View) -> Iterator[Quarrel]:
    """Every rule and domain in which one who states it and one it is about are together."""
    neighbours, fleet = view.projection.neighbours, view.fleet
    for wish, templates in neighbours.stated(preferred=args.include_preferred).items():
        values = fleet.values_of(wish.topology_key)
        stating = _by_domain(templates, values, view)
        if not stating:
            continue
        meant = _by_domain(neighbours.templates_meant(wish), values, view)
        for where in sorted(stating.keys() & meant.keys()):
            if len(stating[where] | meant[where]) > 1:
                why = f"anti-affinity parts pods of one {wish.topology_key} ({where})"
                yield Quarrel(why, stating[where], meant[where])


def _by_domain(
    templates: Iterable[Template], values: dict[str, str], view: View
) -> dict[str, set[Pod]]:
    residents, scope = view.projection.residents, view.names_in_scope
    found: dict[str, set[Pod]] = {}
    for template in templates:
        for pod in view.active_of(template):
            node = residents.home(pod)
            if node in scope and node in values and residents.staying(pod):
                found.setdefault(values[node], set()).add(pod)
    return found


def _apart(pod: Pod, args: Args, view: View) -> NodeSet | None:
    """Nodes where what the pod merely prefers is met too; None where that is not asked."""
    if not args.include_preferred:
        return None
    neighbours, home = view.projection.neighbours, view.projection.residents.home(pod)
    nodes = view.fleet.everyone
    for _, wish in neighbours.preferred_away(pod.template):
        domains = neighbours.meant(wish).over(wish.topology_key)
        nodes &= ~domains.occupied_without(home) & ~domains.around(home)
    return nodes


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether the pod states no rule, or nobody is near that breaks one."""
    if view.semantics.one_sided_anti_affinity:
        if not pod.spec.anti_affinity:
            return NotProposed("no-rule", "states no anti-affinity of its own")
        if view.prepared(args, Neighbourhood).violated(pod):
            return None
        return NotProposed("satisfied", "no pod that it keeps away from is near it")
    neighbours = view.projection.neighbours
    here = view.fleet.only(pod.node)
    if not here & neighbours.own_rules(pod) or not here & neighbours.rules_of_others(pod):
        return None
    return NotProposed("satisfied", "no pod is near that it keeps away from, or that wants it away")


PLUGIN = Plugin(
    name="RemovePodsViolatingInterPodAntiAffinity",
    args=Args,
    deschedule=deschedule,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
)
