"""kube-scheduler's default filters once more, pod by pod and node by node.

Written from the rules alone, on the objects of the API as they are, and slow: what the planner
works out with bitmaps and indexes is held against this. Nothing of resettle is used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.oracle import node_rules, pod_affinity, resources, topology_spread, volumes
from tests.oracle.cluster_state import Placed, key_of, world_of
from tests.oracle.selectors import Object

FINISHED = ("Succeeded", "Failed")


class Oracle:
    """A cluster in which pods can be moved, and what its scheduler would say to that."""

    def __init__(self, objects: Iterable[Object]) -> None:
        objects = list(objects)
        self._world = world_of(objects)
        self._pods: dict[str, Object] = {}
        self._home: dict[str, str] = {}
        for manifest in objects:
            if manifest["kind"] == "Pod" and manifest["status"].get("phase") not in FINISHED:
                self._pods[key_of(manifest)] = manifest
                self._home[key_of(manifest)] = manifest["spec"].get("nodeName") or ""

    def __copy__(self) -> Oracle:
        """The same cluster, to try a move in."""
        twin = object.__new__(Oracle)
        twin._world, twin._pods, twin._home = self._world, dict(self._pods), dict(self._home)
        return twin

    def refuses(self, pod: str, node: str) -> str | None:
        """Why the pod's replacement could not be scheduled onto the node, or None if it could."""
        world, replacement, there = self._world, self._pods[pod], self._world.nodes[node]
        others = [other for other in self._placed() if other.key != pod]
        here = [other.pod for other in others if other.node is there]
        return (
            _unknowable(replacement)
            or node_rules.refusal(replacement, there)
            or resources.refusal(replacement, there, here)
            or volumes.refusal(replacement, there, others, world)
            or topology_spread.refusal(replacement, there, others, world.nodes)
            or pod_affinity.refusal(replacement, there, others, world.namespaces)
        )

    def move(self, pod: str, node: str) -> None:
        """The pod is gone; one with the same labels, spec and claims runs on the node."""
        gone = self._pods[pod]["metadata"]
        # The name is a new one, and with it the claims that are made for one pod alone.
        meta = {**gone, "name": f"{gone['name']}-again", "deletionTimestamp": None}
        self._pods[pod] = {**self._pods[pod], "metadata": meta}
        self._home[pod] = node

    def broken(self) -> frozenset[str]:
        """What does not hold now, each as a sentence that stays the same while it does not."""
        return frozenset(self._complaints())

    def _complaints(self) -> Iterator[str]:
        world, placed = self._world, self._placed()
        for name, node in world.nodes.items():
            here = [other.pod for other in placed if other.node is node]
            for problem in (*_overfull(node, here), *volumes.overfull(node, here, world)):
                yield f"node {name}: too much of {problem}"
        for key, pod, node in (other for other in placed if not other.terminating):
            others = [other for other in placed if other.key != key]
            if not node_rules.suits(pod, node):
                yield f"{key}: not on a node that it asks for"
            if node_rules.untolerated(pod, node):
                yield f"{key}: on a node with a taint that it does not tolerate"
            for other in pod_affinity.too_near(pod, node, others, world.namespaces):
                yield f"{key}: not kept away from {other.key}"
            for topology in pod_affinity.forsaken(pod, node, others, world.namespaces):
                yield f"{key}: not near those it wants in its {topology}"
            for topology in topology_spread.lopsided(pod, placed, world.nodes):
                yield f"{key}: not spread over {topology}"
            for volume in volumes.out_of_reach(pod, node, world):
                yield f"{key}: volume {volume} out of reach"

    def _placed(self) -> list[Placed]:
        nodes = self._world.nodes
        return [
            Placed(key, pod, nodes[self._home[key]])
            for key, pod in self._pods.items()
            if self._home[key] in nodes
        ]


def _unknowable(pod: Object) -> str | None:
    if pod["spec"].get("resourceClaims"):
        return "the snapshot does not know its devices"
    if pod["spec"].get("schedulingGates"):
        return "it is held back by scheduling gates"
    return None


def _overfull(node: Object, here: list[Object]) -> Iterator[str]:
    """What is asked of the node more often, or more of, than it has."""
    offered = resources.allocatable(node)
    if len(here) > offered.get("pods", 0):
        yield "pods"
    wanted = [resources.requests(pod) for pod in here]
    for resource in {name for asked in wanted for name in asked}:
        if sum(asked.get(resource, 0) for asked in wanted) > offered.get(resource, 0):
            yield resource
    for i, pod in enumerate(here):
        used = [port for other in here[:i] for port in resources.ports(other)]
        for port in resources.ports(pod):
            if any(resources.clash(port, other) for other in used):
                yield f"host port {port[0]}/{port[1]}"
