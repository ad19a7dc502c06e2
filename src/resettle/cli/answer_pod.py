"""The answer about a pod, for people and for programs."""

from __future__ import annotations

from typing import Any

from resettle.cli.lines import Row, hints, rows
from resettle.cli.render import Paint
from resettle.explain.flips import Change, Flip
from resettle.explain.overlooked import NO_TURN
from resettle.explain.pod import PodAnswer, Word
from resettle.framework.verdict import Refusal
from resettle.model.ground import Ground
from resettle.model.snapshot import Snapshot

PREDICATES = ("is ", "has ", "was ", "carries ", "keeps ", "belongs ", "uses ")

# -- for people -----------------------------------------------------------------------------------


def pod_text(answer: PodAnswer, paint: Paint, columns: int) -> str:
    """Goes or stays, who wanted what, and what would change the answer."""
    several = len({word.profile for word in answer.words}) > 1
    lines = [paint("bold", headline(answer)), *rows(list(_said(answer, several)), paint, columns)]
    if helping := list(_hints(answer)):
        lines += ["", *hints(helping, paint, columns)]
    return "\n".join(lines) + "\n"


def headline(answer: PodAnswer) -> str:
    """The one line to read if only one is read."""
    pod = answer.pod
    where = f"on {pod.node}" if pod.node else "where it is, bound to no node"
    if answer.move:
        target = answer.move.lands_on
        to = "back to it" if target == pod.node else f"to {target}"
        return f"{pod.key} would move off {pod.node}{f', most likely {to}' if target else ''}"
    if any(it.verdict == "moving" for word in answer.words for it in word.proposals):
        return f"{pod.key} is on its way already, still {where}"
    return f"{pod.key} stays {where}"


def _said(answer: PodAnswer, several: bool) -> list[Row]:
    said: list[Row] = []
    for word in answer.words:
        said += (Row("proposed", _who(word, several), it.because) for it in word.proposals)
    refusals = [
        (verb, refusal)
        for word in answer.words
        for proposal in word.proposals
        for verb, refusal in _refusals(proposal.refusals)
    ]
    firsts = {refusal.code for verb, refusal in refusals if verb == "refused"}
    said += (_refused(verb, it) for verb, it in refusals if verb == "refused")
    said += (_refused(v, it) for v, it in refusals if v != "refused" and it.code not in firsts)
    for word in answer.words:
        if word.unwanted:
            verb = "waiting" if word.unwanted.code == NO_TURN else "unwanted"
            said.append(Row(verb, _who(word, several), word.unwanted.says))
    return list(dict.fromkeys(said))


def _refusals(refusals: tuple[Refusal, ...]) -> list[tuple[str, Refusal]]:
    return [("also" if at else "refused", refusal) for at, refusal in enumerate(refusals)]


def _who(word: Word, several: bool) -> str:
    return f"{word.plugin} ({word.profile})" if several else word.plugin


def _refused(verb: str, refusal: Refusal) -> Row:
    budget = refusal.facts.get("budget")
    said = refusal.sentence
    start = f"budget {budget} "
    if budget and said.startswith(start):
        return Row(verb, start.strip(), said.removeprefix(start))
    return Row(verb, refusal.by, said)


def _hints(answer: PodAnswer) -> list[str]:
    if not answer.refused:
        return []
    flips = answer.flips
    if flips.offered:
        return [would_move(flip) for flip in flips.offered]
    if flips.in_the_way is None or not answer.proposed:
        return []
    return [nothing_helps(flips.in_the_way, others_first=flips.others_first)]


def would_move(flip: Flip) -> str:
    """`would move if A, B and C`."""
    parts = [change.says for change in flip]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"would move if {listed}"


def nothing_helps(refusal: Refusal, *, others_first: bool) -> str:
    """Why no change helps."""
    said = refusal.sentence
    clause = f"it {said}" if said.startswith(PREDICATES) else said
    rest = "; without that, others would go and it would stay" if others_first else ""
    return f"no guard, limit, budget or single node changed would move it, because {clause}{rest}"


# -- for programs ---------------------------------------------------------------------------------


def pod_document(answer: PodAnswer, snapshot: Snapshot) -> dict[str, Any]:
    """The same with stable keys."""
    pod, move = answer.pod, answer.move
    document: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "moves": move is not None,
        "plugins": [_word_document(word, snapshot) for word in answer.words],
    }
    if move:
        document["move"] = {
            "profile": move.profile,
            "plugin": move.plugin,
            "reason": move.reason,
            "lands_on": move.lands_on,
        }
    if answer.refused:
        flips = answer.flips
        document["would_move_if"] = [
            {"says": would_move(flip), "changes": [_change_document(it) for it in flip]}
            for flip in flips.offered
        ]
        if flips.in_the_way and not flips.offered and answer.proposed:
            document["in_the_way"] = {
                "code": flips.in_the_way.code,
                "says": nothing_helps(flips.in_the_way, others_first=flips.others_first),
            }
    return document


def _word_document(word: Word, snapshot: Snapshot) -> dict[str, Any]:
    document: dict[str, Any] = {
        "profile": word.profile,
        "plugin": word.plugin,
        "point": word.point.value,
        "proposed": bool(word.proposals),
    }
    if word.unwanted:
        document["unwanted"] = {"code": word.unwanted.code, "says": word.unwanted.says}
    if word.proposals:
        document["proposals"] = [
            {
                "reason": it.because,
                "verdict": it.verdict,
                "refusals": [_refusal_document(refusal, snapshot) for refusal in it.refusals],
            }
            for it in word.proposals
        ]
    return document


def _refusal_document(refusal: Refusal, snapshot: Snapshot) -> dict[str, Any]:
    document: dict[str, Any] = {
        "code": refusal.code,
        "by": refusal.by,
        "says": refusal.sentence,
    }
    grounds: list[Ground] = refusal.facts.get("ruled_out", [])
    if grounds:
        document["nodes"] = refusal.facts["count"]
        document["ruled_out"] = [
            {
                "code": ground.code,
                "says": ground.says,
                "nodes": ground.nodes.bit_count(),
                "for_instance": next(snapshot.fleet.members(ground.nodes)).name,
            }
            for ground in grounds
        ]
    return document


def _change_document(change: Change) -> dict[str, Any]:
    setting = change.setting
    return {
        "setting": setting.name,
        "where": setting.where,
        "was": setting.was,
        "value": change.value,
        "says": change.says,
    }
