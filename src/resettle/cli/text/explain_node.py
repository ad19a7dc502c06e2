"""`resettle explain node`: the answer about a node, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resettle.cli.text.plan import MOST_MOVES, Paint, bar
from resettle.cli.text.terminal import TextRow, format_rows
from resettle.explain.node import NodeAnswer, ReasonCount, ResourceUse
from resettle.framework.codes import REFUSED
from resettle.framework.plan import Move
from resettle.model.resources import format_amount
from resettle.text import format_count

# -- for people -----------------------------------------------------------------------------------


def node_text(answer: NodeAnswer, paint: Paint, columns: int) -> str:
    """Whether the node is in scope, how full it is, which pods go and why the others stay."""
    blocks = [
        [paint("bold", headline(answer)), *_state(answer, paint)],
        [*_bands(answer, paint, columns)],
        [*_leaving(answer, paint, columns)],
        [*_refusal_counts(answer, paint, columns)],
        [*_not_proposed(answer, paint, columns)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def headline(answer: NodeAnswer) -> str:
    """The answer in one line."""
    name, pods, going = answer.node.name, format_count(answer.pods, "pod"), len(answer.leaving)
    if answer.left_out:
        return f"{name} is out of scope with its {pods}: {answer.left_out.says}"
    if not answer.pods:
        return f"{name} is in scope and holds no pods"
    return f"{name} is in scope and holds {pods}, of which {going or 'none'} would go"


def _state(answer: NodeAnswer, paint: Paint) -> Iterator[str]:
    uses = answer.uses
    names = max((len(use.resource) for use in uses), default=0) + 2
    amounts = [f"{_amount(use, use.requested)} of {_amount(use, use.offered)}" for use in uses]
    wide = max(map(len, amounts), default=0) + 2
    for use, amount in zip(uses, amounts, strict=True):
        yield f"  {use.resource:{names}}{amount:{wide}}{bar(use.percent, use.percent, paint)}"
    if answer.node.unschedulable:
        yield "  cordoned"
    for taint in answer.node.taints:
        yield f"  taint {taint}"
    for note in answer.notes:
        yield f"  {note.plugin}: {note.says}"


def _amount(use: ResourceUse, amount: int) -> str:
    """An amount as people read it: memory to a tenth of a Gi, the rest as it is."""
    if use.resource == "memory":
        return f"{amount / 2**30:.1f}Gi"
    return format_amount(use.resource, amount)


def _bands(answer: NodeAnswer, paint: Paint, columns: int) -> Iterator[str]:
    return format_rows(
        [
            TextRow(node_band.band.name, node_band.plugin, node_band.band.says)
            for node_band in answer.bands
        ],
        paint,
        columns,
    )


def _leaving(answer: NodeAnswer, paint: Paint, columns: int) -> Iterator[str]:
    if answer.leaving:
        yield f"{format_count(len(answer.leaving), 'pod')} would go"
        shown = answer.leaving[:MOST_MOVES]
        yield from format_rows(
            [TextRow(move.pod.key, move.plugin, move.reason) for move in shown], paint, columns
        )
        if len(answer.leaving) > MOST_MOVES:
            yield f"  … and {len(answer.leaving) - MOST_MOVES} more; `-o json` lists all"
    if answer.landing:
        if answer.leaving:
            yield ""
        yield f"{format_count(len(answer.landing), 'pod')} would likely land here"
        shown = answer.landing[:MOST_MOVES]
        arrivals = [TextRow(move.pod.key, f"from {move.pod.node}", move.plugin) for move in shown]
        yield from format_rows(arrivals, paint, columns)


def _refusal_counts(answer: NodeAnswer, paint: Paint, columns: int) -> Iterator[str]:
    if answer.refused:
        total = sum(count.count for count in answer.refused)
        yield f"{format_count(total, 'pod')} stay{'s' if total == 1 else ''}, though proposed"
        reasons = [
            TextRow(f"{reason.count:3}", reason.code, _example(reason)) for reason in answer.refused
        ]
        yield from format_rows(reasons, paint, columns)


def _example(count: ReasonCount) -> str:
    meaning = REFUSED.get(count.code)
    return f"{meaning.says if meaning else count.says} (such as {count.pod})"


def _not_proposed(answer: NodeAnswer, paint: Paint, columns: int) -> Iterator[str]:
    if answer.not_proposed:
        settled = len(answer.leaving) + sum(count.count for count in answer.refused)
        rest = answer.pods - settled
        yield f"{format_count(rest, 'pod')} {'was' if rest == 1 else 'were'} proposed by no plugin"
        reasons = [
            TextRow(f"{reason.count:3}", reason.plugin, f"{reason.says} (such as {reason.pod})")
            for reason in answer.not_proposed
        ]
        yield from format_rows(reasons, paint, columns)


# -- for programs ---------------------------------------------------------------------------------


def node_document(answer: NodeAnswer) -> dict[str, Any]:
    """The answer for programs: keys are stable, new ones may be added."""
    node = answer.node
    document: dict[str, Any] = {
        "name": node.name,
        "in_scope": answer.left_out is None,
        "cordoned": node.unschedulable,
        "taints": [str(taint) for taint in node.taints],
        "pods": answer.pods,
        "resources": {
            use.resource: {
                "requested": use.requested,
                "offered": use.offered,
                "percent": round(use.percent, 1),
            }
            for use in answer.uses
        },
        "bands": [
            {
                "profile": node_band.profile,
                "plugin": node_band.plugin,
                "band": node_band.band.name,
                "says": node_band.band.says,
            }
            for node_band in answer.bands
        ],
        "leaving": [_move_document(move) for move in answer.leaving],
        "landing": [_move_document(move) for move in answer.landing],
        "refused": [_count_document(count) for count in answer.refused],
        "unwanted": [
            {"profile": count.profile, "plugin": count.plugin} | _count_document(count)
            for count in answer.not_proposed
        ],
        "notes": [
            {"profile": note.profile, "plugin": note.plugin, "code": note.code, "says": note.says}
            for note in answer.notes
        ],
    }
    if answer.left_out:
        document["out_of_scope"] = {"code": answer.left_out.code, "says": answer.left_out.says}
    return document


def _move_document(move: Move) -> dict[str, Any]:
    return {
        "namespace": move.pod.namespace,
        "name": move.pod.name,
        "node": move.pod.node,
        "lands_on": move.lands_on,
        "profile": move.profile,
        "plugin": move.plugin,
        "reason": move.reason,
    }


def _count_document(count: ReasonCount) -> dict[str, Any]:
    return {
        "code": count.code,
        "pods": count.count,
        "for_instance": {"pod": count.pod, "says": count.says},
    }
