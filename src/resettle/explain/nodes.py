"""What could be different about one node so that it takes a pod that no node takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import structs

from resettle.explain.stage import Setting, Stage
from resettle.framework.knob import Reach
from resettle.framework.verdict import Refusal
from resettle.model.changes import Change, Changes
from resettle.model.diagnosis import NodeRejection, Shortage
from resettle.model.node import Node
from resettle.model.quantity import NANO, counted, written

LIFTS = frozenset({"no-node-fits", "no-better-node", "would-break"})
CORDON = "node.kubernetes.io/unschedulable"
MOST_CORDONED = 3
_MILLI = NANO // 1000


def node_settings(stage: Stage, refusal: Refusal) -> Iterator[Setting]:
    """Cordoned nodes opened, and the node that lacks the least of one resource made larger."""
    rejections: list[NodeRejection] = refusal.facts.get("ruled_out", [])
    shortages: list[Shortage] = refusal.facts.get("short", [])
    fleet = stage.snapshot.fleet
    cordoned = [rejection.nodes for rejection in rejections if rejection.code == "cordoned"]
    for nodes in cordoned:
        for node, _ in zip(fleet.members(nodes), range(MOST_CORDONED), strict=False):
            yield _opened(node)
    for short in shortages:
        if node_found := fleet.get(short.node):
            yield _larger(node_found, short)


def _opened(node: Node) -> Setting:
    return Setting(
        name="unschedulable",
        where=f"node {node.name}",
        was=True,
        ladder=(False,),
        turned=partial(_uncordoned, node.name),
        says=lambda _: f"{node.name} were not cordoned",
        lifts=LIFTS,
        reach=Reach.NODE,
    )


def _uncordoned(name: str, stage: Stage, _: Any) -> Stage:
    """The node open again, and rid of the taint that Kubernetes gives to a cordoned one."""
    node = stage.snapshot.fleet.get(name)
    if node is None:
        return stage
    taints = tuple(taint for taint in node.taints if taint.key != CORDON)
    return _with_node(stage, structs.replace(node, unschedulable=False, taints=taints))


def _larger(node: Node, short: Shortage) -> Setting:
    offer = counted(short.resource, node.allocatable.get(short.resource, 0))
    return Setting(
        name=f"allocatable.{short.resource}",
        where=f"node {node.name}",
        was=offer,
        ladder=tuple(offer + more for more in (short.amount - 1, short.amount) if more),
        turned=partial(_grown, node.name, short.resource),
        says=lambda amount: _more(node.name, short.resource, amount - offer),
        lifts=LIFTS,
        reach=Reach.NODE,
    )


def _grown(name: str, resource: str, stage: Stage, amount: int) -> Stage:
    node = stage.snapshot.fleet.get(name)
    if node is None:
        return stage
    unit = _MILLI if resource == "cpu" else NANO
    offer = {**node.allocatable, resource: amount * unit}
    return _with_node(stage, structs.replace(node, allocatable=offer))


def _more(name: str, resource: str, amount: int) -> str:
    if resource == "pods":
        return f"{name} took {'one more pod' if amount == 1 else f'{amount} more pods'}"
    return f"{name} had {written(resource, amount)} more {resource}"


def _with_node(stage: Stage, node: Node) -> Stage:
    changes = Changes(at=stage.snapshot.taken_at, nodes=Change(put=(node,)))
    return stage._replace(snapshot=stage.snapshot.next(changes))
