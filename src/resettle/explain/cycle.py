"""The answer about a whole cycle: what each plugin did, why it stopped, and what came close."""

from __future__ import annotations

from itertools import islice

from msgspec import Struct

from resettle.explain.stage import Stage
from resettle.explain.watched import Turn, Watched
from resettle.framework.plan import Plan, PluginRun
from resettle.framework.view import View
from resettle.policy.known import ExtensionPoint

MOST_NEAR_MISSES = 3


class PluginAnswer(Struct, frozen=True, kw_only=True):
    """One plugin's turn, and the pods or nodes that came closest to being its business."""

    profile: str
    plugin: str
    point: ExtensionPoint
    run: PluginRun | None
    near_misses: tuple[str, ...] = ()


class CycleAnswer(Struct, frozen=True, kw_only=True):
    """All there is to say of a cycle."""

    plan: Plan
    plugins: tuple[PluginAnswer, ...]


def explain_cycle(stage: Stage) -> CycleAnswer:
    """The answer, from a plan drawn as ever."""
    watched = Watched(stage, ())
    return CycleAnswer(
        plan=watched.plan, plugins=tuple(_plugin(watched, turn) for turn in watched.turns)
    )


def _plugin(watched: Watched, turn: Turn) -> PluginAnswer:
    return PluginAnswer(
        profile=turn.profile.name,
        plugin=turn.instance.name,
        point=turn.instance.point,
        run=turn.run,
        near_misses=_near_misses(watched.view, turn),
    )


def _near_misses(view: View, turn: Turn) -> tuple[str, ...]:
    if turn.run is None or turn.run.error:
        return ()
    try:
        close = turn.instance.plugin.near_misses(turn.instance.args, view)
        return tuple(islice(close, MOST_NEAR_MISSES))
    except Exception:
        return ()  # what came close is a courtesy; the plan stands without it
