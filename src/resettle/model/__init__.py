"""Pods, nodes, other objects, and the frozen snapshot of a cluster.

Nothing here decides where a pod may run (that is `placement`) or whether it should move (that is
`framework` and `plugins`), and nothing talks to an API server (that is `kube`). Start with
`snapshot`, then `pod`; `kinds` is the table of the object kinds that resettle reads, and `decoding`
turns the API's bytes into these values. Every other package may import it.

<<<<<<< HEAD
Import from outside: `changes`, `constraints`, `kinds`, `measurements`, `migration_job`,
`node_index`, `objects`, `pod`, `pod_index`, `resources`, `selectors`, `semantics`, `snapshot`.
=======
Import from outside: `changes`, `constraints`, `kinds`, `measurements`, `node_index`, `objects`,
`pod`, `pod_index`, `resources`, `selectors`, `semantics`, `snapshot`, `workloads`.
>>>>>>> cd29e28
"""

from resettle.model.changes import Change, Changes
from resettle.model.constraints import (
    NodeTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
    Taint,
    Toleration,
)
from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.objects import Budget, Claim, Namespace, Node, PriorityClass
from resettle.model.pod import (
    Condition,
    ContainerState,
    Owner,
    Pod,
    Spec,
    State,
    Template,
    by_name_hash,
    by_priority,
    whole_seconds,
)
from resettle.model.resources import parse_quantity
from resettle.model.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    Selector,
    parse_selector,
)
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import Eviction, UnknownWorkload, Workload

__all__ = [
    "EVERYTHING",
    "IMPROVED",
    "NOTHING",
    "PARITY",
    "Budget",
    "Change",
    "Changes",
    "Claim",
    "Condition",
    "ContainerState",
    "Eviction",
    "LabelSelector",
    "Namespace",
    "Node",
    "NodeIndex",
    "NodeSet",
    "NodeTerm",
    "Owner",
    "Pod",
    "PodTerm",
    "PreferredTerm",
    "PriorityClass",
    "Requirement",
    "Selector",
    "Semantics",
    "Snapshot",
    "Spec",
    "SpreadConstraint",
    "State",
    "Taint",
    "Template",
    "Toleration",
    "UnknownWorkload",
    "Workload",
    "by_name_hash",
    "by_priority",
    "parse_quantity",
    "parse_selector",
    "whole_seconds",
]
