"""Creates the cluster of a scenario on the API server, and deletes it afterwards."""

from __future__ import annotations

from types import TracebackType

from tests.e2e.cluster.workspace import eventually
from tests.e2e.random_clusters.scenarios import Scenario
from tools.control_plane.api import Api, Object

CORE, APPS, POLICY = "/api/v1", "/apis/apps/v1", "/apis/policy/v1"
WORKLOAD_PATHS = {
    "Deployment": f"{APPS}/namespaces/{{}}/deployments",
    "ReplicaSet": f"{APPS}/namespaces/{{}}/replicasets",
    "StatefulSet": f"{APPS}/namespaces/{{}}/statefulsets",
}
"""Paths of workloads; a kind that creates others stands before those."""


class ScenarioCluster:
    """The only cluster on the API server while the block lasts."""

    def __init__(self, api: Api, scenario: Scenario) -> None:
        self.api, self._scenario = api, scenario
        self.namespace = scenario.namespace
        self._pods = f"{CORE}/namespaces/{self.namespace}/pods"
        self._budgets = f"{POLICY}/namespaces/{self.namespace}/poddisruptionbudgets"

    def __enter__(self) -> ScenarioCluster:
        """Creates the cluster, in the state that the policy should improve."""
        try:
            self._create()
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Deletes everything."""
        self._delete()

    def _create(self) -> None:
        scenario, api = self._scenario, self.api
        assert not api.items(f"{CORE}/nodes"), "nodes of another test are still there"
        api.post(f"{CORE}/namespaces", {"metadata": {"name": self.namespace}}).granted()
        account = f"{CORE}/namespaces/{self.namespace}/serviceaccounts/default"
        eventually("the default account", lambda: api.get(account).fine)
        for node in scenario.nodes:
            api.post(f"{CORE}/nodes", node).granted()
        for workload in scenario.workloads:
            api.post(WORKLOAD_PATHS[workload["kind"]].format(self.namespace), workload).granted()
        for budget in scenario.budgets:
            api.post(self._budgets, budget).granted()
        eventually(
            f"{self.namespace}: each pod scheduled or unschedulable",
            self._is_scheduled_as_far_as_possible,
        )
        for node in scenario.late_nodes:
            api.post(f"{CORE}/nodes", node).granted()
        eventually(f"{self.namespace}: all pods running", self.is_stable)
        for name, change in scenario.changes.items():
            api.patch(f"{CORE}/nodes/{name}", change).granted()
        eventually(f"{self.namespace}: up-to-date budgets", self._has_current_budgets)

    def is_stable(self) -> bool:
        """Whether all replicas run and no pod is being deleted."""
        return self.is_complete() and not any(map(_is_deleting, self.api.items(self._pods)))

    def is_complete(self) -> bool:
        """Whether all replicas run, without pods that are being deleted."""
        pods = self.api.items(self._pods)
        return (
            sum(_is_running(pod) and not _is_deleting(pod) for pod in pods)
            == self._scenario.replicas
        )

    def _is_scheduled_as_far_as_possible(self) -> bool:
        """Whether each pod runs or is marked unschedulable."""
        pods = self.api.items(self._pods)
        return len(pods) == self._scenario.replicas and all(map(_is_running_or_unschedulable, pods))

    def _has_current_budgets(self) -> bool:
        """Whether the status of each budget counts all its pods."""
        statuses = [budget.get("status") or {} for budget in self.api.items(self._budgets)]
        return all(
            status.get("expectedPods") and status["currentHealthy"] == status["expectedPods"]
            for status in statuses
        )

    def _delete(self) -> None:
        for path in WORKLOAD_PATHS.values():
            self.api.delete(path.format(self.namespace))
        self.api.delete(self._budgets)
        eventually(f"no pods in {self.namespace}", self._delete_pods)
        for node in [*self._scenario.nodes, *self._scenario.late_nodes]:
            self.api.delete(f"{CORE}/nodes/{node['metadata']['name']}")
        self.api.delete(f"{CORE}/namespaces/{self.namespace}")

    def _delete_pods(self) -> bool:
        self.api.delete(self._pods, grace_seconds=0)
        return not self.api.items(self._pods)


def _is_deleting(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_running(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _is_running_or_unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return _is_running(pod) or any(
        condition.get("reason") == "Unschedulable" for condition in conditions
    )
