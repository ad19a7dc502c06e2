"""Life for a pocket cluster: controllers, a scheduler and kubelets, on a clock wound by hand.

    clock = HandClock()
    with PocketServer(objects, clock=clock) as pocket:
        life = Life(pocket.store, clock)
        life.settle()
        ...                                  # evict something over HTTP
        life.pass_time(timedelta(minutes=5))  # it is replaced, placed and running

Each controller is a function from a `Sight` to the writes that are missing:

| module                                     | what it sees to                                     |
|--------------------------------------------|-----------------------------------------------------|
| `deployments`, `replica_sets`              | pods that are alike, and new templates              |
| `stateful_sets`, `volumes`                 | pods with names and claims that come back           |
| `daemon_sets`                              | a pod for each node                                 |
| `jobs`                                     | pods that run to an end                             |
| `collector`, `taints`                      | what nobody owns, and pods that lose their node     |
| `scheduler`                                | nodes for pods, by the planner's own idea of fit    |
| `kubelet`                                  | pods that start, crash, finish and leave            |
| `budgets`                                  | what disruption budgets allow                       |
"""

from resettle.testing.life.kubelet import CRASHES_EVERY, SILENT, TAKES, Pace
from resettle.testing.life.life import Life, Restless
from resettle.testing.life.sight import Sight, seen
from resettle.testing.life.workloads import (
    daemon_set,
    deployment,
    disruption_budget,
    job,
    replica_set,
    stateful_set,
)

__all__ = [
    "CRASHES_EVERY",
    "SILENT",
    "TAKES",
    "Life",
    "Pace",
    "Restless",
    "Sight",
    "daemon_set",
    "deployment",
    "disruption_budget",
    "job",
    "replica_set",
    "seen",
    "stateful_set",
]
