"""The answer about a pod, for people and for programs."""

from __future__ import annotations

from typing import Any

from resettle.cli.text.plan import Paint
from resettle.cli.text.terminal import Row, hints, rows
from resettle.explain.pod import NO_TURN, PluginDecision, PodAnswer
from resettle.explain.smallest_change import ChangeSet, InputChange
from resettle.framework.verdict import Refusal
from resettle.model.snapshot import Snapshot
from resettle.placement.diagnosis import NodeRejection

# -- for people -----------------------------------------------------------------------------------


def pod_text(answer: PodAnswer, paint: Paint, columns: int) -> str:
    """Goes or stays, who wanted what, and what would change the answer."""
    several = len({decision.profile for decision in answer.decisions}) > 1
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
    if any(it.verdict == "moving" for decision in answer.decisions for it in decision.proposals):
        return f"{pod.key} is on its way already, still {where}"
    return f"{pod.key} stays {where}"


def _said(answer: PodAnswer, several: bool) -> list[Row]:
    said: list[Row] = []
    for decision in answer.decisions:
        said += (Row("proposed", _who(decision, several), it.because) for it in decision.proposals)
    refusals = [
        (verb, refusal)
        for decision in answer.decisions
        for proposal in decision.proposals
        for verb, refusal in _refusals(proposal.refusals)
    ]
    firsts = {refusal.code for verb, refusal in refusals if verb == "refused"}
    said += (_refused(verb, it) for verb, it in refusals if verb == "refused")
    said += (_refused(v, it) for v, it in refusals if v != "refused" and it.code not in firsts)
    for decision in answer.decisions:
        if decision.not_proposed:
            verb = "waiting" if decision.not_proposed.code == NO_TURN else "unwanted"
            said.append(Row(verb, _who(decision, several), decision.not_proposed.says))
    return list(dict.fromkeys(said))


def _refusals(refusals: tuple[Refusal, ...]) -> list[tuple[str, Refusal]]:
    return [("also" if at else "refused", refusal) for at, refusal in enumerate(refusals)]


def _who(decision: PluginDecision, several: bool) -> str:
    return f"{decision.plugin} ({decision.profile})" if several else decision.plugin


def _refused(verb: str, refusal: Refusal) -> Row:
    if refusal.code == "budget" and refusal.subject:
        return Row(verb, refusal.subject_text, refusal.predicate)
    return Row(verb, refusal.by, refusal.sentence)


def _hints(answer: PodAnswer) -> list[str]:
    if not answer.refused:
        return []
    smallest = answer.smallest_change
    if smallest.change_sets:
        return [would_move(changes) for changes in smallest.change_sets]
    if smallest.in_the_way is None or not answer.proposed:
        return []
    return [nothing_helps(smallest.in_the_way, others_first=smallest.others_first)]


def would_move(changes: ChangeSet) -> str:
    """`would move if A, B and C`."""
    parts = [change.says for change in changes]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"would move if {listed}"


def nothing_helps(refusal: Refusal, *, others_first: bool) -> str:
    """Why no change helps."""
    rest = "; without that, others would go and it would stay" if others_first else ""
    nothing = "no guard, limit, budget or single node changed would move it"
    return f"{nothing}, because {refusal.clause}{rest}"


# -- for programs ---------------------------------------------------------------------------------


def pod_document(answer: PodAnswer, snapshot: Snapshot) -> dict[str, Any]:
    """The same with stable keys."""
    pod, move = answer.pod, answer.move
    document: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "moves": move is not None,
        "plugins": [_decision_document(decision, snapshot) for decision in answer.decisions],
    }
    if move:
        document["move"] = {
            "profile": move.profile,
            "plugin": move.plugin,
            "reason": move.reason,
            "lands_on": move.lands_on,
        }
    if answer.refused:
        smallest = answer.smallest_change
        document["would_move_if"] = [
            {"says": would_move(changes), "changes": [_change_document(it) for it in changes]}
            for changes in smallest.change_sets
        ]
        if smallest.in_the_way and not smallest.change_sets and answer.proposed:
            document["in_the_way"] = {
                "code": smallest.in_the_way.code,
                "says": nothing_helps(smallest.in_the_way, others_first=smallest.others_first),
            }
    return document


def _decision_document(decision: PluginDecision, snapshot: Snapshot) -> dict[str, Any]:
    document: dict[str, Any] = {
        "profile": decision.profile,
        "plugin": decision.plugin,
        "point": decision.point.value,
        "proposed": bool(decision.proposals),
    }
    if decision.not_proposed:
        document["unwanted"] = {
            "code": decision.not_proposed.code,
            "says": decision.not_proposed.says,
        }
    if decision.proposals:
        document["proposals"] = [
            {
                "reason": it.because,
                "verdict": it.verdict,
                "refusals": [_refusal_document(refusal, snapshot) for refusal in it.refusals],
            }
            for it in decision.proposals
        ]
    return document


def _refusal_document(refusal: Refusal, snapshot: Snapshot) -> dict[str, Any]:
    document: dict[str, Any] = {
        "code": refusal.code,
        "by": refusal.by,
        "says": refusal.sentence,
    }
    grounds: list[NodeRejection] = refusal.facts.get("ruled_out", [])
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


def _change_document(change: InputChange) -> dict[str, Any]:
    option = change.option
    return {
        "setting": option.name,
        "where": option.where,
        "was": option.was,
        "value": change.value,
        "says": change.says,
    }
