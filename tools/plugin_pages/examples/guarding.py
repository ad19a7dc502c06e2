"""Examples of the filter and the mover."""

from __future__ import annotations

from resettle.testing import cluster, node, pod, workload
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
    "MigrationLimits": Example(
        """\
        The strategy proposes every pod. Of the five replicas of `web` two may be away at a time:
        the pod that is not ready, and one more. `single` has one replica, and the Job would begin
        its work again.
        """,
        cluster(
            node("node-1").holding(
                pod("web-1", namespace="shop", owner="ReplicaSet/web-1"),
                pod("web-2", namespace="shop", owner="ReplicaSet/web-1"),
                pod(
                    "web-3",
                    namespace="shop",
                    owner="ReplicaSet/web-1",
                    status={"conditions": [{"type": "Ready", "status": "False"}]},
                ),
            ),
            node("node-2").holding(
                pod("web-4", namespace="shop", owner="ReplicaSet/web-1"),
                pod("web-5", namespace="shop", owner="ReplicaSet/web-1"),
                pod("single-1", namespace="shop", owner="StatefulSet/single"),
                pod("sums-1", namespace="shop", owner="Job/sums"),
            ),
            node("node-3"),
            workload("Deployment/web", namespace="shop", replicas=5),
            workload("ReplicaSet/web-1", namespace="shop", replicas=5, owner="Deployment/web"),
            workload("StatefulSet/single", namespace="shop", replicas=1),
            workload("Job/sums", namespace="shop", replicas=1),
        ),
        """\
        apiVersion: resettle/v1
        kind: DeschedulerPolicy
        maxPercentOfPodsToEvict: 100
        maxPercentOfNodesToEvictFrom: 100
        profiles:
          - name: main
            pluginConfig:
              - name: DefaultEvictor
                args:
                  minReplicas: 0
              - name: MigrationLimits
                args:
                  maxMigratingPerNode: 3
              - name: PodLifeTime
                args:
                  maxPodLifeTimeSeconds: 60
            plugins:
              deschedule:
                enabled: [PodLifeTime]
              filter:
                enabled: [MigrationLimits]
        """,
        ask="explain pod shop/single-1",
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
    "MigrationController": Example(
        """\
        The scheduler would put a duplicate back, since its own node has the most room. A job
        holds a place on the other node and keeps the replacement off the first one.
        """,
        cluster(
            node("node-1", cpu="16").holding(
                pod("web-1", namespace="shop", age="3d", cpu="500m"),
                pod("web-2", namespace="shop", age="2d", cpu="500m"),
            ),
            node("node-2", cpu="4").holding(
                pod("db-1", namespace="shop", owner="StatefulSet/db", cpu="3", age="9d")
            ),
        ),
        """\
        apiVersion: resettle/v1
        kind: DeschedulerPolicy
        profiles:
          - name: main
            pluginConfig:
              - name: MigrationController
                args: {steering: Gate}
            plugins:
              balance:
                enabled: [RemoveDuplicates]
              evict:
                enabled: [MigrationController]
        """,
    ),
}
