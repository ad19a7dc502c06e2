"""Examples of the sorters: one limit, and the order that decides who is within it."""

from __future__ import annotations

from resettle.testing import cluster, node, pod
from resettle.testing.builders import Object
from tools.plugin_pages.worked import Example

_COST = "controller.kubernetes.io/pod-deletion-cost"


def _policy(sorter: str, args: str = "") -> str:
    config = f"\n      - name: {sorter}\n        args: {args}" if args else ""
    return f"""\
apiVersion: resettle/v1
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 2
profiles:
  - name: main
    pluginConfig:
      - name: PodLifeTime
        args: {{maxPodLifeTimeSeconds: 86400}}{config}
    plugins:
      deschedule:
        enabled: [PodLifeTime]
      sort:
        enabled: [{sorter}]
"""


def _example(says: str, policy: str, *pods: Object) -> Example:
    young = pod("young-1", namespace="shop", age="2h")
    crowd = node("node-1").holding(*pods, young)
    return Example(says, cluster(crowd, node("node-2"), node("node-3")), policy)


EXAMPLES = {
    "PrioritySort": _example(
        """\
        Three pods are too old and two may go. By itself PodLifeTime would begin with the oldest,
        which matters most here.
        """,
        _policy("PrioritySort"),
        pod("cart-1", namespace="shop", age="9d", priority=1000),
        pod("web-1", namespace="shop", age="5d", priority=100),
        pod("batch-1", namespace="shop", age="3d", priority=0),
    ),
    "AgeSort": _example(
        """\
        Three pods are too old and two may go: the youngest of them, as this policy wants it.
        """,
        _policy("AgeSort", "{order: YoungestFirst}"),
        pod("web-1", namespace="shop", age="9d"),
        pod("web-2", namespace="shop", age="5d"),
        pod("web-3", namespace="shop", age="3d"),
    ),
    "UtilizationSort": _example(
        """\
        Three pods are too old and two may go: those that request the least memory.
        """,
        _policy("UtilizationSort", "{resource: memory, order: SmallestFirst}"),
        pod("cart-1", namespace="shop", age="9d", memory="8Gi"),
        pod("web-1", namespace="shop", age="5d", memory="1Gi"),
        pod("web-2", namespace="shop", age="3d", memory="512Mi"),
    ),
    "DeletionCostSort": _example(
        """\
        Three pods are too old and two may go: those whose deletion costs the least. Without the
        annotation it costs 0.
        """,
        _policy("DeletionCostSort"),
        pod("web-1", namespace="shop", age="9d", annotations={_COST: "100"}),
        pod("web-2", namespace="shop", age="5d"),
        pod("web-3", namespace="shop", age="3d", annotations={_COST: "-5"}),
    ),
}
