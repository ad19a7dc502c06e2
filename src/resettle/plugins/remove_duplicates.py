"""RemoveDuplicates: spread the pods of one owner where several of them share a node.

The first pod of a kind on a node is the original; how many more may stay follows from the number of
nodes that could take them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, Stopped
from resettle.model.affinity import NodeTerm
from resettle.model.fleet import NodeSet
from resettle.model.pod import Pod, Spec, Template
from resettle.model.snapshot import Snapshot
from resettle.plugins.reporting import LIMIT_REACHED
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Namespaces, one_sided
from resettle.policy.problem import Problem

OwnerKey = tuple[str, str, str, tuple[str, ...]]
Signature = tuple[tuple[str, str, str, str], ...]


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of RemoveDuplicates."""

    namespaces: Namespaces | None = None
    exclude_owner_kinds: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from one_sided(self.namespaces, "namespaces")


def owner_keys(template: Template) -> list[OwnerKey]:
    """What the pod is a copy of, once for each owner: who made it, and its images."""
    return [
        (template.namespace, owner.kind, owner.name, template.spec.images)
        for owner in template.owners
    ]


def concerned(args: Args, template: Template) -> bool:
    """Whether the plugin looks at pods of this template at all."""
    if args.namespaces is not None and not args.namespaces.admits(template.namespace):
        return False
    return bool(template.owners) and not template.owned_by(args.exclude_owner_kinds)


class Copies:
    """Pods that could go, counted by owner, and those that are not the first on their node."""

    def __init__(self, args: Args, snapshot: Snapshot, draft: Draft) -> None:
        self.total: Counter[OwnerKey] = Counter()
        self.surplus: dict[OwnerKey, dict[str, list[Pod]]] = {}
        signatures = {
            template: snapshot.population.told(template, _signature)
            for template in snapshot.population.templates
            if concerned(args, template)
        }
        movable: Counter[Template] = Counter()
        for node, pods in snapshot.in_turn(_sharing(signatures, snapshot)):
            seen: set[Signature] = set()
            for pod in draft.walked(pods):
                if not draft.could_go(pod):
                    continue
                movable[pod.template] += 1
                signature = signatures[pod.template]
                if signature in seen:
                    for key in owner_keys(pod.template):
                        self.surplus.setdefault(key, {}).setdefault(node.name, []).append(pod)
                seen.add(signature)
        for template, count in movable.items():
            for key in owner_keys(template):
                self.total[key] += count


def _sharing(signatures: dict[Template, Signature], snapshot: Snapshot) -> Iterator[Pod]:
    """Pods of owners that have two alike on some node; the others need not be looked at."""
    alike: dict[Signature, list[Template]] = {}
    for template, signature in signatures.items():
        alike.setdefault(signature, []).append(template)
    crowded: set[OwnerKey] = set()
    for templates in alike.values():
        nodes = [pod.node for template in templates for pod in snapshot.active_of(template)]
        if len(set(nodes)) < len(nodes):
            crowded.update(owner_keys(templates[0]))
    for templates in alike.values():
        if not crowded.isdisjoint(owner_keys(templates[0])):
            for template in templates:
                yield from snapshot.active_of(template)


def _signature(template: Template) -> Signature:
    """Every owner with every image, an image that runs twice counting twice."""
    return tuple(
        sorted(
            (template.namespace, owner.kind, owner.name, image)
            for owner in template.owners
            for image in template.spec.images
        )
    )


def target_nodes(pods: Iterable[Pod], snapshot: Snapshot) -> NodeSet:
    """Nodes that could take one of these copies, as far as labels and taints say."""
    fleet, targets = snapshot.fleet, 0
    asked: set[object] = set()
    for pod in pods:
        wish = _wish(pod.spec)
        if wish in asked:
            continue
        asked.add(wish)
        open_nodes = (
            snapshot.in_scope
            & fleet.tolerated_by(pod.spec.tolerations)
            & fleet.possibly_welcoming(pod.spec.demand, pod.node)
        )
        if open_nodes.bit_count() > 1:
            targets |= open_nodes
    return targets


def _wish(spec: Spec) -> tuple[object, ...]:
    """What tells two copies' wishes apart: tolerations in any order, affinity terms in theirs."""
    terms = spec.required_terms
    return (
        frozenset(spec.tolerations),
        None if terms is None else tuple(term for term, _ in groupby(map(_canonical, terms))),
        spec.node_selector,
    )


def _canonical(term: NodeTerm) -> tuple[object, ...]:
    return tuple(
        frozenset((it.key, it.operator, frozenset(it.values)) for it in requirements)
        for requirements in (term.expressions, term.fields)
    )


def balance(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes of each owner the copies that are more than a node's share."""
    copies = Copies(args, snapshot, draft)
    for key, per_node in sorted(copies.surplus.items()):
        targets = target_nodes((pod for pods in per_node.values() for pod in pods), snapshot)
        places = targets.bit_count()
        if places < 2:
            continue
        owner = f"{key[1]} {key[2]}"
        share = -(-copies.total[key] // places)
        for node, pods in per_node.items():
            surplus = max(0, len(pods) + 1 - share)
            for pod in draft.ordered(pods)[:surplus]:
                why = f"{len(pods) + 1} copies of {owner} are on {node}, its share is {share}"
                limit = draft.propose(pod, because=why).limit
                if limit is Limit.TOTAL:
                    return LIMIT_REACHED
                if limit is Limit.NODE:
                    break
    return None if copies.surplus else NO_COPIES


NO_COPIES = Stopped("no-candidate", "no two pods of one owner that could go share a node")

PLUGIN = Plugin(name="RemoveDuplicates", args=Args, balance=balance)
