"""Examples of the filter and the mover."""

from __future__ import annotations

from resettle.testing import cluster, node, pod
from tools.plugin_pages.worked import Example

EXAMPLES = {
    "DefaultEvictor": Example(
        """\
        The strategy proposes every pod. The filter refuses those that should not be moved: pods
        of DaemonSets, of the system itself, with data on their node, without an owner, and, as this
        policy asks, pods that have just started and the only pod of an owner.
        """,
        cluster(
            node("node-1").holding(
                pod("web-1", namespace="shop", owner="ReplicaSet/web"),
                pod("web-2", namespace="shop", owner="ReplicaSet/web", age="2m"),
                pod("single-1", namespace="shop", owner="ReplicaSet/single"),
                pod("agent-1", namespace="shop", owner="DaemonSet/agent"),
                pod("vital-1", namespace="shop", priority=2_000_000_000),
                pod("bare", namespace="shop", owner=None),
                pod("cache-1", namespace="shop", volumes=[{"name": "data", "emptyDir": {}}]),
            ),
            node("node-2"),
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
                  minReplicas: 2
                  minPodAge: 10m
              - name: PodLifeTime
                args:
                  maxPodLifeTimeSeconds: 60
            plugins:
              deschedule:
                enabled: [PodLifeTime]
        """,
        ask="explain pod shop/cache-1",
    ),
    "EvictionAPI": Example(
        """\
        A profile of `resettle/v1` names its mover. The plan is the same with any mover: movers
        are used only when it is executed.
        """,
        cluster(
            node("node-1").holding(
                pod("web-1", namespace="shop", age="3d"), pod("web-2", namespace="shop", age="2h")
            ),
            node("node-2"),
        ),
        """\
        apiVersion: resettle/v1
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: PodLifeTime
                args: {maxPodLifeTimeSeconds: 86400}
            plugins:
              deschedule:
                enabled: [PodLifeTime]
              evict:
                enabled: [EvictionAPI]
        """,
    ),
}
