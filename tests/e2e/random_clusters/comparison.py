"""Compares the feasible nodes of the planner with those of a real scheduler, for one cluster."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from resettle.model.pod import Pod
from resettle.placement.projection import Projection
from resettle.testing import World
from tests.e2e.random_clusters.scheduler_probe import SchedulerProbe
from tests.e2e.random_clusters.static_cluster import StaticCluster
from tests.oracle.cluster_state import key_of
from tests.oracle.node_rules import ready
from tests.oracle.resources import ports

Object = dict[str, Any]
TRIES = 3


class Comparison:
    """The feasible nodes of the pods of one cluster, by the planner and by the scheduler."""

    def __init__(
        self, objects: list[Object], static_cluster: StaticCluster, probe: SchedulerProbe
    ) -> None:
        self._static_cluster, self._probe = static_cluster, probe
        self._snapshot = World(objects).snapshot()
        self._projection = Projection(self._snapshot)
        self._posted = {key_of(obj): obj for obj in objects if obj["kind"] == "Pod"}
        self._ready = {
            obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node" and ready(obj)
        }

    def movable_pods(self, count: int, rng: Random) -> list[Pod]:
        """At most so many pods that could move, chosen at random.

        The scheduler forgets a host port once one of two pods that share it is deleted, so such
        pods, which no node would have admitted, are left out. A claim that was created for one pod
        is deleted with it, so at most one such pod is chosen, as the last.
        """
        placed = [pod for pod in self._snapshot.pods if pod.node and not pod.finished]
        port_counts = Counter(
            (pod.node, port) for pod in placed for port in ports(self._posted[pod.key])
        )
        movable = [
            pod
            for pod in placed
            if not pod.terminating
            and all(port_counts[pod.node, port] == 1 for port in ports(self._posted[pod.key]))
        ]
        chosen = rng.sample(movable, min(count, len(movable)))
        plain = [pod for pod in chosen if not pod.own_claims]
        return plain + [pod for pod in chosen if pod.own_claims][:1]

    def difference(self, pod: Pod) -> str | None:
        """Deletes the pod; returns how planner and scheduler differ about it, or None."""
        feasible_nodes = self.feasible_nodes(pod)
        self._static_cluster.delete_pod(self._posted[pod.key])
        # The scheduler receives nodes, volumes and pods by separate watches, so it is asked again
        # before a difference counts.
        for left in reversed(range(TRIES)):
            result = self._probe.ask(self._posted[pod.key], with_message=not left)
            scheduler_nodes = result.nodes & self._ready
            if scheduler_nodes == feasible_nodes:
                return None
        rejections = self._projection.ruled_out(pod, self._snapshot.node_index.all_nodes)
        ruled_out = {ground.says: self._names(ground.nodes) for ground in rejections}
        return (
            f"{pod.key}: the planner sees {sorted(feasible_nodes)} and rules out {ruled_out}; "
            f"the scheduler sees {sorted(scheduler_nodes)} and says: {result.message}"
        )

    def feasible_nodes(self, pod: Pod) -> frozenset[str]:
        """The nodes that the planner finds feasible for the pod."""
        return frozenset(self._names(self._projection.feasible_nodes(pod)))

    def put_back(self, pod: Pod) -> None:
        """Creates the pod again where it was, unless its own claim was deleted with it."""
        if not pod.own_claims:
            self._static_cluster.create_pod(self._posted[pod.key])

    def move(self, pod: Pod, rng: Random) -> None:
        """Creates a replacement of the pod on one of the feasible nodes, if there are any."""
        node_names = sorted(self.feasible_nodes(pod))
        if not node_names or pod.own_claims:
            self.put_back(pod)
            return
        node_name, old = rng.choice(node_names), self._posted[pod.key]
        meta = {**old["metadata"], "name": f"{old['metadata']['name']}-again"}
        new = {**old, "metadata": meta, "spec": {**old["spec"], "nodeName": node_name}}
        self._posted[pod.key] = new
        self._static_cluster.create_pod(new)
        self._projection.move(pod, node_name)

    def _names(self, nodes: int) -> list[str]:
        return [node.name for node in self._snapshot.node_index.members(nodes)]
