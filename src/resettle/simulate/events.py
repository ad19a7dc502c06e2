"""What happens to a cluster from outside, and what the cluster itself makes of it.

An event is what somebody types: apply, delete, scale, cordon. What follows by itself is worked out
here: pods of a node that is gone are made anew elsewhere, a node that joins gets its DaemonSet
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
from resettle.model.pod import Owner, Pod, Template, by_lot
from resettle.model.snapshot import Snapshot
from resettle.simulate.scheduler import DAEMON_SET, reborn, replaced, tied_to_node


class Event(Struct, frozen=True, kw_only=True):
    """Something that happens before a cycle."""

    cycle: int
    says: str
    changes: Changes
    """What is applied and deleted; its time is that of the cycle."""
    scale: Mapping[str, int] = {}
    """`Kind/namespace/name` of a controller to how many pods it shall have."""
    cordon: frozenset[str] = frozenset()


def consequences(event: Event, snapshot: Snapshot) -> Changes:
    """The event as changes of this snapshot, with all that follows from it."""
    changes, at, number = event.changes, snapshot.taken_at, event.cycle
    nodes = Change(_nodes_put(event, snapshot), changes.nodes.gone)
    gone = {pod.key: pod for pod in _swept(snapshot, changes.pods.gone, nodes)}
    lost = nodes.gone - {node.name for node in nodes.put}
    made = [
        reborn(pod, None, at, number)
        for pod in gone.values()
        if replaced(pod) and not (tied_to_node(pod) and pod.node in lost)
    ]
    later = snapshot.next(structs.replace(changes, at=at, nodes=nodes))
    made += _daemons(later, [node for node in nodes.put if snapshot.fleet.get(node.name) is None])
    for target, wanted in sorted(event.scale.items()):
        fewer, more = _scaled(snapshot, target, wanted, at)
        gone |= {pod.key: pod for pod in fewer}
        made = [pod for pod in made if pod.key not in {it.key for it in fewer}] + more
    pods = Change((*changes.pods.put, *made), changes.pods.gone | frozenset(gone))
    return structs.replace(changes, at=at, nodes=nodes, pods=pods)


def owner_pods(snapshot: Snapshot, target: str) -> list[Pod]:
    """Living pods of the controller that `Kind/namespace/name` names, in canonical order."""
    kind, _, rest = target.partition("/")
    namespace, _, name = rest.partition("/")
    found = [
        pod
        for template, pods in snapshot.population.templates.items()
        if template.namespace == namespace and _owner_of(template, kind, name)
        for pod in pods
        if not pod.finished and not pod.terminating
    ]
    return sorted(found, key=by_lot)


def _owner_of(template: Template, kind: str, name: str) -> Owner | None:
    return next((it for it in template.owners if (it.kind, it.name) == (kind, name)), None)


def _nodes_put(event: Event, snapshot: Snapshot) -> tuple[Node, ...]:
    """Nodes that are applied or cordoned, as they will be."""
    put = {node.name: node for node in event.changes.nodes.put}
    for name in sorted(event.cordon):
        if node := put.get(name) or snapshot.fleet.get(name):
            put[name] = structs.replace(node, unschedulable=True)
    return tuple(put.values())


def _swept(snapshot: Snapshot, deleted: Iterable[str], nodes: Change[Node]) -> Iterator[Pod]:
    """Pods that go: deleted ones, those of nodes that go, those a node throws out."""
    for key in sorted(deleted):
        if pod := snapshot.pod(*key.split("/", 1)):
            yield pod
    for name in sorted(nodes.gone):
        yield from snapshot.population.on(name)
    for node in nodes.put:
        for taint in (it for it in node.taints if it.effect == NO_EXECUTE):
            pods = snapshot.population.on(node.name)
            yield from (pod for pod in pods if not pod.spec.tolerates(taint))


def _daemons(snapshot: Snapshot, joining: Iterable[Node]) -> list[Pod]:
    """The pods that DaemonSets make for nodes that join, already running there."""
    fleet, at = snapshot.fleet, snapshot.taken_at
    patterns: dict[str, Pod] = {}
    for template, pods in snapshot.population.templates.items():
        if template.owned_by(DAEMON_SET) and pods:
            pattern = min(pods, key=lambda pod: pod.key)
            owner = template.owners[0].uid
            patterns[owner] = min(patterns.get(owner, pattern), pattern, key=lambda pod: pod.key)
    made = []
    for node in joining:
        for pattern in sorted(patterns.values(), key=lambda pod: pod.key):
            demand = pattern.spec.demand
            suits = fleet.welcoming(demand, node.name) & fleet.tolerated_by(demand.tolerations)
            if suits & fleet.only(node.name):
                named = f"{pattern.owners[0].name}-{node.name}"
                twin = structs.replace(pattern, name=named, uid=f"{pattern.uid}+{node.name}")
                made.append(reborn(twin, node.name, at, 0))
    return made


def _scaled(
    snapshot: Snapshot, target: str, wanted: int, at: datetime
) -> tuple[list[Pod], list[Pod]]:
    """The pods that a controller takes away, and those it makes, to have as many as wanted."""
    there = owner_pods(snapshot, target)
    if not there:
        return [], []
    # As a ReplicaSet does: waiting pods go first, then the youngest.
    youngest_first = sorted(there, key=Pod.seniority, reverse=True)
    by_turn = sorted(youngest_first, key=lambda pod: pod.node != "")
    fewer = by_turn[: max(len(there) - wanted, 0)]
    pattern, taken = there[0], {pod.name for pod in there}
    names = (f"{target.rpartition('/')[2]}-more-{i}" for i in range(1, wanted + len(there) + 1))
    free = [name for name in names if name not in taken][: max(wanted - len(there), 0)]
    more = [
        reborn(structs.replace(pattern, name=name, uid=f"{pattern.uid}+{name}"), None, at, 0)
        for name in free
    ]
    return fewer, more


def together(first: Changes, second: Changes) -> Changes:
    """Two changes at one time, the second after the first."""
    fields: dict[str, Any] = {
        name: Change(
            (*(it for it in one.put if it.key not in other.gone), *other.put),
            one.gone | other.gone,
        )
        for name in Changes.__struct_fields__
        for one, other in [(getattr(first, name), getattr(second, name))]
        if isinstance(one, Change)
    }
    return Changes(at=second.at, **fields)
