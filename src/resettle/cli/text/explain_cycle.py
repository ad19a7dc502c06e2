"""The answer about a whole cycle, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resettle.cli.text.plan import Paint, summary
from resettle.cli.text.terminal import Row, rows
from resettle.explain.cycle import CycleAnswer, PluginAnswer
from resettle.framework.codes import REASONS
from resettle.framework.plan import PluginRun
from resettle.text import counted

# -- for people -----------------------------------------------------------------------------------


def cycle_text(answer: CycleAnswer, paint: Paint, columns: int) -> str:
    """What would happen, what each plugin did, and how far the limits are used."""
    plan = answer.plan
    scope = f"{counted(plan.nodes_in_scope, 'node')} of {plan.nodes:,} in scope"
    blocks = [[summary(plan, paint), f"{scope}, {counted(plan.pods, 'pod')} looked at."]]
    blocks += [[*_plugin(plugin, paint, columns)] for plugin in answer.plugins]
    blocks.append([*_limits(answer, paint, columns)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _plugin(answer: PluginAnswer, paint: Paint, columns: int) -> Iterator[str]:
    yield f"{paint('bold', answer.plugin)} ({answer.profile}, {answer.point})"
    run = answer.run
    if run is None:
        yield "  had no turn"
        return
    yield from rows([*_account(run), *_close(answer)], paint, columns)


def _account(run: PluginRun) -> Iterator[Row]:
    moving = f", {run.already_moving} already moving" if run.already_moving else ""
    what = f"{counted(run.proposed, 'pod')}, {run.admitted or 'none'} admitted{moving}"
    yield Row("proposed", "", what if run.proposed else "nothing")
    for code, count in sorted(run.refused.items(), key=lambda item: (-item[1], item[0])):
        said = REASONS.get(code) or run.for_instance.get(code, "")
        yield Row("refused", "", f"{count} {code}: {said}")
    if run.stopped:
        yield Row("stopped", "", run.stopped.says)
    if run.error:
        yield Row("failed", "", run.error)


def _close(answer: PluginAnswer) -> Iterator[Row]:
    for says in answer.near_misses:
        yield Row("close", "", says)


def _limits(answer: CycleAnswer, paint: Paint, columns: int) -> Iterator[str]:
    plan = answer.plan
    if not plan.runs:
        return
    yield paint("bold", "limits")
    if not plan.spent:
        yield "  none is set"
    said = [
        Row(f"limit-{it.limit}", "", f"{it.used} of {it.most} used for {it.where}")
        for it in plan.spent
    ]
    yield from rows(said, paint, columns)


# -- for programs ---------------------------------------------------------------------------------


def cycle_document(answer: CycleAnswer) -> dict[str, Any]:
    """The same with stable keys."""
    plan = answer.plan
    document: dict[str, Any] = {
        "nodes": plan.nodes,
        "nodes_in_scope": plan.nodes_in_scope,
        "pods": plan.pods,
        "moves": len(plan.moves),
        "plugins": [_plugin_document(plugin) for plugin in answer.plugins],
        "limits": [
            {"limit": it.limit.value, "where": it.where, "used": it.used, "most": it.most}
            for it in plan.spent
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
