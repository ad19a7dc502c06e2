"""DaemonSets: one pod for each node that it may run on, pinned there by the node's name.

A taint that only keeps new pods away (`NoSchedule`) lets those that are there stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.model.taint import NO_EXECUTE
from resettle.testing.life.births import active, free_name, leaving, newborn, phase, ready
from resettle.testing.life.models import Models
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, farewell, status_of
from resettle.testing.objects import Object

_ENDURED = (
    *(("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("unschedulable", "NoSchedule")),
    *((f"{what}-pressure", "NoSchedule") for what in ("disk", "memory", "pid")),
)
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": effect}
    for what, effect in _ENDURED
]
"""What every pod of a DaemonSet puts up with."""
_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSets:
    """The controller; it asks the planner's own code which nodes suit a pod."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def __call__(self, seen: Sight) -> Iterator[Write | Later]:
        """Pods for nodes that lack one, farewells to those that do not belong where they are."""
        for owner in seen.all("DaemonSet"):
            starting, staying = self._suitable(owner, seen)
            held: dict[str, list[Object]] = {}
            for pod in seen.owned_by(owner):
                held.setdefault(node_of(pod), []).append(pod)
            for node, pods in held.items():
                yield from _superfluous(pods, node in staying, seen)
            taken = {pod["metadata"]["name"] for pod in seen.owned_by(owner)}
            for node in starting:
                # One that is leaving keeps its node until it is gone.
                if node not in held:
                    name = free_name(owner, taken, seen)
                    taken.add(name)
                    yield Put(newborn(owner, name, seen, spec=_pinned(owner, node)))
            yield from status_of(owner, _status(owner, starting, seen))

    def _suitable(self, owner: Object, seen: Sight) -> tuple[list[str], set[str]]:
        """Names of the nodes where a pod may start, and of those where one may stay."""
        spec = {"tolerations": tolerations(owner)}
        pod = newborn(owner, "sample", seen, spec=spec)
        demand = self._models.of(pod).spec.demand
        fleet = self._models.fleet(seen)
        liked = fleet.welcoming(demand, "")
        staying = liked
        for taint, nodes in fleet.keeping_away(demand.tolerations):
            if taint.effect == NO_EXECUTE:
                staying &= ~nodes
        starting = liked & fleet.tolerated_by(demand.tolerations)
        return (
            [node.name for node in fleet.members(starting)],
            {node.name for node in fleet.members(staying)},
        )


def tolerations(owner: Object) -> list[Object]:
    """What the owner's template tolerates, and what all pods of DaemonSets do."""
    spec = owner["spec"]["template"]["spec"]
    network = [{**_NETWORK, "effect": "NoSchedule"}] if spec.get("hostNetwork") else []
    return [*(spec.get("tolerations") or ()), *TOLERATIONS, *network]


def node_of(pod: Object) -> str:
    """The node that a pod of a DaemonSet is for, bound or not."""
    wish = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (wish.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return str(pod["spec"].get("nodeName", ""))


def _pinned(owner: Object, node: str) -> Object:
    """Affinity to one node, beside whatever else the template asks for."""
    pin = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    wish = (owner["spec"]["template"]["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (wish.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": pin} for term in terms]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": pinned}}}
    return {"affinity": affinity, "tolerations": tolerations(owner)}


def _superfluous(pods: list[Object], wanted: bool, seen: Sight) -> Iterator[Write]:
    """Farewells to pods that have failed, to all where none belongs, else to all but the first."""
    kept = False
    for pod in pods:
        stays = wanted and active(pod) and not kept
        kept = kept or stays
        if not stays and not leaving(pod):
            yield from farewell(pod, seen.now)


def _status(owner: Object, nodes: list[str], seen: Sight) -> Object:
    pods = [pod for pod in seen.owned_by(owner) if active(pod)]
    serving = sum(map(ready, pods))
    return {
        "desiredNumberScheduled": len(nodes),
        "currentNumberScheduled": sum(phase(pod) == "Running" for pod in pods),
        "numberReady": serving,
        "numberAvailable": serving,
        "numberMisscheduled": 0,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
