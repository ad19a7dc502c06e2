"""External events of a simulation, and the changes that follow from them.

An event is what a user would type: apply, delete, scale, cordon. What controllers do about it is
computed here: pods of a deleted node are created again elsewhere, a new node gets its DaemonSet
pods, a deleted pod is replaced by its controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from resettle.model.changes import Change, Changes
from resettle.model.constraints import NO_EXECUTE
from resettle.model.objects import Node
from resettle.model.pod import Owner, Pod, Template, by_name_hash
from resettle.model.snapshot import Snapshot
from resettle.simulate.scheduler import DAEMON_SET, is_replaced, is_tied_to_node, replacement_of


class Event(Struct, frozen=True, kw_only=True):
    """An external event before a cycle."""

    cycle: int
    says: str
    changes: Changes
    """What is applied and deleted; the time in it is ignored, the cycle has its own."""
    scale: Mapping[str, int] = {}
    """`Kind/namespace/name` of a controller to its number of replicas."""
    cordon: frozenset[str] = frozenset()


def changes_from(event: Event, snapshot: Snapshot) -> Changes:
    """The changes of this snapshot by the event, with all that controllers do about it."""
    changes, at, number = event.changes, snapshot.taken_at, event.cycle
    nodes = Change(_applied_nodes(event, snapshot), changes.nodes.gone)
    gone = {pod.key: pod for pod in _deleted_pods(snapshot, changes.pods.gone, nodes)}
    lost = nodes.gone - {node.name for node in nodes.put}
    made = [
        replacement_of(pod, None, at, number)
        for pod in gone.values()
        if is_replaced(pod) and not (is_tied_to_node(pod) and pod.node in lost)
    ]
    later = snapshot.next(structs.replace(changes, at=at, nodes=nodes))
    made += _daemon_set_pods(
        later, [node for node in nodes.put if snapshot.node_index.get(node.name) is None]
    )
    for target, wanted in sorted(event.scale.items()):
        fewer, more = _scale(snapshot, target, wanted, at)
        gone |= {pod.key: pod for pod in fewer}
        made = [pod for pod in made if pod.key not in {removed.key for removed in fewer}] + more
    pods = Change((*changes.pods.put, *made), changes.pods.gone | frozenset(gone))
    return structs.replace(changes, at=at, nodes=nodes, pods=pods)


def owner_pods(snapshot: Snapshot, target: str) -> list[Pod]:
    """The active pods of the controller that `Kind/namespace/name` names."""
    kind, _, rest = target.partition("/")
    namespace, _, name = rest.partition("/")
    pods_of_owner = [
        pod
        for template, pods in snapshot.pod_index.templates.items()
        if template.namespace == namespace and _owner_of(template, kind, name)
        for pod in pods
        if not pod.finished and not pod.terminating
    ]
    return sorted(pods_of_owner, key=by_name_hash)


def _owner_of(template: Template, kind: str, name: str) -> Owner | None:
    return next(
        (owner for owner in template.owners if (owner.kind, owner.name) == (kind, name)), None
    )


def _applied_nodes(event: Event, snapshot: Snapshot) -> tuple[Node, ...]:
    """The nodes that are applied or cordoned, with their new state."""
    put = {node.name: node for node in event.changes.nodes.put}
    for name in sorted(event.cordon):
        if node := put.get(name) or snapshot.node_index.get(name):
            put[name] = structs.replace(node, unschedulable=True)
    return tuple(put.values())


def _deleted_pods(snapshot: Snapshot, deleted: Iterable[str], nodes: Change[Node]) -> Iterator[Pod]:
    """Pods that are deleted: by name, with their node, or by a NoExecute taint."""
    for key in sorted(deleted):
        if pod := snapshot.pod(*key.split("/", 1)):
            yield pod
    for name in sorted(nodes.gone):
        yield from snapshot.pod_index.on(name)
    for node in nodes.put:
        for taint in (taint for taint in node.taints if taint.effect == NO_EXECUTE):
            pods = snapshot.pod_index.on(node.name)
            yield from (pod for pod in pods if not pod.spec.tolerates(taint))


def _daemon_set_pods(snapshot: Snapshot, joining: Iterable[Node]) -> list[Pod]:
    """The pods that DaemonSets create for new nodes, already running there."""
    nodes, at = snapshot.node_index, snapshot.taken_at
    patterns: dict[str, Pod] = {}
    for template, pods in snapshot.pod_index.templates.items():
        if template.owned_by(DAEMON_SET) and pods:
            pattern = min(pods, key=lambda pod: pod.key)
            owner = template.owners[0].uid
            patterns[owner] = min(patterns.get(owner, pattern), pattern, key=lambda pod: pod.key)
    made = []
    for node in joining:
        for pattern in sorted(patterns.values(), key=lambda pod: pod.key):
            demand = pattern.spec.demand
            suits = nodes.matching_node_affinity(demand, node.name) & nodes.tolerated_by(
                demand.tolerations
            )
            if suits & nodes.only(node.name):
                named = f"{pattern.owners[0].name}-{node.name}"
                copy = structs.replace(pattern, name=named, uid=f"{pattern.uid}+{node.name}")
                made.append(replacement_of(copy, node.name, at, 0))
    return made


def _scale(
    snapshot: Snapshot, target: str, wanted: int, at: datetime
) -> tuple[list[Pod], list[Pod]]:
    """The pods that a controller deletes and creates to have as many as wanted."""
    there = owner_pods(snapshot, target)
    if not there:
        return [], []
    # As the ReplicaSet controller does: pending pods first, then the youngest.
    youngest_first = sorted(there, key=Pod.seniority, reverse=True)
    deletion_order = sorted(youngest_first, key=lambda pod: pod.node != "")
    fewer = deletion_order[: max(len(there) - wanted, 0)]
    pattern, taken = there[0], {pod.name for pod in there}
    names = (f"{target.rpartition('/')[2]}-more-{i}" for i in range(1, wanted + len(there) + 1))
    free = [name for name in names if name not in taken][: max(wanted - len(there), 0)]
    more = [
        replacement_of(
            structs.replace(pattern, name=name, uid=f"{pattern.uid}+{name}"), None, at, 0
        )
        for name in free
    ]
    return fewer, more


def merge_changes(first: Changes, second: Changes) -> Changes:
    """Two changes as one, the second applied after the first."""
    fields: dict[str, Any] = {
        name: Change(
            (*(obj for obj in before.put if obj.key not in after.gone), *after.put),
            before.gone | after.gone,
        )
        for name in Changes.__struct_fields__
        for before, after in [(getattr(first, name), getattr(second, name))]
        if isinstance(before, Change)
    }
    return Changes(at=second.at, **fields)
