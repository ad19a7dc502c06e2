"""RemoveDuplicates: spread the pods of one owner where several of them share a node.

Copies are pods with the same owner and images. A node keeps the first copy; how many more may stay
depends on the number of nodes that could take them (upstream's getTargetNodes).
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
    """Namespaces to include or to exclude; only one of the two lists may be set."""
    exclude_owner_kinds: tuple[str, ...] = ()
    """Pods with an owner of one of these kinds are ignored."""

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
        groups = _groups_of_copies(args, view)
        sharing = [_pods_sharing_a_node(templates, view) for templates in groups]
        owners = {
            key
            for templates, pods in zip(groups, sharing, strict=True)
            if pods
            for key in owner_keys(templates[0])
        }
        in_scope = view.names_in_scope
        for templates in groups:
            keys = owner_keys(templates[0])
            if not owners.isdisjoint(keys):
                movable = sum(
                    pod.node in in_scope and draft.could_go(pod)
                    for template in templates
                    for pod in view.active_of(template)
                )
                for key in keys:
                    self.total[key] += movable
        group_of = {pod: group for group, pods in enumerate(sharing) for pod in pods}
        for node, pods in view.pods_by_node(group_of):
            seen: set[int] = set()
            for pod in draft.presort(pods):
                if not draft.could_go(pod):
                    continue
                group = group_of[pod]
                copies = self.surplus if group in seen else self.first
                seen.add(group)
                for key in owner_keys(pod.template):
                    copies.setdefault(key, {}).setdefault(node.name, []).append(pod)

    def max_copies_per_node(self, key: OwnerKey, view: View) -> int | None:
        """How many copies of an owner a node may keep; None if fewer than two nodes take them."""
        per_node = self.surplus[key]
        targets = target_nodes((pod for pods in per_node.values() for pod in pods), view)
        count = targets.bit_count()
        return None if count < 2 else -(-self.total[key] // count)


def _groups_of_copies(args: Args, view: View) -> list[list[Template]]:
    """Templates the plugin checks, grouped so that the pods of one group are copies."""
    groups: dict[Signature, list[Template]] = {}
    cached_per_template = view.pod_index.cached_per_template
    for template in view.pod_index.templates:
        if is_checked(args, template):
            groups.setdefault(cached_per_template(template, _signature), []).append(template)
    return list(groups.values())


def _pods_sharing_a_node(templates: Iterable[Template], view: View) -> list[Pod]:
    """Pods of these templates that share their node with another of them."""
    pods = [pod for template in templates for pod in view.active_of(template)]
    if len({pod.node for pod in pods}) == len(pods):
        return []
    per_node = Counter([pod.node for pod in pods])
    return [pod for pod in pods if per_node[pod.node] > 1]


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
    node_index, targets = view.node_index, 0
    by_spelling = view.semantics.copies_compared_by_spelling
    asked: set[object] = set()
    for pod in pods:
        key = _constraints_key(pod.spec, by_spelling)
        if key in asked:
            continue
        asked.add(key)
        demand = pod.spec.demand
        matching_affinity = (
            node_index.possibly_matching_node_affinity
            if by_spelling
            else node_index.matching_node_affinity
        )
        possible_nodes = (
            view.in_scope
            & node_index.tolerated_by(demand.tolerations)
            & matching_affinity(demand, pod.node)
            & (node_index.all_nodes if by_spelling else node_index.schedulable)
        )
        if possible_nodes.bit_count() > 1:
            targets |= possible_nodes
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
    """Propose, for each owner and node, the copies above the number that the node may keep."""
    copies = Copies(args, view, draft)
    if draft.keeps_notes:
        _note_pods_that_stay(copies, view, draft)
    for key, per_node in sorted(copies.surplus.items()):
        max_copies = copies.max_copies_per_node(key, view)
        if max_copies is None:
            continue
        owner = f"{key[1]} {key[2]}"
        counts = None if draft.semantics.weak_fit else CopiesPerNode(key, max_copies, view)
        for node, pods in per_node.items():
            here = len(pods) + 1
            surplus = max(0, here - max_copies)
            for pod in draft.sort(pods)[:surplus]:
                why = f"{here} copies of {owner} are on {node}, at most {max_copies} expected"
                better = counts.with_fewer if counts else None
                verdict = draft.propose(pod, because=why, onto=better)
                if counts and verdict.admitted:
                    counts.recount(pod)
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
        max_copies = copies.max_copies_per_node(key, view) if per_node else None
        for node, pods in first.items():
            surplus = per_node.get(node, [])
            here = len(surplus) + 1
            for pod in (*pods, *surplus):
                if not surplus:
                    says = f"is the only copy of {owner} on {node} that may leave"
                    draft.note(pod, "only-copy", says)
                elif max_copies is None:
                    says = f"fewer than two nodes could take copies of {owner}"
                    draft.note(pod, "no-place", says)
                elif here <= max_copies:
                    says = f"{here} copies of {owner} are on {node}, at most {max_copies} expected"
                    draft.note(pod, "fair-share", says)


class CopiesPerNode:
    """Counts the copies of an owner on each node while copies move."""

    def __init__(self, key: OwnerKey, max_copies: int, view: View) -> None:
        self._max_copies = max_copies
        self._node_index = view.node_index
        self._pod_locations = view.projection.pod_locations
        self._copies = self._pod_locations.pods_per_node(
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
        self._recount_node(self._pod_locations.current_node(pod))

    def _recount_node(self, node: str) -> None:
        single = self._node_index.only(node)
        if self._copies.per_node.get(node, 0) < self._max_copies:
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
