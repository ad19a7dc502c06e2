"""A plan as a table, JSON or YAML.

The table says first what would happen, then to which nodes, then why the rest stays. A bar shows
what a node's pods request: `█` stays, `▓` will likely come, `▒` leaves, `·` is free.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import msgspec
import yaml

from resettle.framework.codes import REASONS
from resettle.framework.plan import Move, Plan, PluginRun
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.resources import requested_by
from resettle.model.snapshot import Snapshot
from resettle.text import format_count
from resettle.utilization.bands import node_capacity, shares

_COLOUR = re.compile(r"\x1b\[\d+m")
BAR_WIDTH = 20
MOST_NODES = 20
MOST_MOVES = 40


# -- for programs ---------------------------------------------------------------------------------


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as other programs read it; keys are stable, new ones may be added."""
    document: dict[str, Any] = {
        "moves": [_move_document(move) for move in plan.moves],
        "refused": plan.refused,
        "plugins": [_run_document(run) for run in plan.runs],
        "snapshot": {
            "nodes": plan.nodes,
            "pods": plan.pods,
            "taken_at": plan.taken_at.isoformat().replace("+00:00", "Z"),
        },
    }
    if plan.skipped:
        document["skipped"] = {"code": plan.skipped.code, "reason": plan.skipped.says}
    return document


def _move_document(move: Move) -> dict[str, Any]:
    document: dict[str, Any] = {
        "namespace": move.pod.namespace,
        "name": move.pod.name,
        "uid": move.pod.uid,
        "node": move.pod.node,
        "plugin": move.plugin,
        "profile": move.profile,
        "reason": move.reason,
    }
    if move.lands_on:
        document["likely_node"] = move.lands_on
    return document | ({"place_held": True} if move.place_held else {})


def _run_document(run: PluginRun) -> dict[str, Any]:
    document: dict[str, Any] = {
        "profile": run.profile,
        "plugin": run.plugin,
        "point": run.point.value,
        "proposed": run.proposed,
        "admitted": run.admitted,
        "already_moving": run.already_moving,
        "refused": run.refused,
    }
    if run.stopped:
        document["stopped"] = {"code": run.stopped.code, "reason": run.stopped.says}
    if run.error:
        document["error"] = run.error
    return document


def plan_json(plan: Plan) -> str:
    """The plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan_document(plan)), indent=2).decode()


def plan_yaml(plan: Plan) -> str:
    """The plan as YAML."""
    text: str = yaml.safe_dump(plan_document(plan), sort_keys=False, allow_unicode=True)
    return text


# -- for people -----------------------------------------------------------------------------------


class Paint:
    """Adds colour to text; nothing is said by colour alone."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, style: str, text: str) -> str:
        codes = {"bold": "1", "dim": "2", "leaves": "33", "stays": "36"}
        return f"\x1b[{codes[style]}m{text}\x1b[0m" if self._on and text else text


def use_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set or it is a dumb one."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plan_text(plan: Plan, snapshot: Snapshot, *, colour: bool = False) -> str:
    """The plan as a person reads it."""
    paint = Paint(colour)
    blocks = [summary(plan, paint)]
    if plan.moves:
        blocks += [_moves(plan.moves, paint), _nodes(plan, snapshot, paint)]
    blocks += [block for block in (_refusal_table(plan, paint), _plugins(plan, paint)) if block]
    return "\n\n".join(blocks) + "\n"


def summary(plan: Plan, paint: Paint) -> str:
    """The plan in one line."""
    there = f"{format_count(plan.pods, 'pod')} on {format_count(plan.nodes, 'node')}"
    if plan.skipped:
        return f"{paint('bold', 'Nothing would move')} of {there}: {plan.skipped.says}."
    if not plan.moves:
        return f"{paint('bold', 'Nothing would move')} of {there}: {_why_nothing(plan)}."
    left = len({move.pod.node for move in plan.moves})
    return (
        f"{paint('bold', format_count(len(plan.moves), 'pod') + ' would move')} of {there}, "
        f"off {format_count(left, 'node')}."
    )


def _why_nothing(plan: Plan) -> str:
    if not plan.runs:
        return "the policy enables no strategy"
    if plan.proposed:
        verb = "was" if plan.proposed == 1 else "were"
        return f"{format_count(plan.proposed, 'proposal')} {verb} made and all refused"
    return "no plugin found a pod to move"


def _where(move: Move) -> str:
    """The node a pod leaves, and the one it will likely land on where the plan predicts one."""
    if not move.lands_on:
        return move.pod.node
    held = " (place held)" if move.place_held else ""
    return f"{move.pod.node} → {move.lands_on}{held}"


def _moves(moves: Sequence[Move], paint: Paint) -> str:
    rows = [(move.pod.key, _where(move), move.plugin, move.reason) for move in moves[:MOST_MOVES]]
    lines = list(_table(("POD", "NODE", "PLUGIN", "WHY"), rows, paint))
    if len(moves) > MOST_MOVES:
        lines.append(f"… and {len(moves) - MOST_MOVES} more; `-o json` lists all")
    return "\n".join(lines)


def _nodes(plan: Plan, snapshot: Snapshot, paint: Paint) -> str:
    """Bars of the nodes that lose pods, and of all others while these are few."""
    leaving: dict[str, set[Pod]] = {}
    coming: dict[str, list[Pod]] = {}
    for move in plan.moves:
        leaving.setdefault(move.pod.node, set()).add(move.pod)
        coming.setdefault(move.lands_on, []).append(move.pod)
    nodes = list(snapshot.node_index)
    if len(nodes) > MOST_NODES:
        nodes = sorted(
            (node for node in nodes if node.name in leaving),
            key=lambda node: -len(leaving[node.name]),
        )
    rows = []
    for node in nodes[:MOST_NODES]:
        before = snapshot.requests_on(node)
        gone, come = leaving.get(node.name, set()), coming.get(node.name, [])
        kept = [pod for pod in snapshot.active_on(node) if pod not in gone]
        uses = (before, requested_by([*kept, *come]), requested_by(kept))
        cells = []
        for name in ("cpu", "memory"):
            was, will, stays = _shares(node, uses, name)
            cells.append(bar(was, will, paint, stays))
        pods = len(snapshot.pods_on(node))
        later = pods - len(gone) + len(come)
        rows.append((node.name, *cells, f"{pods} → {later}" if later != pods else str(pods)))
    lines = list(_table(("NODE", "CPU REQUESTED", "MEMORY REQUESTED", "PODS"), rows, paint))
    if len(leaving) > MOST_NODES:
        lines.append(f"… and {len(leaving) - MOST_NODES} more nodes that lose pods")
    return "\n".join(lines)


def _shares(node: Node, uses: Iterable[Mapping[str, int]], resource: str) -> Iterator[float | None]:
    """The percentage of the node's allocatable amount that each of these uses is."""
    for used in uses:
        yield shares(used, node_capacity(node), (resource,)).get(resource)


def bar(before: float | None, after: float | None, paint: Paint, kept: float | None = None) -> str:
    """`████▒▒······  60% → 40%`, or a dash where the node does not say what it offers."""
    if before is None or after is None:
        return "-"
    was, stays, will = (
        min(round(share / 100 * BAR_WIDTH), BAR_WIDTH)
        for share in (before, after if kept is None else kept, after)
    )
    drawn = paint("stays", "█" * stays + "▓" * (will - stays)) + paint("leaves", "▒" * (was - will))
    drawn += paint("dim", "·" * (BAR_WIDTH - max(was, will)))
    figure = (
        f"{before:3.0f}%" if round(before) == round(after) else f"{before:3.0f}% → {after:.0f}%"
    )
    return f"{drawn} {figure}"


def _refusal_table(plan: Plan, paint: Paint) -> str:
    if not plan.refused:
        return ""
    by_count = sorted(plan.refused.items(), key=lambda item: (-item[1], item[0]))
    examples = {code: says for run in plan.runs for code, says in run.for_instance.items()}
    rows = [(str(count), code, REASONS.get(code) or examples[code]) for code, count in by_count]
    total = format_count(sum(plan.refused.values()), "proposal")
    return "\n".join([f"{total} refused, because the pods", *_table(None, rows, paint)])


def _plugins(plan: Plan, paint: Paint) -> str:
    rows = [
        (run.profile, run.plugin, str(run.proposed), str(run.admitted), _remark(run))
        for run in plan.runs
    ]
    if not rows:
        return ""
    return "\n".join(_table(("PROFILE", "PLUGIN", "PROPOSED", "ADMITTED", "REMARK"), rows, paint))


def _remark(run: PluginRun) -> str:
    if run.error:
        return f"failed: {run.error}"
    if run.stopped:
        return run.stopped.says
    return f"{run.already_moving} already moving" if run.already_moving else ""


def _table(
    header: Sequence[str] | None, rows: Iterable[Sequence[str]], paint: Paint
) -> Iterator[str]:
    """Columns as wide as their widest cell; colour takes no width."""
    cells = [list(row) for row in rows]
    every = [list(header), *cells] if header else cells
    widths = [max(map(_width, column)) for column in zip(*every, strict=True)]
    for i, row in enumerate(every):
        line = "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        yield paint("dim", line) if header and i == 0 else f"{'' if header else '  '}{line}"


def _width(cell: str) -> int:
    return len(_COLOUR.sub("", cell))
