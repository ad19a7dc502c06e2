"""Examples of the strategies that look at each pod."""

from __future__ import annotations

from resettle.testing import cluster, node, pod
from resettle.testing.builders import Object
from tools.plugin_pages.worked import Example

_SSD = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{"matchExpressions": [
        {"key": "disk", "operator": "In", "values": ["ssd"]}
    ]}]
}}}  # fmt: skip
_BATCH = {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}


def _failed(name: str, age: str, reason: str) -> Object:
    return pod(name, namespace="shop", age=age, phase="Failed", status={"reason": reason})


EXAMPLES = {
    "PodLifeTime": Example(
        """\
        Pods are to live for a week. Three have lived longer: the oldest one goes, the next meets
        the limit of one move in a cycle, and the one in `kube-system` is not looked at.
        """,
        cluster(
            node("node-1").holding(
                pod("api-1", namespace="shop", age="10d"),
                pod("api-2", namespace="shop", age="8d"),
                pod("api-3", namespace="shop", age="3d"),
                pod("dns-1", namespace="kube-system", age="90d"),
            ),
            node("node-2"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        maxNoOfPodsToEvictTotal: 1
        profiles:
          - name: main
            pluginConfig:
              - name: PodLifeTime
                args:
                  maxPodLifeTimeSeconds: 604800
                  namespaces:
                    exclude: [kube-system]
            plugins:
              deschedule:
                enabled: [PodLifeTime]
        """,
    ),
    "RemoveFailedPods": Example(
        """\
        Two pods failed because their node had lost its labels; the one that failed ten minutes ago
        is too young. A third failed for a reason that the policy does not name.
        """,
        cluster(
            node("node-1").holding(
                _failed("report-1", "2h", "NodeAffinity"),
                _failed("report-2", "10m", "NodeAffinity"),
                _failed("report-3", "3h", "DeadlineExceeded"),
            ),
            node("node-2"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemoveFailedPods
                args:
                  reasons: [NodeAffinity, OOMKilled]
                  minPodLifetimeSeconds: 3600
            plugins:
              deschedule:
                enabled: [RemoveFailedPods]
        """,
        ask="explain node node-1",
    ),
    "RemovePodsHavingTooManyRestarts": Example(
        """\
        A threshold of 100 restarts: the pod that has exactly so many goes too, after the one that
        has more.
        """,
        cluster(
            node("node-1").holding(
                pod("search-1", namespace="shop", restarts=99),
                pod("search-2", namespace="shop", restarts=100),
                pod("search-3", namespace="shop", restarts=240),
            ),
            node("node-2"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemovePodsHavingTooManyRestarts
                args:
                  podRestartThreshold: 100
            plugins:
              deschedule:
                enabled: [RemovePodsHavingTooManyRestarts]
        """,
    ),
    "RemovePodsViolatingNodeTaints": Example(
        """\
        `node-1` has been set aside for batch work. The pod that tolerates the taint stays, the
        others go; a cordon would not move anybody, since the policy leaves that taint out.
        """,
        cluster(
            node("node-1", taints=["dedicated=batch:NoSchedule"]).holding(
                pod("cart-1", namespace="shop"),
                pod("cart-2", namespace="shop"),
                pod("report-1", namespace="shop", tolerations=[_BATCH]),
            ),
            node("node-2"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemovePodsViolatingNodeTaints
                args:
                  excludedTaints:
                    - node.kubernetes.io/unschedulable
            plugins:
              deschedule:
                enabled: [RemovePodsViolatingNodeTaints]
        """,
    ),
    "RemovePodsViolatingNodeAffinity": Example(
        """\
        Two pods require a node with an SSD. `node-1` has lost that label, `node-2` has it, so the
        pod on `node-1` goes.
        """,
        cluster(
            node("node-1", labels={"disk": "hdd"}).holding(
                pod("db-1", namespace="shop", affinity=_SSD),
                pod("web-1", namespace="shop"),
            ),
            node("node-2", labels={"disk": "ssd"}).holding(
                pod("db-2", namespace="shop", affinity=_SSD)
            ),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemovePodsViolatingNodeAffinity
                args:
                  nodeAffinityType:
                    - requiredDuringSchedulingIgnoredDuringExecution
            plugins:
              deschedule:
                enabled: [RemovePodsViolatingNodeAffinity]
        """,
    ),
    "RemovePodsViolatingInterPodAntiAffinity": Example(
        """\
        `cart-1` and `cart-2` keep away from pods of their own kind and have ended up on one node
        all the same. One of them going is enough: the one of lower priority.
        """,
        cluster(
            node("node-1").holding(
                *(
                    pod(
                        name,
                        namespace="shop",
                        labels={"app": "cart"},
                        away_from={"app": "cart"},
                        priority=priority,
                    )
                    for name, priority in (("cart-1", 1000), ("cart-2", 0))
                ),
            ),
            node("node-2"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemovePodsViolatingInterPodAntiAffinity
            plugins:
              deschedule:
                enabled: [RemovePodsViolatingInterPodAntiAffinity]
        """,
        ask="explain pod shop/cart-1",
    ),
}
