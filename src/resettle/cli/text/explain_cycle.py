"""`resettle explain` without a pod or node: the answer about a whole cycle, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resettle.cli.text.plan import Paint, summary
from resettle.cli.text.terminal import TextRow, format_rows
from resettle.explain.cycle import CycleAnswer, PluginAnswer
from resettle.framework.codes import REASONS
from resettle.framework.plan import PluginRun
from resettle.text import format_count

# -- for people -----------------------------------------------------------------------------------


def cycle_text(answer: CycleAnswer, paint: Paint, columns: int) -> str:
    """What would happen, what each plugin did, and how much of each limit is used."""
    plan = answer.plan
    scope = f"{format_count(plan.nodes_in_scope, 'node')} of {plan.nodes:,} in scope"
    blocks = [[summary(plan, paint), f"{scope}, {format_count(plan.pods, 'pod')} looked at."]]
    blocks += [[*_plugin(plugin, paint, columns)] for plugin in answer.plugins]
    blocks.append([*_limits(answer, paint, columns)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _plugin(answer: PluginAnswer, paint: Paint, columns: int) -> Iterator[str]:
    yield f"{paint('bold', answer.plugin)} ({answer.profile}, {answer.point})"
    run = answer.run
    if run is None:
        yield "  did not run"
        return
    yield from format_rows([*_proposals(run), *_near_misses(answer)], paint, columns)


def _proposals(run: PluginRun) -> Iterator[TextRow]:
    moving = f", {run.already_moving} already moving" if run.already_moving else ""
    what = f"{format_count(run.proposed, 'pod')}, {run.admitted or 'none'} admitted{moving}"
    yield TextRow("proposed", "", what if run.proposed else "nothing")
    for code, count in sorted(run.refused.items(), key=lambda item: (-item[1], item[0])):
        meaning = REASONS.get(code) or run.for_instance.get(code, "")
        yield TextRow("refused", "", f"{count} {code}: {meaning}")
    if run.stopped:
        yield TextRow("stopped", "", run.stopped.says)
    if run.error:
        yield TextRow("failed", "", run.error)


def _near_misses(answer: PluginAnswer) -> Iterator[TextRow]:
    for says in answer.near_misses:
        yield TextRow("close", "", says)


def _limits(answer: CycleAnswer, paint: Paint, columns: int) -> Iterator[str]:
    plan = answer.plan
    if not plan.runs:
        return
    yield paint("bold", "limits")
    if not plan.spent:
        yield "  none is set"
    limit_rows = [
        TextRow(f"limit-{use.limit}", "", f"{use.used} of {use.most} used for {use.where}")
        for use in plan.spent
    ]
    yield from format_rows(limit_rows, paint, columns)


# -- for programs ---------------------------------------------------------------------------------


def cycle_document(answer: CycleAnswer) -> dict[str, Any]:
    """The answer for programs: keys are stable, new ones may be added."""
    plan = answer.plan
    document: dict[str, Any] = {
        "nodes": plan.nodes,
        "nodes_in_scope": plan.nodes_in_scope,
        "pods": plan.pods,
        "moves": len(plan.moves),
        "plugins": [_plugin_document(plugin) for plugin in answer.plugins],
        "limits": [
            {"limit": use.limit.value, "where": use.where, "used": use.used, "most": use.most}
            for use in plan.spent
        ],
    }
    if plan.skipped:
        document["skipped"] = {"code": plan.skipped.code, "says": plan.skipped.says}
    return document


def _plugin_document(answer: PluginAnswer) -> dict[str, Any]:
    run = answer.run
    document: dict[str, Any] = {
        "profile": answer.profile,
        "plugin": answer.plugin,
        "point": answer.point.value,
        "proposed": run.proposed if run else 0,
        "admitted": run.admitted if run else 0,
        "already_moving": run.already_moving if run else 0,
        "refused": [
            {
                "code": code,
                "proposals": count,
                "says": REASONS.get(code, ""),
                "for_instance": run.for_instance.get(code, ""),
            }
            for code, count in sorted(run.refused.items())
        ]
        if run
        else [],
        "near_misses": list(answer.near_misses),
    }
    if run and run.stopped:
        document["stopped"] = {"code": run.stopped.code, "says": run.stopped.says}
    if run and run.error:
        document["error"] = run.error
    return document
