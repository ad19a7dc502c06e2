"""Why no node takes a pod: the nodes that each check rules out, and the smallest shortages.

A plan only needs to know that no node takes a pod, so a diagnosis is made only for a pod that a
user asks about. It is data; the caller writes the sentence (kube-scheduler's counterpart is
`framework.Diagnosis`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.pod import Pod

CAPACITY_CODE = "room"
"""The code of a rejection for lack of a resource."""


class NodeRejection(Struct, frozen=True):
    """A check, and the nodes that it is the first to rule out."""

    code: str
    says: str
    """A few words to follow a number of nodes: `cpu`, `taint dedicated=gpu:NoSchedule`."""
    nodes: NodeSet


class Shortage(Struct, frozen=True):
    """What a node has too little of to take a pod, in the unit the resource is counted in."""

    node: str
    resource: str
    amount: int
    share: float
    """The amount as a part of what the node offers."""


class Diagnosis(Struct, frozen=True):
    """The checks that rule out the nodes of a set, and the shortages, smallest first."""

    asked: NodeSet
    rejections: list[NodeRejection]
    shortages: list[Shortage]


class NodeChecks(Protocol):
    """The filters of a projection or of NodeFit, as a diagnosis uses them."""

    def ruled_out(self, pod: Pod, among: NodeSet) -> list[NodeRejection]:
        """For each check the nodes of the set that it is the first to rule out."""

    def lacking(self, pod: Pod, node: str) -> dict[str, int]:
        """What the node has too little of for the pod, each in the resource's own unit."""


def diagnose(pod: Pod, node_index: NodeIndex, checks: NodeChecks, among: NodeSet) -> Diagnosis:
    """Find the checks that rule out the nodes of the set, without the pod's own node."""
    asked = among & ~node_index.only(pod.node)
    rejections = checks.ruled_out(pod, asked)
    shortages = sorted(
        _shortages(pod, node_index, checks, rejections), key=lambda shortage: shortage.share
    )
    return Diagnosis(asked, rejections, shortages)


def _shortages(
    pod: Pod, node_index: NodeIndex, checks: NodeChecks, rejections: list[NodeRejection]
) -> Iterator[Shortage]:
    """What is missing on each node that lacks one resource and nothing else."""
    for rejection in rejections:
        if rejection.code != CAPACITY_CODE:
            continue
        for node in node_index.members(rejection.nodes):
            lacking = checks.lacking(pod, node.name)
            if len(lacking) == 1:
                ((resource, amount),) = lacking.items()
                offer = node_index.allocatable_of(resource)[node_index.position[node.name]] or 1
                yield Shortage(node.name, resource, amount, amount / offer)
