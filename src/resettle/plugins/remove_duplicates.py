"""RemoveDuplicates: spread the pods of one owner where several of them share a node.

The first pod of a kind on a node is the original; how many more may stay depends on the number of
nodes that could take them (upstream's getTargetNodes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.constraints import NodeTerm
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, Spec, Template
from resettle.plugins._common import LIMIT_REACHED, namespace_excluded, owner_excluded
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Namespaces, include_exclude_problems
from resettle.policy.problems import Problem

OwnerKey = tuple[str, str, str, tuple[str, ...]]
Signature = tuple[tuple[str, str, str, str], ...]


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of RemoveDuplicates."""

    namespaces: Namespaces | None = None
    """Namespaces to keep to or to keep out of; at most one of the two lists."""
    exclude_owner_kinds: tuple[str, ...] = ()
    """Pods with an owner of such a kind are not looked at."""

    def problems(self) -> Iterator[Problem]:
        yield from include_exclude_problems(self.namespaces, "namespaces")


def owner_keys(template: Template) -> list[OwnerKey]:
    """What the pod is a copy of, once for each owner: the owner, and its images."""
    return [
        (template.namespace, owner.kind, owner.name, template.spec.images)
        for owner in template.owners
    ]


def is_checked(args: Args, template: Template) -> bool:
    """Whether the plugin checks pods of this template at all."""
    if args.namespaces is not None and not args.namespaces.admits(template.namespace):
        return False
    return bool(template.owners) and not template.owned_by(args.exclude_owner_kinds)


class Copies:
    """Pods that could go, counted by owner; each node keeps the first."""

    def __init__(self, args: Args, view: View, draft: Draft) -> None:
        self.total: Counter[OwnerKey] = Counter()
        self.surplus: dict[OwnerKey, dict[str, list[Pod]]] = {}
        self.first: dict[OwnerKey, dict[str, list[Pod]]] = {}
        """The copies that each node keeps in any case."""
        kinds = _alike(args, view)
        crowds = {kind: _crowd(templates, view) for kind, templates in enumerate(kinds)}
        owners = {
            key for kind, crowd in crowds.items() if crowd for key in owner_keys(kinds[kind][0])
        }
        in_scope = view.names_in_scope
        for templates in kinds:
            keys = owner_keys(templates[0])
            if not owners.isdisjoint(keys):
                movable = sum(
                    pod.node in in_scope and draft.could_go(pod)
                    for template in templates
                    for pod in view.active_of(template)
                )
                for key in keys:
                    self.total[key] += movable
        kind_of = {pod: kind for kind, crowd in crowds.items() for pod in crowd}
        for node, pods in view.pods_by_node(kind_of):
            seen: set[int] = set()
            for pod in draft.presort(pods):
                if not draft.could_go(pod):
                    continue
                kind = kind_of[pod]
                copies = self.surplus if kind in seen else self.first
                seen.add(kind)
                for key in owner_keys(pod.template):
                    copies.setdefault(key, {}).setdefault(node.name, []).append(pod)

    def share(self, key: OwnerKey, view: View) -> int | None:
        """How many copies of the owner a node should have; None if there is no other place."""
        per_node = self.surplus[key]
        targets = target_nodes((pod for pods in per_node.values() for pod in pods), view)
        places = targets.bit_count()
        return None if places < 2 else -(-self.total[key] // places)


def _alike(args: Args, view: View) -> list[list[Template]]:
    """Templates that are looked at, those together whose pods are copies of one another."""
    alike: dict[Signature, list[Template]] = {}
    cached_per_template = view.pod_index.cached_per_template
    for template in view.pod_index.templates:
        if is_checked(args, template):
            alike.setdefault(cached_per_template(template, _signature), []).append(template)
    return list(alike.values())


def _crowd(templates: Iterable[Template], view: View) -> list[Pod]:
    """Pods of these templates that share their node with another of them."""
    pods = [pod for template in templates for pod in view.active_of(template)]
    if len({pod.node for pod in pods}) == len(pods):
        return []
    on = Counter([pod.node for pod in pods])
    return [pod for pod in pods if on[pod.node] > 1]


def _signature(template: Template) -> Signature:
    """Every owner with every image, an image that runs twice counting twice."""
    return tuple(
        sorted(
            (template.namespace, owner.kind, owner.name, image)
            for owner in template.owners
            for image in template.spec.images
        )
    )


def target_nodes(pods: Iterable[Pod], view: View) -> NodeSet:
    """Nodes that could take one of these copies, as far as labels and taints say."""
    fleet, targets = view.node_index, 0
    by_spelling = view.semantics.copies_compared_by_spelling
    asked: set[object] = set()
    for pod in pods:
        key = _constraints_key(pod.spec, by_spelling)
        if key in asked:
            continue
        asked.add(key)
        demand = pod.spec.demand
        welcoming = (
            fleet.possibly_matching_node_affinity if by_spelling else fleet.matching_node_affinity
        )
        open_nodes = (
            view.in_scope
            & fleet.tolerated_by(demand.tolerations)
            & welcoming(demand, pod.node)
            & (fleet.all_nodes if by_spelling else fleet.schedulable)
        )
        if open_nodes.bit_count() > 1:
            targets |= open_nodes
    return targets


def _constraints_key(spec: Spec, by_spelling: bool) -> tuple[object, ...]:
    """Tolerations, node selector and affinity: copies with equal ones have equal target nodes.

    Compared by spelling, affinity terms in another order are different.
    """
    terms: object = None
    if spec.required_terms is not None:
        written = map(_canonical, spec.required_terms)
        terms = tuple(term for term, _ in groupby(written)) if by_spelling else frozenset(written)
    return (frozenset(spec.tolerations), terms, spec.node_selector)


def _canonical(term: NodeTerm) -> tuple[object, ...]:
    return tuple(
        frozenset(
            (requirement.key, requirement.operator, frozenset(requirement.values))
            for requirement in requirements
        )
        for requirements in (term.expressions, term.fields)
    )


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose of each owner the copies above the number expected on a node."""
    copies = Copies(args, view, draft)
    if draft.keeps_notes:
        _note_pods_that_stay(copies, view, draft)
    for key, per_node in sorted(copies.surplus.items()):
        share = copies.share(key, view)
        if share is None:
            continue
        owner = f"{key[1]} {key[2]}"
        shares = None if draft.semantics.weak_fit else Shares(key, share, view)
        for node, pods in per_node.items():
            surplus = max(0, len(pods) + 1 - share)
            for pod in draft.sort(pods)[:surplus]:
                why = f"{len(pods) + 1} copies of {owner} are on {node}, at most {share} expected"
                better = shares.with_fewer if shares else None
                verdict = draft.propose(pod, because=why, onto=better)
                if shares and verdict.admitted:
                    shares.recount(pod)
                limit = verdict.limit
                if limit is Limit.TOTAL:
                    return LIMIT_REACHED
                if limit in (Limit.NODE, Limit.NODES):
                    break
    return None if copies.surplus else NO_COPIES


def _note_pods_that_stay(copies: Copies, view: View, draft: Draft) -> None:
    """Note why copies that could go stay, with the figures that decide it."""
    for key, first in sorted(copies.first.items()):
        owner, per_node = f"{key[1]} {key[2]}", copies.surplus.get(key, {})
        share = copies.share(key, view) if per_node else None
        for node, pods in first.items():
            surplus = per_node.get(node, [])
            here = len(surplus) + 1
            for pod in (*pods, *surplus):
                if not surplus:
                    says = f"is the only copy of {owner} on {node} that may leave"
                    draft.note(pod, "only-copy", says)
                elif share is None:
                    says = f"fewer than two nodes could take copies of {owner}"
                    draft.note(pod, "no-place", says)
                elif here <= share:
                    says = f"{here} copies of {owner} are on {node}, at most {share} expected"
                    draft.note(pod, "fair-share", says)


class Shares:
    """Which nodes have fewer copies of an owner than their share, while copies move."""

    def __init__(self, key: OwnerKey, share: int, view: View) -> None:
        self._share = share
        self._fleet = view.node_index
        self._residents = view.projection.pod_locations
        self._copies = self._residents.pods_per_node(
            ("copies", key),
            (key[0],),
            lambda template: key in owner_keys(template),
            view.pod_index.namespaces.get(key[0], ()),
        )
        self.with_fewer: NodeSet = view.node_index.all_nodes
        for node in self._copies.per_node:
            self._recount_node(node)

    def recount(self, pod: Pod) -> None:
        """Count a copy that moves."""
        self._recount_node(pod.node)
        self._recount_node(self._residents.current_node(pod))

    def _recount_node(self, node: str) -> None:
        single = self._fleet.only(node)
        if self._copies.per_node.get(node, 0) < self._share:
            self.with_fewer |= single
        else:
            self.with_fewer &= ~single


NO_COPIES = Stopped("no-candidate", "no node has two pods of one owner that could go")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: it is no copy, or the only one on its node.

    For copies that could go, `balance` notes the figures by which it decides.
    """
    template = pod.template
    if args.namespaces is not None and not args.namespaces.admits(pod.namespace):
        return namespace_excluded(pod, "namespaces")
    if not template.owners:
        return NotProposed("other-owner", "has no owner whose copies could be counted")
    if not is_checked(args, template):
        return owner_excluded(pod, "excludeOwnerKinds")
    copies = _copies_of(template, view)
    here = sum(copy.node == pod.node for copy in copies)
    owner = f"{template.owners[0].kind} {template.owners[0].name}"
    if here < 2:
        return NotProposed("only-copy", f"is the only copy of {owner} on {pod.node}")
    return None


def _copies_of(template: Template, view: View) -> list[Pod]:
    """Unfinished pods that are copies of the same thing, on nodes in scope."""
    signature = _signature(template)
    templates = view.pod_index.namespaces.get(template.namespace, ())
    return [
        pod
        for other in templates
        if view.pod_index.cached_per_template(other, _signature) == signature
        for pod in view.active_of(other)
        if pod.node in view.names_in_scope
    ]


PLUGIN = Plugin(
    name="RemoveDuplicates",
    args=Args,
    balance=balance,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
)
