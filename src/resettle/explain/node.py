"""The answer about one node: is it in scope, how full is it, which pods go, why the others stay."""

from __future__ import annotations

from msgspec import Struct

from resettle.explain.overlooked import out_of_scope
from resettle.explain.pod import PodAnswer, answer_for
from resettle.explain.stage import Stage
from resettle.explain.watched import Watched
from resettle.framework.plan import Move, Note, Plan
from resettle.framework.verdict import Band, Unwanted
from resettle.load.shares import offered, shares
from resettle.model.node import Node
from resettle.model.quantity import counted
from resettle.model.snapshot import Snapshot


class Use(Struct, frozen=True):
    """How much of a resource a node's pods request, in its own unit and in percent."""

    resource: str
    requested: int
    offered: int
    percent: float


class Banded(Struct, frozen=True):
    """The band in which one plugin puts the node."""

    profile: str
    plugin: str
    band: Band


class Tally(Struct, frozen=True):
    """Pods that stay for one reason, and what is said of the first of them."""

    code: str
    count: int
    pod: str
    says: str
    plugin: str = ""
    """Who did not want them; empty for pods that were proposed and refused."""
    profile: str = ""


class NodeAnswer(Struct, frozen=True, kw_only=True):
    """All there is to say of a node."""

    node: Node
    plan: Plan
    left_out: Unwanted | None
    """Why no plugin looks at it."""
    uses: tuple[Use, ...]
    bands: tuple[Banded, ...]
    pods: int
    leaving: tuple[Move, ...]
    landing: tuple[Move, ...]
    """Moves of pods that will most likely come here."""
    refused: tuple[Tally, ...]
    unwanted: tuple[Tally, ...]
    notes: tuple[Note, ...] = ()


def explain_node(stage: Stage, node: Node) -> NodeAnswer:
    """The answer, from one plan in which the node and all its pods are watched."""
    pods = stage.snapshot.pods_on(node)
    watched = Watched(stage, [node.name, *(pod.key for pod in pods)])
    answers = [answer_for(watched, pod) for pod in pods]
    return NodeAnswer(
        node=node,
        plan=watched.plan,
        left_out=out_of_scope(watched.view, node.name),
        uses=tuple(_uses(stage.snapshot, node)),
        bands=_bands(watched, node),
        pods=len(pods),
        leaving=tuple(move for move in watched.plan.moves if move.pod.node == node.name),
        landing=tuple(move for move in watched.plan.moves if move.lands_on == node.name),
        refused=_refused(answers),
        unwanted=_unwanted(answers),
        notes=tuple(note for note in watched.plan.notes if note.subject == node.name),
    )


def _uses(snapshot: Snapshot, node: Node) -> list[Use]:
    """What is requested of each resource that the node offers or that its pods ask for."""
    used, offer = snapshot.requested(node), offered(node)
    basic = [name for name in ("cpu", "memory", "pods") if name in offer]
    names = dict.fromkeys((*basic, *(name for name in sorted(offer) if used.get(name))))
    percents = shares(used, offer, names)
    return [
        Use(name, counted(name, used.get(name, 0)), counted(name, offer[name]), percents[name])
        for name in names
    ]


def _bands(watched: Watched, node: Node) -> tuple[Banded, ...]:
    found = []
    for turn in watched.turns:
        hook = turn.instance.plugin.band
        if hook is None or watched.plan.skipped or (turn.run and turn.run.error):
            continue
        if band := hook(turn.instance.args, watched.view, node):
            found.append(Banded(turn.profile.name, turn.instance.name, band))
    return tuple(found)


def _refused(answers: list[PodAnswer]) -> tuple[Tally, ...]:
    """Pods that some plugin proposed and that stay, by what the first of them was refused with."""
    said: dict[str, list[tuple[str, str]]] = {}
    for answer in answers:
        if answer.move is None:
            first = next(
                (it.refusals[0] for w in answer.words for it in w.proposals if it.refusals), None
            )
            if first is not None:
                said.setdefault(first.code, []).append((answer.pod.key, first.sentence))
    tallies = [Tally(code, len(pods), *pods[0]) for code, pods in said.items()]
    return tuple(sorted(tallies, key=lambda it: (-it.count, it.code)))


def _unwanted(answers: list[PodAnswer]) -> tuple[Tally, ...]:
    """Why each plugin did not want the pods that nobody proposed."""
    said: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for answer in answers:
        if any(word.proposals for word in answer.words):
            continue
        for word in answer.words:
            if word.unwanted:
                key = (word.profile, word.plugin, word.unwanted.code)
                said.setdefault(key, []).append((answer.pod.key, word.unwanted.says))
    return tuple(
        Tally(code, len(pods), *pods[0], plugin, profile)
        for (profile, plugin, code), pods in said.items()
    )
