"""The nouns of resettle: pods, nodes, and the frozen cluster they stand in."""

from resettle.model.affinity import NodeTerm, PodTerm, PreferredTerm, SpreadConstraint
from resettle.model.changes import Change, Changes
from resettle.model.diagnosis import NodeRejection, Shortage
from resettle.model.fleet import Fleet, NodeSet
from resettle.model.node import Budget, Claim, Namespace, Node, PriorityClass
from resettle.model.pod import (
    Condition,
    ContainerState,
    Owner,
    Pod,
    Spec,
    State,
    Template,
    by_lot,
    by_priority,
    whole_seconds,
)
from resettle.model.quantity import parse_quantity
from resettle.model.selector import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    Selector,
    parse_selector,
)
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.model.snapshot import Snapshot
from resettle.model.taint import Taint, Toleration

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
    "Fleet",
    "LabelSelector",
    "Namespace",
    "Node",
    "NodeRejection",
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
    "Shortage",
    "Snapshot",
    "Spec",
    "SpreadConstraint",
    "State",
    "Taint",
    "Template",
    "Toleration",
    "by_lot",
    "by_priority",
    "parse_quantity",
    "parse_selector",
    "whole_seconds",
]
