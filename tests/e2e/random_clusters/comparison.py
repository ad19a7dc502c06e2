"""The planner's idea of one cluster beside that of a real scheduler."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from resettle.model.pod import Pod
from resettle.placement.projection import Projection
from resettle.testing import World
from tests.e2e.random_clusters.scheduler_probe import Prober
from tests.e2e.random_clusters.static_cluster import Stage
from tests.oracle.cluster_state import key_of
from tests.oracle.node_rules import ready
from tests.oracle.resources import ports

Object = dict[str, Any]
TRIES = 3


class Judge:
    """A cluster that is on the stage, and what the two say about its pods."""

    def __init__(self, objects: list[Object], stage: Stage, prober: Prober) -> None:
        self._stage, self._prober = stage, prober
        self._snapshot = World(objects).snapshot()
        self._projection = Projection(self._snapshot)
        self._posted = {key_of(it): it for it in objects if it["kind"] == "Pod"}
        self._ready = {
            it["metadata"]["name"] for it in objects if it["kind"] == "Node" and ready(it)
        }

    def some_pods(self, count: int, lots: Random) -> list[Pod]:
        """Pods that could move, so many at most.

        The scheduler forgets a host port once one of two pods leaves that share it, so pods that
        share one, which no node would have let happen, are not asked about. What is made for one
        pod alone goes with it, so at most one such pod is asked about, and last.
        """
        there = [pod for pod in self._snapshot.pods if pod.node and not pod.finished]
        opened = Counter((pod.node, port) for pod in there for port in ports(self._posted[pod.key]))
        able = [
            pod
            for pod in there
            if not pod.terminating
            and all(opened[pod.node, port] == 1 for port in ports(self._posted[pod.key]))
        ]
        chosen = lots.sample(able, min(count, len(able)))
        plain = [pod for pod in chosen if not pod.own_claims]
        return plain + [pod for pod in chosen if pod.own_claims][:1]

    def difference(self, pod: Pod) -> str | None:
        """What the two think of differently about the pod, in words; it is off the stage then."""
        takers = self.takers(pod)
        self._stage.take(self._posted[pod.key])
        # What the scheduler hears of nodes, volumes and pods comes by different ways; it is asked
        # again before a difference is believed.
        for left in reversed(range(TRIES)):
            found = self._prober.ask(self._posted[pod.key], in_words=not left)
            places = found.nodes & self._ready
            if places == takers:
                return None
        why = self._projection.ruled_out(pod, self._snapshot.node_index.all_nodes)
        out = {ground.says: self._names(ground.nodes) for ground in why}
        return (
            f"{pod.key}: the planner sees {sorted(takers)} and rules out {out}; "
            f"the scheduler sees {sorted(places)} and says: {found.said}"
        )

    def takers(self, pod: Pod) -> frozenset[str]:
        """Where the planner sees a place for the pod."""
        return frozenset(self._names(self._projection.feasible_nodes(pod)))

    def put_back(self, pod: Pod) -> None:
        """Has the pod where it was again, unless something of its own has gone with it."""
        if not pod.own_claims:
            self._stage.put(self._posted[pod.key])

    def move(self, pod: Pod, lots: Random) -> None:
        """Has a replacement of the pod on one of the nodes that would take it, if there are any."""
        places = sorted(self.takers(pod))
        if not places or pod.own_claims:
            self.put_back(pod)
            return
        place, old = lots.choice(places), self._posted[pod.key]
        meta = {**old["metadata"], "name": f"{old['metadata']['name']}-again"}
        new = {**old, "metadata": meta, "spec": {**old["spec"], "nodeName": place}}
        self._posted[pod.key] = new
        self._stage.put(new)
        self._projection.move(pod, place)

    def _names(self, nodes: int) -> list[str]:
        return [node.name for node in self._snapshot.node_index.members(nodes)]
