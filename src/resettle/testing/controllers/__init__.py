"""The controllers that make the test API server live: scheduler, kubelets, workloads, budgets.

`loop` runs them until nothing changes or time has passed, each of the others is one or two
controllers as functions from what they see to what they write, `builders` makes workloads. It is
no real control plane: what differs is on the page about testing. Start with `loop`.

Import from outside: `builders`, `writes`.
"""

from resettle.testing.controllers.builders import (
    daemon_set,
    deployment,
    disruption_budget,
    job,
    replica_set,
    stateful_set,
)
from resettle.testing.controllers.kubelet import CRASHES_EVERY, SILENT, TAKES, Durations
from resettle.testing.controllers.loop import ControllerLoop, NeverSettles
from resettle.testing.controllers.observed import ObservedCluster, observe

__all__ = [
    "CRASHES_EVERY",
    "SILENT",
    "TAKES",
    "ControllerLoop",
    "Durations",
    "NeverSettles",
    "ObservedCluster",
    "daemon_set",
    "deployment",
    "disruption_budget",
    "job",
    "observe",
    "replica_set",
    "stateful_set",
]
