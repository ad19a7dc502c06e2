"""`resettle record`: recorded cycles and the history of a pod, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from resettle.cli.inputs.recorded import cycle_outcome
from resettle.cli.text.terminal import align_columns
from resettle.record.entry import RecordedMove
from resettle.record.reader import RecordedCycle
from resettle.record.replay import RecordedProposal
from resettle.text import format_count


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(align_columns([head, *rows], indent=0)) + "\n"


# -- cycles ---------------------------------------------------------------------------------------


def cycle_list_text(cycles: Sequence[RecordedCycle]) -> str:
    """One line for each cycle, the latest last."""
    if not cycles:
        return "no cycle is recorded for that time\n"
    head = ("CYCLE", "TIME", "NODES", "PODS", "REFUSED", "TOOK", "OUTCOME")
    return _table(head, map(_row, cycles))


def _row(recorded: RecordedCycle) -> tuple[str, ...]:
    entry = recorded.entry
    rounds = f"; planned {len(entry.rounds)} times" if len(entry.rounds) > 1 else ""
    failed = f"; failed: {'; '.join(entry.errors)}" if entry.errors else ""
    return (
        str(entry.cycle),
        _time(entry.at),
        f"{entry.nodes:,}",
        f"{entry.pods:,}",
        f"{entry.rounds[-1].refused:,}",
        f"{entry.took:.1f} s",
        f"{cycle_outcome(entry)}{rounds}{failed}",
    )


def recorded_cycle_text(recorded: RecordedCycle) -> str:
    """One recorded cycle: its moves and the outcome of each."""
    entry = recorded.entry
    there = f"{format_count(entry.pods, 'pod')} on {format_count(entry.nodes, 'node')}"
    lines = [f"{recorded.title}: {cycle_outcome(entry)} of {there}", ""]
    several = len(entry.rounds) > 1
    rows = [
        (*((str(number),) if several else ()), *_move(move))
        for number, planning_round in enumerate(entry.rounds, 1)
        for move in planning_round.moves
    ]
    if rows:
        head = (*(("ROUND",) if several else ()), "POD", "NODE", "PLUGIN", "OUTCOME", "WHY")
        lines += [*align_columns([head, *rows], indent=0), ""]
    lines += [f"error: {failed}" for failed in entry.errors]
    refused = format_count(entry.rounds[-1].refused, "proposal")
    lines.append(f"{refused} refused; took {entry.took:.1f} s; resettle {entry.resettle}")
    return "\n".join(lines) + "\n"


def _move(move: RecordedMove) -> tuple[str, ...]:
    detail = f" ({move.says})" if move.says else ""
    return move.key, move.node, move.plugin, f"{move.ending}{detail}", move.reason


def cycle_summary_document(recorded: RecordedCycle) -> dict[str, Any]:
    """A recorded cycle as it stands in a list, for programs."""
    entry = recorded.entry
    document: dict[str, Any] = {
        "cycle": entry.cycle,
        "at": entry.at.isoformat().replace("+00:00", "Z"),
        "resettle": entry.resettle,
        "took": entry.took,
        "nodes": entry.nodes,
        "pods": entry.pods,
        "rounds": len(entry.rounds),
        "outcomes": dict(sorted(entry.endings.items())),
        "refused": entry.rounds[-1].refused,
    }
    if entry.skipped:
        document["skipped"] = entry.skipped
    if entry.errors:
        document["errors"] = list(entry.errors)
    return document


def recorded_cycle_document(recorded: RecordedCycle) -> dict[str, Any]:
    """A recorded cycle for programs: everything but the recorded cluster."""
    moves = [
        {
            "round": number,
            "namespace": move.namespace,
            "name": move.name,
            "uid": move.uid,
            "node": move.node,
            "plugin": move.plugin,
            "profile": move.profile,
            "reason": move.reason,
            **({"likely_node": move.lands_on} if move.lands_on else {}),
            "outcome": move.ending,
            **({"says": move.says} if move.says else {}),
        }
        for number, planning_round in enumerate(recorded.entry.rounds, 1)
        for move in planning_round.moves
    ]
    document = cycle_summary_document(recorded)
    return {**document, "phases": recorded.entry.phases, "moves": moves, "policy": recorded.policy}


# -- pods -----------------------------------------------------------------------------------------


def pod_history_text(findings: Sequence[RecordedProposal]) -> str:
    """What was decided about a pod; equal decisions of consecutive cycles share one line."""
    head = ("CYCLES", "FROM", "TO", "OUTCOME", "PLUGIN", "WHY")
    return _table(head, map(_span_row, _spans(findings)))


def _spans(findings: Iterable[RecordedProposal]) -> list[list[RecordedProposal]]:
    """The findings grouped: equal ones of consecutive cycles together."""
    spans: list[list[RecordedProposal]] = []
    growing: dict[tuple[str, ...], list[RecordedProposal]] = {}
    for finding in findings:
        alike = (finding.verdict, finding.code, finding.profile, finding.plugin)
        span = growing.get(alike)
        if span and finding.recorded.entry.cycle <= span[-1].recorded.entry.cycle + 1:
            span.append(finding)
        else:
            growing[alike] = [finding]
            spans.append(growing[alike])
    return spans


def _span_row(span: Sequence[RecordedProposal]) -> tuple[str, ...]:
    first, last = span[0].recorded.entry, span[-1].recorded.entry
    several = first.cycle != last.cycle
    latest = span[-1]
    code = f" ({latest.code})" if latest.code else ""
    detail = f"; {latest.says}" if latest.says else ""
    return (
        f"{first.cycle}–{last.cycle}" if several else str(first.cycle),
        _time(first.at),
        _time(last.at) if several else "",
        f"{latest.verdict}{code}",
        latest.plugin,
        f"{latest.because}{detail}",
    )


def pod_history_document(finding: RecordedProposal) -> dict[str, Any]:
    """One decision about a pod in one cycle, for programs."""
    entry = finding.recorded.entry
    document = {
        "cycle": entry.cycle,
        "at": entry.at.isoformat().replace("+00:00", "Z"),
        "round": finding.round,
        "outcome": finding.verdict,
        "profile": finding.profile,
        "plugin": finding.plugin,
        "reason": finding.because,
    }
    if finding.code:
        document["code"] = finding.code
    if finding.says:
        document["says"] = finding.says
    return document
