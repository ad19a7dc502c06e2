"""DaemonSets and Jobs.

A DaemonSet has one pod for each node that it may run on, pinned there by the node's name. A taint
that only keeps new pods away (`NoSchedule`) lets running pods stay. A Job runs `parallelism` pods
at a time until `completions` have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.model.constraints import NO_EXECUTE
from resettle.testing.builders import Object
from resettle.testing.controllers.observed import ObservedCluster
from resettle.testing.controllers.scheduler import Models
from resettle.testing.controllers.writes import (
    Later,
    Put,
    Write,
    delete_object,
    format_time,
    free_name,
    is_active,
    is_ready,
    is_terminating,
    new_pod,
    phase,
    status_of,
)

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

    def __call__(self, observed: ObservedCluster) -> Iterator[Write | Later]:
        """Create pods on nodes that lack one, delete those that do not belong on their node."""
        for owner in observed.all("DaemonSet"):
            starting, staying = self._suitable(owner, observed)
            held: dict[str, list[Object]] = {}
            for pod in observed.owned_by(owner):
                held.setdefault(node_of(pod), []).append(pod)
            for node, pods in held.items():
                yield from _superfluous(pods, node in staying, observed)
            taken = {pod["metadata"]["name"] for pod in observed.owned_by(owner)}
            for node in starting:
                # One that is leaving keeps its node until it is gone.
                if node not in held:
                    name = free_name(owner, taken, observed)
                    taken.add(name)
                    yield Put(new_pod(owner, name, observed, spec=_pin_to_node(owner, node)))
            yield from status_of(owner, _daemon_set_status(owner, starting, observed))

    def _suitable(self, owner: Object, observed: ObservedCluster) -> tuple[list[str], set[str]]:
        """Names of the nodes where a pod may start, and of those where one may stay."""
        spec = {"tolerations": tolerations(owner)}
        pod = new_pod(owner, "sample", observed, spec=spec)
        demand = self._models.of(pod).spec.demand
        node_index = self._models.node_index(observed)
        matching = node_index.matching_node_affinity(demand, "")
        staying = matching
        for taint, nodes in node_index.untolerated_taints(demand.tolerations):
            if taint.effect == NO_EXECUTE:
                staying &= ~nodes
        starting = matching & node_index.tolerated_by(demand.tolerations)
        return (
            [node.name for node in node_index.members(starting)],
            {node.name for node in node_index.members(staying)},
        )


def tolerations(owner: Object) -> list[Object]:
    """What the owner's template tolerates, and what all pods of DaemonSets do."""
    spec = owner["spec"]["template"]["spec"]
    network = [{**_NETWORK, "effect": "NoSchedule"}] if spec.get("hostNetwork") else []
    return [*(spec.get("tolerations") or ()), *TOLERATIONS, *network]


def node_of(pod: Object) -> str:
    """The node that a pod of a DaemonSet is for, bound or not."""
    node_affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return str(pod["spec"].get("nodeName", ""))


def _pin_to_node(owner: Object, node: str) -> Object:
    """Affinity to one node, beside whatever else the template asks for."""
    pin = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    node_affinity = (owner["spec"]["template"]["spec"].get("affinity") or {}).get(
        "nodeAffinity"
    ) or {}
    terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": pin} for term in terms]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": pinned}}}
    return {"affinity": affinity, "tolerations": tolerations(owner)}


def _superfluous(pods: list[Object], wanted: bool, observed: ObservedCluster) -> Iterator[Write]:
    """Delete pods that have failed, to all where none belongs, else to all but the first."""
    kept = False
    for pod in pods:
        stays = wanted and is_active(pod) and not kept
        kept = kept or stays
        if not stays and not is_terminating(pod):
            yield from delete_object(pod, observed.now)


def _daemon_set_status(owner: Object, nodes: list[str], observed: ObservedCluster) -> Object:
    pods = [pod for pod in observed.owned_by(owner) if is_active(pod)]
    serving = sum(map(is_ready, pods))
    return {
        "desiredNumberScheduled": len(nodes),
        "currentNumberScheduled": sum(phase(pod) == "Running" for pod in pods),
        "numberReady": serving,
        "numberAvailable": serving,
        "numberMisscheduled": 0,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }


def jobs(observed: ObservedCluster) -> Iterator[Write | Later]:
    """The pods that are missing, and the deletion of those that are too many, and what is done."""
    for owner in observed.all("Job"):
        pods = observed.owned_by(owner)
        done = _done(owner, pods)
        running = [pod for pod in pods if is_active(pod)]
        wanted = _at_once(owner, done)
        taken = {pod["metadata"]["name"] for pod in pods}
        for _ in range(wanted - len(running)):
            name = free_name(owner, taken, observed)
            taken.add(name)
            labels = {"job-name": owner["metadata"]["name"]}
            spec = {"restartPolicy": _restarts(owner)}
            yield Put(new_pod(owner, name, observed, labels=labels, spec=spec))
        for pod in running[max(wanted, 0) :]:
            yield from delete_object(pod, observed.now)
        yield from status_of(owner, _job_status(owner, done, min(len(running), wanted), observed))


def _done(owner: Object, pods: list[Object]) -> int:
    """Pods that have succeeded, be they there still or only counted."""
    counted = int((owner.get("status") or {}).get("succeeded", 0))
    return max(counted, sum(phase(pod) == "Succeeded" for pod in pods))


def _completions(owner: Object) -> int:
    return int(owner["spec"].get("completions", 1))


def _at_once(owner: Object, done: int) -> int:
    if owner["spec"].get("suspend"):
        return 0
    return max(min(int(owner["spec"].get("parallelism", 1)), _completions(owner) - done), 0)


def _restarts(owner: Object) -> str:
    return str(owner["spec"]["template"]["spec"].get("restartPolicy", "Never"))


def _job_status(owner: Object, done: int, running: int, observed: ObservedCluster) -> Object:
    before = owner.get("status") or {}
    now = format_time(observed.now)
    status: Object = {
        "active": running,
        "succeeded": done,
        "startTime": before.get("startTime", now),
    }
    if done >= _completions(owner):
        status["completionTime"] = before.get("completionTime", now)
        complete = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        status["conditions"] = before.get("conditions") or [complete]
    return status
