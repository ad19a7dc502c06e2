"""Examples of the strategies that compare nodes."""

from __future__ import annotations

from resettle.testing import cluster, node, node_metrics, pod, pod_metrics
from tools.plugin_pages.worked import Example

_ZONE = "topology.kubernetes.io/zone"
_EVEN = {
    "maxSkew": 1,
    "topologyKey": _ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}

EXAMPLES = {
    "RemoveDuplicates": Example(
        """\
        `node-2` and `node-3` came back while all four pods of one ReplicaSet were on `node-1`. Over
        three nodes two may share one, so two of them go.
        """,
        cluster(
            node("node-1").holding(*(pod(f"web-{i}", namespace="shop") for i in range(1, 5))),
            node("node-2"),
            node("node-3"),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemoveDuplicates
            plugins:
              balance:
                enabled: [RemoveDuplicates]
        """,
    ),
    "RemovePodsViolatingTopologySpreadConstraint": Example(
        """\
        Five pods ask to lie evenly over zones, and a second zone has joined since. Two of them have
        to go for the zones to differ by no more than one.
        """,
        cluster(
            node("node-1", labels={_ZONE: "a"}).holding(
                *(
                    pod(f"web-{i}", namespace="shop", labels={"app": "web"}, spread=[_EVEN])
                    for i in range(1, 6)
                )
            ),
            node("node-2", labels={_ZONE: "b"}),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: RemovePodsViolatingTopologySpreadConstraint
                args:
                  constraints: [DoNotSchedule]
            plugins:
              balance:
                enabled: [RemovePodsViolatingTopologySpreadConstraint]
        """,
    ),
    "LowNodeUtilization": Example(
        """\
        `node-1` is nearly full, `node-2` nearly empty, and `node-3` in between, which is fine. Pods
        leave `node-1` until no more than half of its cpu is requested, those of the lowest priority
        first.
        """,
        cluster(
            node("node-1", cpu="4", memory="16Gi").holding(
                pod("cart-1", namespace="shop", cpu="1", memory="1Gi", priority=1000),
                pod("search-1", namespace="shop", cpu="1", memory="1Gi"),
                pod("search-2", namespace="shop", cpu="1", memory="1Gi"),
                pod("search-3", namespace="shop", cpu="500m", memory="1Gi"),
            ),
            node("node-2", cpu="4", memory="16Gi").holding(
                pod("web-1", namespace="shop", cpu="200m", memory="1Gi")
            ),
            node("node-3", cpu="4", memory="16Gi").holding(
                pod("web-2", namespace="shop", cpu="1500m", memory="4Gi")
            ),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: LowNodeUtilization
                args:
                  thresholds: {cpu: 20, memory: 20, pods: 20}
                  targetThresholds: {cpu: 50, memory: 50, pods: 50}
            plugins:
              balance:
                enabled: [LowNodeUtilization]
        """,
        ask="explain node node-1",
    ),
    "LowNodeLoad": Example(
        """\
        `node-1` uses 92% of its cpu, though its pods request no more than those of others would. It
        is twelve points above the high line, and of its pods `web-2` comes nearest to just that. A
        single plan knows a single sample, so one has to be enough here.
        """,
        cluster(
            node("node-1", cpu="4", memory="16Gi").holding(
                pod("web-1", namespace="shop", cpu="500m", memory="1Gi"),
                pod("web-2", namespace="shop", cpu="500m", memory="1Gi"),
                pod("search-1", namespace="shop", cpu="500m", memory="1Gi"),
            ),
            node("node-2", cpu="4", memory="16Gi"),
            node_metrics("node-1", cpu="3700m", memory="6Gi"),
            node_metrics("node-2", cpu="400m", memory="2Gi"),
            pod_metrics("web-1", namespace="shop", cpu="200m", memory="1Gi"),
            pod_metrics("web-2", namespace="shop", cpu="550m", memory="1Gi"),
            pod_metrics("search-1", namespace="shop", cpu="1400m", memory="1Gi"),
        ),
        """\
        apiVersion: resettle/v1
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: LowNodeLoad
                args:
                  lowThresholds: {cpu: 30, memory: 50}
                  highThresholds: {cpu: 80, memory: 80}
                  anomalyCondition: {consecutiveAbnormalities: 1}
            plugins:
              balance:
                enabled: [LowNodeLoad]
        """,
        ask="explain node node-1",
    ),
    "HighNodeUtilization": Example(
        """\
        Hardly anything is requested of `node-2`. Its pods would find room elsewhere, so they go,
        and an autoscaler can take the node away.
        """,
        cluster(
            node("node-1", cpu="4", memory="16Gi").holding(
                pod("cart-1", namespace="shop", cpu="1500m", memory="4Gi"),
            ),
            node("node-2", cpu="4", memory="16Gi").holding(
                pod("web-1", namespace="shop", cpu="200m", memory="1Gi"),
                pod("web-2", namespace="shop", cpu="100m", memory="1Gi"),
            ),
        ),
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: DefaultEvictor
                args:
                  nodeFit: true
              - name: HighNodeUtilization
                args:
                  thresholds: {cpu: 20, memory: 20}
            plugins:
              balance:
                enabled: [HighNodeUtilization]
        """,
    ),
}
