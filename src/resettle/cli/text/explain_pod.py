"""`resettle explain pod`: the answer about a pod, as text and as JSON."""

from __future__ import annotations

from typing import Any

from resettle.cli.text.plan import Paint
from resettle.cli.text.terminal import TextRow, format_hints, format_rows
from resettle.explain.pod import PluginDecision, PodAnswer
from resettle.explain.smallest_change import ChangeSet, InputChange
from resettle.framework.verdict import Refusal
from resettle.model.snapshot import Snapshot
from resettle.placement.diagnosis import NodeRejection

# -- for people -----------------------------------------------------------------------------------


def pod_text(answer: PodAnswer, paint: Paint, columns: int) -> str:
    """Whether the pod goes or stays, what each plugin decided, and what would change the answer."""
    several = len({decision.profile for decision in answer.decisions}) > 1
    lines = [
        paint("bold", headline(answer)),
        *format_rows(_decision_rows(answer, several), paint, columns),
    ]
    if helping := list(_hints(answer)):
        lines += ["", *format_hints(helping, paint, columns)]
    return "\n".join(lines) + "\n"


def headline(answer: PodAnswer) -> str:
    """The answer in one line."""
    pod = answer.pod
    where = f"on {pod.node}" if pod.node else "where it is, bound to no node"
    if answer.move:
        target = answer.move.lands_on
        if answer.move.place_held:
            return f"{pod.key} would move off {pod.node} to {target}, where its place is held first"
        to = "back to it" if target == pod.node else f"to {target}"
        return f"{pod.key} would move off {pod.node}{f', most likely {to}' if target else ''}"
    proposals = [proposal for decision in answer.decisions for proposal in decision.proposals]
    if any(proposal.verdict == "moving" for proposal in proposals):
        return f"{pod.key} is already being moved, still {where}"
    return f"{pod.key} stays {where}"


def _decision_rows(answer: PodAnswer, several: bool) -> list[TextRow]:
    lines: list[TextRow] = []
    for decision in answer.decisions:
        plugin = _plugin_name(decision, several)
        lines += (TextRow("proposed", plugin, proposal.because) for proposal in decision.proposals)
    refusals = [
        (label, refusal)
        for decision in answer.decisions
        for proposal in decision.proposals
        for label, refusal in _refusals(proposal.refusals)
    ]
    firsts = {refusal.code for label, refusal in refusals if label == "refused"}
    lines += (_refusal_row(*refused) for refused in refusals if refused[0] == "refused")
    lines += (
        _refusal_row(label, refusal)
        for label, refusal in refusals
        if label != "refused" and refusal.code not in firsts
    )
    for decision in answer.decisions:
        if decision.not_proposed:
            plugin = _plugin_name(decision, several)
            lines.append(TextRow("not proposed", plugin, decision.not_proposed.says))
    return list(dict.fromkeys(lines))


def _refusals(refusals: tuple[Refusal, ...]) -> list[tuple[str, Refusal]]:
    return [("also" if at else "refused", refusal) for at, refusal in enumerate(refusals)]


def _plugin_name(decision: PluginDecision, several: bool) -> str:
    return f"{decision.plugin} ({decision.profile})" if several else decision.plugin


def _refusal_row(label: str, refusal: Refusal) -> TextRow:
    if refusal.code == "budget" and refusal.subject:
        return TextRow(label, refusal.subject_text, refusal.predicate)
    return TextRow(label, refusal.by, refusal.sentence)


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
    rest = "; without that, other pods would be evicted instead" if others_first else ""
    nothing = "we found no change to the policy or cluster that would move it"
    return f"{nothing}, because {refusal.clause}{rest}"


# -- for programs ---------------------------------------------------------------------------------


def pod_document(answer: PodAnswer, snapshot: Snapshot) -> dict[str, Any]:
    """The answer for programs: keys are stable, new ones may be added."""
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
            **({"place_held": True} if move.place_held else {}),
        }
    if answer.refused:
        smallest = answer.smallest_change
        document["would_move_if"] = [
            {
                "says": would_move(changes),
                "changes": [_change_document(change) for change in changes],
            }
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
                "reason": proposal.because,
                "verdict": proposal.verdict,
                "refusals": [_refusal_document(refusal, snapshot) for refusal in proposal.refusals],
            }
            for proposal in decision.proposals
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
                "for_instance": next(snapshot.node_index.members(ground.nodes)).name,
            }
            for ground in grounds
        ]
    return document


def _change_document(change: InputChange) -> dict[str, Any]:
    option = change.option
    return {
        "setting": option.name,
        "where": option.where,
        "was": option.current,
        "value": change.value,
        "says": change.says,
    }
