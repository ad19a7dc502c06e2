"""What is wrong with a cluster, told without resettle: one short function for each kind of wrong.

Each answers with sentences, none where all is well. They know as much of Kubernetes as the worlds
of these suites need, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

from tests.e2e.cluster.workloads import World
from tools.control_plane.api import Object

Wrongs = Callable[[World], list[str]]


def crashing_pods(world: World) -> list[str]:
    """Pods with a container that waits for its next start."""
    return [
        f"{_name(pod)} is in CrashLoopBackOff"
        for pod in world.pods
        for told in pod["status"].get("containerStatuses") or ()
        if told["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    ]


def failed_pods(world: World) -> list[str]:
    """Pods that have failed and are still there."""
    return [f"{_name(pod)} failed" for pod in world.pods if pod["status"]["phase"] == "Failed"]


def restless_pods(times: int) -> Wrongs:
    """Pods whose containers have restarted so often."""

    def found(world: World) -> list[str]:
        counts = {
            _name(pod): sum(it["restartCount"] for it in pod["status"]["containerStatuses"])
            for pod in world.pods
        }
        return [
            f"{name} restarted {count} times" for name, count in counts.items() if count >= times
        ]

    return found


def pods_on_tainted_nodes(world: World) -> list[str]:
    """Pods on nodes with a taint that keeps newcomers out and that they do not tolerate."""
    return [
        f"{_name(pod)} does not tolerate {taint['key']} of {_name(node)}"
        for pod, node in _placed(world)
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] == "NoSchedule"
        and all(it.get("key") != taint["key"] for it in pod["spec"].get("tolerations") or ())
    ]


def pods_off_their_nodes(world: World) -> list[str]:
    """Pods on nodes that lack a label which their required affinity names."""
    return [
        f"{_name(pod)} is on {_name(node)}"
        for pod, node in _placed(world)
        for term in _affinity(pod)["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        if not _matches(node, term)
    ]


def pods_off_preferred_nodes(world: World) -> list[str]:
    """Pods on nodes of which they prefer others."""
    found = []
    for pod, node in _placed(world):
        for wish in _affinity(pod)["preferredDuringSchedulingIgnoredDuringExecution"]:
            liked = [it for it in world.nodes if _matches(it, wish["preference"])]
            if liked and node not in liked:
                found.append(f"{_name(pod)} is on {_name(node)}")
    return found


def pods_too_near(key: str) -> Wrongs:
    """Pods of one app that share a value of the node label, where none should."""

    def found(world: World) -> list[str]:
        return [
            f"{_name(one)} and {_name(other)} share {key} {_labels(here)[key]}"
            for (one, here), (other, there) in combinations(_placed(world), 2)
            if _labels(one)["app"] == _labels(other)["app"]
            and _labels(here)[key] == _labels(there)[key]
        ]

    return found


def copies_on_one_node(world: World) -> list[str]:
    """Nodes with more than one pod of an owner."""
    count = Counter(
        (_name(node), pod["metadata"]["ownerReferences"][0]["name"]) for pod, node in _placed(world)
    )
    return [
        f"{node} has {many} copies of {owner}" for (node, owner), many in count.items() if many > 1
    ]


def uneven(key: str, max_skew: int = 1) -> Wrongs:
    """Values of the node label of which one has more pods than another by over the skew."""

    def found(world: World) -> list[str]:
        values = [_labels(node)[key] for node in world.nodes if key in _labels(node)]
        count = Counter(dict.fromkeys(values, 0))
        count.update(_labels(node)[key] for _, node in _placed(world) if key in _labels(node))
        most, least = max(count.values()), min(count.values())
        return [f"{key}: {dict(count)}"] if most - least > max_skew else []

    return found


def lopsided(low: float, high: float) -> Wrongs:
    """Nodes above one share of their cpu, while others are at or below another."""

    def found(world: World) -> list[str]:
        shares = _cpu_shares(world)
        if not any(share <= low for share in shares.values()):
            return []
        return [f"{node} is at {share:.0f}%" for node, share in shares.items() if share > high]

    return found


def hardly_used(low: float) -> Wrongs:
    """Nodes that have pods, and of whose cpu no more than a share is asked for."""

    def found(world: World) -> list[str]:
        shares = _cpu_shares(world)
        return [f"{node} is at {share:.0f}%" for node, share in shares.items() if 0 < share <= low]

    return found


def _placed(world: World) -> list[tuple[Object, Object]]:
    """Each pod with its node."""
    nodes = {_name(node): node for node in world.nodes}
    return [
        (pod, nodes[pod["spec"]["nodeName"]]) for pod in world.pods if "nodeName" in pod["spec"]
    ]


def _cpu_shares(world: World) -> dict[str, float]:
    asked: Counter[str] = Counter()
    for pod, node in _placed(world):
        wanted = (it["resources"]["requests"]["cpu"] for it in pod["spec"]["containers"])
        asked[_name(node)] += sum(map(_milli, wanted))
    return {
        _name(node): 100 * asked[_name(node)] / _milli(node["status"]["allocatable"]["cpu"])
        for node in world.nodes
    }


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def _affinity(pod: Object) -> Object:
    wishes: Object = pod["spec"]["affinity"]["nodeAffinity"]
    return wishes


def _matches(node: Object, term: Object) -> bool:
    return all(
        _labels(node).get(it["key"]) in it["values"] and it["operator"] == "In"
        for it in term["matchExpressions"]
    )


def _name(it: Object) -> str:
    name: str = it["metadata"]["name"]
    return name


def _labels(it: Object) -> dict[str, str]:
    labels: dict[str, str] = it["metadata"].get("labels") or {}
    return labels
