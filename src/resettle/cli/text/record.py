"""Cycles of a record and pods found in them, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from resettle.cli.inputs.recorded import became
from resettle.cli.text.terminal import aligned
from resettle.record.entry import RecordedMove
from resettle.record.reader import Recorded
from resettle.record.replay import Finding
from resettle.text import counted


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(aligned([head, *rows], indent=0)) + "\n"


# -- cycles ---------------------------------------------------------------------------------------


def listed(cycles: Sequence[Recorded]) -> str:
    """A line a cycle, the last one at the bottom."""
    if not cycles:
        return "no cycle is recorded for that time\n"
    head = ("CYCLE", "TIME", "NODES", "PODS", "REFUSED", "TOOK", "OUTCOME")
    return _table(head, map(_row, cycles))


def _row(recorded: Recorded) -> tuple[str, ...]:
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
        f"{became(entry)}{rounds}{failed}",
    )


def shown(recorded: Recorded) -> str:
    """One cycle: its moves and what became of each."""
    entry = recorded.entry
    there = f"{counted(entry.pods, 'pod')} on {counted(entry.nodes, 'node')}"
    lines = [f"{recorded.named}: {became(entry)} of {there}", ""]
    several = len(entry.rounds) > 1
    rows = [
        (*((str(number),) if several else ()), *_move(move))
        for number, one in enumerate(entry.rounds, 1)
        for move in one.moves
    ]
    if rows:
        head = (*(("ROUND",) if several else ()), "POD", "NODE", "PLUGIN", "OUTCOME", "WHY")
        lines += [*aligned([head, *rows], indent=0), ""]
    lines += [f"error: {failed}" for failed in entry.errors]
    refused = counted(entry.rounds[-1].refused, "proposal")
    lines.append(f"{refused} refused; took {entry.took:.1f} s; resettle {entry.resettle}")
    return "\n".join(lines) + "\n"


def _move(move: RecordedMove) -> tuple[str, ...]:
    said = f" ({move.says})" if move.says else ""
    return move.key, move.node, move.plugin, f"{move.ending}{said}", move.reason


def recorded_document(recorded: Recorded) -> dict[str, Any]:
    """What a list says of a cycle."""
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


def cycle_document(recorded: Recorded) -> dict[str, Any]:
    """All that a record says of a cycle, but for what it saw."""
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
        for number, one in enumerate(recorded.entry.rounds, 1)
        for move in one.moves
    ]
    document = recorded_document(recorded)
    return {**document, "phases": recorded.entry.phases, "moves": moves, "policy": recorded.policy}


# -- pods -----------------------------------------------------------------------------------------


def found(findings: Sequence[Finding]) -> str:
    """What became of a pod; a plugin that was answered alike cycle after cycle has one line."""
    head = ("CYCLES", "FROM", "TO", "OUTCOME", "PLUGIN", "WHY")
    return _table(head, map(_span_row, _spans(findings)))


def _spans(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings, those together that are alike and of cycles in a row."""
    spans: list[list[Finding]] = []
    growing: dict[tuple[str, ...], list[Finding]] = {}
    for it in findings:
        alike = (it.verdict, it.code, it.profile, it.plugin)
        span = growing.get(alike)
        if span and it.recorded.entry.cycle <= span[-1].recorded.entry.cycle + 1:
            span.append(it)
        else:
            growing[alike] = [it]
            spans.append(growing[alike])
    return spans


def _span_row(span: Sequence[Finding]) -> tuple[str, ...]:
    first, last = span[0].recorded.entry, span[-1].recorded.entry
    several = first.cycle != last.cycle
    it = span[-1]
    code = f" ({it.code})" if it.code else ""
    said = f"; {it.says}" if it.says else ""
    return (
        f"{first.cycle}–{last.cycle}" if several else str(first.cycle),
        _time(first.at),
        _time(last.at) if several else "",
        f"{it.verdict}{code}",
        it.plugin,
        f"{it.because}{said}",
    )


def finding_document(finding: Finding) -> dict[str, Any]:
    """The same for programs, each cycle for itself."""
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
