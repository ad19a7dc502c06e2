"""The answer about one node: its scope and use, which pods move, why the others stay."""

from __future__ import annotations

from msgspec import Struct

from resettle.explain.cycle import WatchedPlan
from resettle.explain.pod import PodAnswer, answer_for, node_out_of_scope
from resettle.explain.what_if import PlanInputs
from resettle.framework.plan import Move, Note, Plan
from resettle.framework.verdict import Band, NotProposed
from resettle.model.objects import Node
from resettle.model.resources import in_resource_unit
from resettle.model.snapshot import Snapshot
from resettle.utilization.bands import node_capacity, shares


class ResourceUse(Struct, frozen=True):
    """How much of a resource a node's pods request, in its own unit and in percent."""

    resource: str
    requested: int
    offered: int
    percent: float


class NodeBand(Struct, frozen=True):
    """The band in which one plugin puts the node."""

    profile: str
    plugin: str
    band: Band


class ReasonCount(Struct, frozen=True):
    """How many pods stay for one reason, and the sentence about the first of them."""

    code: str
    count: int
    pod: str
    says: str
    plugin: str = ""
    """The plugin that did not propose them; empty for pods that were proposed and refused."""
    profile: str = ""


class NodeAnswer(Struct, frozen=True, kw_only=True):
    """A node's scope and use, the pods that move, and why the others stay."""

    node: Node
    plan: Plan
    left_out: NotProposed | None
    """Why no plugin looks at it."""
    uses: tuple[ResourceUse, ...]
    bands: tuple[NodeBand, ...]
    pods: int
    leaving: tuple[Move, ...]
    landing: tuple[Move, ...]
    """Moves of pods that will most likely land here."""
    refused: tuple[ReasonCount, ...]
    not_proposed: tuple[ReasonCount, ...]
    notes: tuple[Note, ...] = ()


def explain_node(inputs: PlanInputs, node: Node) -> NodeAnswer:
    """The answer about a node, from one plan in which it and all its pods are watched."""
    pods = inputs.snapshot.pods_on(node)
    watched = WatchedPlan(inputs, [node.name, *(pod.key for pod in pods)])
    answers = [answer_for(watched, pod) for pod in pods]
    return NodeAnswer(
        node=node,
        plan=watched.plan,
        left_out=node_out_of_scope(watched.view, node.name),
        uses=tuple(_uses(inputs.snapshot, node)),
        bands=_bands(watched, node),
        pods=len(pods),
        leaving=tuple(move for move in watched.plan.moves if move.pod.node == node.name),
        landing=tuple(move for move in watched.plan.moves if move.lands_on == node.name),
        refused=_refusal_counts(answers),
        not_proposed=_not_proposed_counts(answers),
        notes=tuple(note for note in watched.plan.notes if note.subject == node.name),
    )


def _uses(snapshot: Snapshot, node: Node) -> list[ResourceUse]:
    """What is requested of each resource that the node offers or its pods request."""
    used, offer = snapshot.requests_on(node), node_capacity(node)
    basic = [name for name in ("cpu", "memory", "pods") if name in offer]
    names = dict.fromkeys((*basic, *(name for name in sorted(offer) if used.get(name))))
    percents = shares(used, offer, names)
    return [
        ResourceUse(
            name,
            in_resource_unit(name, used.get(name, 0)),
            in_resource_unit(name, offer[name]),
            percents[name],
        )
        for name in names
    ]


def _bands(watched: WatchedPlan, node: Node) -> tuple[NodeBand, ...]:
    bands = []
    for turn in watched.turns:
        hook = turn.instance.plugin.band
        if hook is None or watched.plan.skipped or (turn.run and turn.run.error):
            continue
        if band := hook(turn.instance.args, watched.view, node):
            bands.append(NodeBand(turn.profile.name, turn.instance.name, band))
    return tuple(bands)


def _refusal_counts(answers: list[PodAnswer]) -> tuple[ReasonCount, ...]:
    """Pods that stay although proposed, by the code of their first refusal."""
    examples: dict[str, list[tuple[str, str]]] = {}
    for answer in answers:
        if answer.move is None:
            first = next(
                (
                    proposal.refusals[0]
                    for decision in answer.decisions
                    for proposal in decision.proposals
                    if proposal.refusals
                ),
                None,
            )
            if first is not None:
                examples.setdefault(first.code, []).append((answer.pod.key, first.sentence))
    counts = [ReasonCount(code, len(pods), *pods[0]) for code, pods in examples.items()]
    return tuple(sorted(counts, key=lambda reason: (-reason.count, reason.code)))


def _not_proposed_counts(answers: list[PodAnswer]) -> tuple[ReasonCount, ...]:
    """Why each plugin did not propose the pods that no plugin proposed."""
    examples: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for answer in answers:
        if answer.proposed:
            continue
        for decision in answer.decisions:
            if reason := decision.not_proposed:
                key = (decision.profile, decision.plugin, reason.code)
                examples.setdefault(key, []).append((answer.pod.key, reason.says))
    return tuple(
        ReasonCount(code, len(pods), *pods[0], plugin, profile)
        for (profile, plugin, code), pods in examples.items()
    )
