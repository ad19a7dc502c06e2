"""The shop: eight nodes in three zones, some fifty pods, and a policy for them."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.testing.life.workloads import (
    daemon_set,
    deployment,
    disruption_budget,
    stateful_set,
)
from resettle.testing.objects import Object, node, spread

NODES = {name: f"zone-{name[0]}" for name in "a-1 a-2 a-3 b-1 b-2 b-3 c-1 c-2".split()}
"""The nodes, and the zone of each."""
LATECOMER = "c-2"
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

POLICY = """\
apiVersion: resettle/v1
kind: DeschedulerPolicy
maxPercentOfPodsToEvict: 10
maxPercentOfNodesToEvictFrom: 50
profiles:
  - name: tidy
    pluginConfig:
      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 45, memory: 45}
          targetThresholds: {cpu: 55, memory: 55}
    plugins:
      deschedule:
        enabled:
          - RemovePodsViolatingNodeTaints
          - RemovePodsViolatingInterPodAntiAffinity
      balance:
        enabled:
          - RemovePodsViolatingTopologySpreadConstraint
          - LowNodeUtilization
"""


def machine(name: str) -> Object:
    """One node."""
    return node(name, cpu="4", memory="16Gi", zone=NODES[name]).node


def objects() -> Iterator[Object]:
    """Everything that is there when the story begins."""
    yield from (machine(name) for name in NODES if name != LATECOMER)
    for namespace, workloads in _WORKLOADS.items():
        yield from (
            {**it, "metadata": {**it["metadata"], "namespace": namespace}} for it in workloads
        )


_WORKLOADS = {
    "shop": [
        deployment(
            "frontend",
            replicas=9,
            cpu="300m",
            memory="768Mi",
            spread=[spread(labels={"app": "frontend"})],
        ),
        disruption_budget("frontend", app="frontend", max_unavailable="30%"),
        deployment("cart", replicas=6, cpu="400m", memory="1Gi", away_from={"app": "cart"}),
        disruption_budget("cart", app="cart", min_available=5),
        deployment("search", replicas=6, cpu="500m", memory="2Gi"),
        deployment("checkout", replicas=4, cpu="300m", memory="512Mi"),
        disruption_budget("checkout", app="checkout", min_available="75%"),
    ],
    "data": [
        stateful_set(
            "ledger",
            replicas=3,
            cpu="500m",
            memory="2Gi",
            claims=["books"],
            away_from={"app": "ledger"},
        ),
        disruption_budget("ledger", app="ledger", max_unavailable=1),
        deployment("queue", replicas=4, cpu="250m", memory="1Gi"),
    ],
    "blog": [
        deployment("press", replicas=5, cpu="200m", memory="512Mi"),
        deployment("comments", replicas=5, cpu="250m", memory="512Mi"),
    ],
    "ops": [
        daemon_set("agent", cpu="100m", memory="128Mi", tolerations=[{"operator": "Exists"}]),
        deployment(
            "reports",
            replicas=3,
            cpu="200m",
            memory="1Gi",
            tolerations=[{"key": "dedicated", "operator": "Equal", "value": "batch"}],
        ),
    ],
}
