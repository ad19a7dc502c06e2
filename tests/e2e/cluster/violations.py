"""Finds violations in a cluster without resettle: one short function for each kind of violation.

Each returns a sentence for each violation. They know only as much of Kubernetes as the scenarios
of these suites need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

from tests.e2e.cluster.workloads import ClusterState
from tools.control_plane.api import Object

FindViolations = Callable[[ClusterState], list[str]]


def crashing_pods(cluster: ClusterState) -> list[str]:
    """Pods with a container in CrashLoopBackOff."""
    return [
        f"{_name(pod)} is in CrashLoopBackOff"
        for pod in cluster.pods
        for container in pod["status"].get("containerStatuses") or ()
        if container["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    ]


def failed_pods(cluster: ClusterState) -> list[str]:
    """Pods that have failed and are still there."""
    return [f"{_name(pod)} failed" for pod in cluster.pods if pod["status"]["phase"] == "Failed"]


def pods_with_restarts(times: int) -> FindViolations:
    """Pods whose containers have restarted so often."""

    def violations(cluster: ClusterState) -> list[str]:
        counts = {
            _name(pod): sum(
                container["restartCount"] for container in pod["status"]["containerStatuses"]
            )
            for pod in cluster.pods
        }
        return [
            f"{name} restarted {count} times" for name, count in counts.items() if count >= times
        ]

    return violations


def pods_on_tainted_nodes(cluster: ClusterState) -> list[str]:
    """Pods on nodes with a NoSchedule taint that they do not tolerate."""
    return [
        f"{_name(pod)} does not tolerate {taint['key']} of {_name(node)}"
        for pod, node in _pods_with_nodes(cluster)
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] == "NoSchedule"
        and all(
            toleration.get("key") != taint["key"]
            for toleration in pod["spec"].get("tolerations") or ()
        )
    ]


def pods_violating_affinity(cluster: ClusterState) -> list[str]:
    """Pods on nodes that lack a label which their required affinity names."""
    return [
        f"{_name(pod)} is on {_name(node)}"
        for pod, node in _pods_with_nodes(cluster)
        for term in _affinity(pod)["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        if not _matches(node, term)
    ]


def pods_off_preferred_nodes(cluster: ClusterState) -> list[str]:
    """Pods that are not on a node that they prefer, though there is one."""
    violations = []
    for pod, node in _pods_with_nodes(cluster):
        for preference in _affinity(pod)["preferredDuringSchedulingIgnoredDuringExecution"]:
            preferred_nodes = [
                node for node in cluster.nodes if _matches(node, preference["preference"])
            ]
            if preferred_nodes and node not in preferred_nodes:
                violations.append(f"{_name(pod)} is on {_name(node)}")
    return violations


def pods_sharing(key: str) -> FindViolations:
    """Pods of one app on nodes with the same value of this label."""

    def violations(cluster: ClusterState) -> list[str]:
        return [
            f"{_name(pod)} and {_name(other_pod)} share {key} {_labels(node)[key]}"
            for (pod, node), (other_pod, other_node) in combinations(_pods_with_nodes(cluster), 2)
            if _labels(pod)["app"] == _labels(other_pod)["app"]
            and _labels(node)[key] == _labels(other_node)[key]
        ]

    return violations


def duplicate_pods(cluster: ClusterState) -> list[str]:
    """Nodes with more than one pod of the same owner."""
    count = Counter(
        (_name(node), pod["metadata"]["ownerReferences"][0]["name"])
        for pod, node in _pods_with_nodes(cluster)
    )
    return [
        f"{node} has {many} copies of {owner}" for (node, owner), many in count.items() if many > 1
    ]


def uneven_spread(key: str, max_skew: int = 1) -> FindViolations:
    """Numbers of pods by value of this node label, if they differ by more than the skew."""

    def violations(cluster: ClusterState) -> list[str]:
        values = [_labels(node)[key] for node in cluster.nodes if key in _labels(node)]
        count = Counter(dict.fromkeys(values, 0))
        count.update(
            _labels(node)[key] for _, node in _pods_with_nodes(cluster) if key in _labels(node)
        )
        most, least = max(count.values()), min(count.values())
        return [f"{key}: {dict(count)}"] if most - least > max_skew else []

    return violations


def unbalanced_nodes(low: float, high: float) -> FindViolations:
    """Nodes above `high` percent of requested cpu, while others are at or below `low`."""

    def violations(cluster: ClusterState) -> list[str]:
        shares = _cpu_shares(cluster)
        if not any(share <= low for share in shares.values()):
            return []
        return [f"{node} is at {share:.0f}%" for node, share in shares.items() if share > high]

    return violations


def underused_nodes(low: float) -> FindViolations:
    """Nodes that have pods and at most `low` percent of requested cpu."""

    def violations(cluster: ClusterState) -> list[str]:
        shares = _cpu_shares(cluster)
        return [f"{node} is at {share:.0f}%" for node, share in shares.items() if 0 < share <= low]

    return violations


def _pods_with_nodes(cluster: ClusterState) -> list[tuple[Object, Object]]:
    """Each pod with its node."""
    nodes = {_name(node): node for node in cluster.nodes}
    return [
        (pod, nodes[pod["spec"]["nodeName"]]) for pod in cluster.pods if "nodeName" in pod["spec"]
    ]


def _cpu_shares(cluster: ClusterState) -> dict[str, float]:
    requested: Counter[str] = Counter()
    for pod, node in _pods_with_nodes(cluster):
        requests = (
            container["resources"]["requests"]["cpu"] for container in pod["spec"]["containers"]
        )
        requested[_name(node)] += sum(map(_milli, requests))
    return {
        _name(node): 100 * requested[_name(node)] / _milli(node["status"]["allocatable"]["cpu"])
        for node in cluster.nodes
    }


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def _affinity(pod: Object) -> Object:
    affinity: Object = pod["spec"]["affinity"]["nodeAffinity"]
    return affinity


def _matches(node: Object, term: Object) -> bool:
    return all(
        _labels(node).get(expression["key"]) in expression["values"]
        and expression["operator"] == "In"
        for expression in term["matchExpressions"]
    )


def _name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels
