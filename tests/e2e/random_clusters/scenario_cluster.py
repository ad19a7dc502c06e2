"""A grown cluster on the API server, from its first node until it is cleared away."""

from __future__ import annotations

from types import TracebackType

from tests.e2e.cluster.workspace import eventually
from tests.e2e.random_clusters.scenarios import Grown
from tools.control_plane.api import Api, Object

CORE, APPS, POLICY = "/api/v1", "/apis/apps/v1", "/apis/policy/v1"
PLACES = {
    "Deployment": f"{APPS}/namespaces/{{}}/deployments",
    "ReplicaSet": f"{APPS}/namespaces/{{}}/replicasets",
    "StatefulSet": f"{APPS}/namespaces/{{}}/statefulsets",
}
"""Where workloads are, the one that makes others before those it makes."""


class Settlement:
    """The only cluster on the API server, for as long as the block lasts."""

    def __init__(self, api: Api, plan: Grown) -> None:
        self.api, self._plan = api, plan
        self.home = plan.namespace
        self._pods = f"{CORE}/namespaces/{self.home}/pods"
        self._budgets = f"{POLICY}/namespaces/{self.home}/poddisruptionbudgets"

    def __enter__(self) -> Settlement:
        """The cluster on the day on which it is tidied up."""
        try:
            self._grow()
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clears everything away."""
        self._clear()

    def _grow(self) -> None:
        plan, api = self._plan, self.api
        assert not api.items(f"{CORE}/nodes"), "somebody else's nodes are still there"
        api.post(f"{CORE}/namespaces", {"metadata": {"name": self.home}}).granted()
        account = f"{CORE}/namespaces/{self.home}/serviceaccounts/default"
        eventually("the default account", lambda: api.get(account).fine)
        for machine in plan.nodes:
            api.post(f"{CORE}/nodes", machine).granted()
        for workload in plan.workloads:
            api.post(PLACES[workload["kind"]].format(self.home), workload).granted()
        for budget in plan.budgets:
            api.post(self._budgets, budget).granted()
        eventually(f"{self.home}: everybody looked at", self._looked_at)
        for machine in plan.latecomers:
            api.post(f"{CORE}/nodes", machine).granted()
        eventually(f"{self.home}: a place for everybody", self.at_rest)
        for name, change in plan.changes.items():
            api.patch(f"{CORE}/nodes/{name}", change).granted()
        eventually(f"{self.home}: budgets that are reckoned with", self._reckoned)

    def at_rest(self) -> bool:
        """Whether all pods that should be there run, and nobody is leaving."""
        return self.complete() and not any(map(_leaving, self.api.items(self._pods)))

    def complete(self) -> bool:
        """Whether as many pods as should be there run and stay."""
        pods = self.api.items(self._pods)
        return sum(_running(it) and not _leaving(it) for it in pods) == self._plan.replicas

    def _looked_at(self) -> bool:
        """Whether each pod runs, or has been told that no node takes it for now."""
        pods = self.api.items(self._pods)
        return len(pods) == self._plan.replicas and all(map(_running_or_unschedulable, pods))

    def _reckoned(self) -> bool:
        """Whether the budgets know of all pods."""
        found = [it.get("status") or {} for it in self.api.items(self._budgets)]
        return all(
            it.get("expectedPods") and it["currentHealthy"] == it["expectedPods"] for it in found
        )

    def _clear(self) -> None:
        for place in PLACES.values():
            self.api.delete(place.format(self.home))
        self.api.delete(self._budgets)
        eventually(f"nobody in {self.home}", self._emptied)
        for machine in [*self._plan.nodes, *self._plan.latecomers]:
            self.api.delete(f"{CORE}/nodes/{machine['metadata']['name']}")
        self.api.delete(f"{CORE}/namespaces/{self.home}")

    def _emptied(self) -> bool:
        self.api.delete(self._pods, grace_seconds=0)
        return not self.api.items(self._pods)


def _leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _running(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _running_or_unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return _running(pod) or any(it.get("reason") == "Unschedulable" for it in conditions)
