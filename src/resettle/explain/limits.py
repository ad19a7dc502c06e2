"""Limits of a cycle and disruption budgets, as settings that could be turned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from resettle.explain.stage import Setting, Stage
from resettle.framework.knob import Reach
from resettle.framework.limits import share
from resettle.framework.plan import Move, Plan
from resettle.model.changes import Change, Changes
from resettle.model.node import Budget
from resettle.model.pod import Pod

HALF_PERCENTS = tuple(half / 2 for half in range(1, 201))


class _Limit(Struct, frozen=True):
    """A limit: where it stands in `Limits`, how a policy spells it, what it refuses with."""

    field: str
    spelled: str
    code: str


_LIMITS = (
    _Limit("total", "maxNoOfPodsToEvictTotal", "limit-total"),
    _Limit("percent_of_pods", "maxPercentOfPodsToEvict", "limit-total"),
    _Limit("percent_of_nodes", "maxPercentOfNodesToEvictFrom", "limit-nodes"),
    _Limit("node", "maxNoOfPodsToEvictPerNode", "limit-node"),
    _Limit("namespace", "maxNoOfPodsToEvictPerNamespace", "limit-namespace"),
)


def _up_to(plan: Plan, pod: Pod) -> list[Move]:
    """The moves before the pod's own, and that one."""
    keys = [move.pod.key for move in plan.moves]
    return list(plan.moves[: keys.index(pod.key) + 1])


def _percent(count: int, whole: int) -> float | None:
    """The least half percent of the whole that makes so many."""
    return next((it for it in HALF_PERCENTS if (share(it, whole) or 0) >= count), None)


_COUNTED: dict[str, Callable[[Plan, Pod], float | None]] = {
    "total": lambda plan, pod: len(_up_to(plan, pod)),
    "percent_of_pods": lambda plan, pod: _percent(len(_up_to(plan, pod)), plan.pods),
    "percent_of_nodes": lambda plan, pod: _percent(
        len({it.pod.node for it in _up_to(plan, pod)}), plan.nodes_in_scope
    ),
    "node": lambda plan, pod: sum(it.pod.node == pod.node for it in _up_to(plan, pod)),
    "namespace": lambda plan, pod: sum(
        it.pod.namespace == pod.namespace for it in _up_to(plan, pod)
    ),
}
"""What a limit counts, up to and with the pod."""


def limit_settings(stage: Stage, pod: Pod) -> Iterator[Setting]:
    """The limits that the policy sets, each to be raised step by step."""
    for limit in _LIMITS:
        was = getattr(stage.descheduler.limits, limit.field)
        if was is not None:
            yield Setting(
                name=limit.spelled,
                was=was,
                ladder=_raised(limit, was, stage, pod),
                turned=partial(_with_limit, limit.field),
                says=partial(_would_be, limit.spelled),
                lifts=frozenset({limit.code}),
                guess=_COUNTED.get(limit.field),
            )


def _raised(limit: _Limit, was: Any, stage: Stage, pod: Pod) -> Sequence[Any]:
    """Higher values, up to the one at which the limit could not stop this pod any more."""
    population = stage.snapshot.population
    match limit.field:
        case "node":
            enough = len(population.on(pod.node))
        case "namespace":
            templates = population.namespaces.get(pod.namespace, ())
            enough = sum(len(population.templates[template]) for template in templates)
        case "total":
            enough = len(population)
        case _:
            return tuple(percent for percent in HALF_PERCENTS if percent > was)
    if stage.descheduler.semantics.repeat_spends_limits:
        enough *= 2  # a pod that two plugins propose may count twice
    return range(was + 1, enough + 1)


def _with_limit(field: str, stage: Stage, value: Any) -> Stage:
    descheduler = stage.descheduler
    limits = structs.replace(descheduler.limits, **{field: value})
    return stage._replace(descheduler=structs.replace(descheduler, limits=limits))


def _would_be(spelled: str, value: Any) -> str:
    return f"`{spelled}` were {value:g}"


def budget_settings(stage: Stage, pod: Pod) -> Iterator[Setting]:
    """What the budgets that cover the pod could allow, or that one of them alone did."""
    covering = stage.snapshot.budgets_of(pod)
    for budget in covering:
        if len(covering) > 1:
            yield _alone(budget, covering)
        yield _allowing_more(budget, stage)
        if not budget.up_to_date:
            yield _caught_up(budget)


def _allowing_more(budget: Budget, stage: Stage) -> Setting:
    selector = budget.selector
    covered = sum(
        len(stage.snapshot.population.templates[template])
        for template in stage.snapshot.population.namespaces.get(budget.namespace, ())
        if selector is not None and selector.matches(template.labels)
    )
    return Setting(
        name="disruptionsAllowed",
        where=f"budget {budget.key}",
        was=budget.disruptions_allowed,
        ladder=range(budget.disruptions_allowed + 1, budget.disruptions_allowed + covered + 1),
        turned=partial(_with_budget, budget, "disruptions_allowed"),
        says=partial(_disruptions, budget),
        lifts=frozenset({"budget"}),
        reach=Reach.BUDGET,
        guess=partial(_covered_up_to, budget),
    )


def _covered_up_to(budget: Budget, plan: Plan, pod: Pod) -> int:
    """Moves of pods that the budget covers, this one's included."""
    selector = budget.selector
    return sum(
        move.pod.namespace == budget.namespace
        and selector is not None
        and selector.matches(move.pod.labels)
        for move in _up_to(plan, pod)
    )


def _disruptions(budget: Budget, allowed: int) -> str:
    more = allowed - budget.disruptions_allowed
    count = "one more disruption" if more == 1 else f"{more} more disruptions"
    wants = budget.desired_healthy
    ready = wants + allowed - budget.current_healthy if wants else 0
    way = f", as it does with {ready} more {'pod' if ready == 1 else 'pods'} ready"
    return f"budget {budget.key} allowed {count}{way if ready > 0 else ''}"


def _alone(budget: Budget, covering: tuple[Budget, ...]) -> Setting:
    others = frozenset(other.key for other in covering if other is not budget)
    return Setting(
        name="the only budget",
        where=f"budget {budget.key}",
        was=False,
        ladder=(True,),
        turned=lambda stage, _: _changed(stage, Change(gone=others)),
        says=lambda _: f"{budget.key} were the only budget that covers it",
        lifts=frozenset({"several-budgets"}),
        reach=Reach.BUDGET,
    )


def _caught_up(budget: Budget) -> Setting:
    return Setting(
        name="up to date",
        where=f"budget {budget.key}",
        was=False,
        ladder=(True,),
        turned=partial(_with_budget, budget, "up_to_date"),
        says=lambda _: f"the status of budget {budget.key} had caught up with its spec",
        lifts=frozenset({"budget-not-ready"}),
        reach=Reach.BUDGET,
    )


def _with_budget(budget: Budget, field: str, stage: Stage, value: Any) -> Stage:
    """The budget with another value in one field, whatever else has been changed about it."""
    now = stage.snapshot.budgets.get(budget.key, budget)
    return _changed(stage, Change(put=(structs.replace(now, **{field: value}),)))


def _changed(stage: Stage, budgets: Change[Budget]) -> Stage:
    changes = Changes(at=stage.snapshot.taken_at, budgets=budgets)
    return stage._replace(snapshot=stage.snapshot.next(changes))
