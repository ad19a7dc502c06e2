"""Limits of a cycle and disruption budgets, as options for a change.

A percentage is tried in steps of half a percent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from resettle.explain.what_if import ChangeOption, PlanInputs
from resettle.framework.limits import share
from resettle.framework.plan import Move, Plan
from resettle.framework.plugin import ChangeScope
from resettle.model.changes import Change, Changes
from resettle.model.objects import Budget
from resettle.model.pod import Pod

HALF_PERCENTS = tuple(half / 2 for half in range(1, 201))


class _Limit(Struct, frozen=True):
    """A limit: its field in `Limits`, its key in a policy, the code of its refusals."""

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
    """The moves up to the pod's own, with that one."""
    keys = [move.pod.key for move in plan.moves]
    return list(plan.moves[: keys.index(pod.key) + 1])


def _percent(count: int, whole: int) -> float | None:
    """The least multiple of half a percent that is so many of the whole."""
    return next(
        (percent for percent in HALF_PERCENTS if (share(percent, whole) or 0) >= count), None
    )


_COUNTS: dict[str, Callable[[Plan, Pod], float | None]] = {
    "total": lambda plan, pod: len(_up_to(plan, pod)),
    "percent_of_pods": lambda plan, pod: _percent(len(_up_to(plan, pod)), plan.pods),
    "percent_of_nodes": lambda plan, pod: _percent(
        len({move.pod.node for move in _up_to(plan, pod)}), plan.nodes_in_scope
    ),
    "node": lambda plan, pod: sum(move.pod.node == pod.node for move in _up_to(plan, pod)),
    "namespace": lambda plan, pod: sum(
        move.pod.namespace == pod.namespace for move in _up_to(plan, pod)
    ),
}
"""What each limit counts, up to the pod's move and with it."""


def limit_options(inputs: PlanInputs, pod: Pod) -> Iterator[ChangeOption]:
    """The limits that the policy sets, each with higher values."""
    for limit in _LIMITS:
        was = getattr(inputs.descheduler.limits, limit.field)
        if was is not None:
            yield ChangeOption(
                name=limit.spelled,
                current=was,
                values=_higher_values(limit, was, inputs, pod),
                apply=partial(_with_limit, limit.field),
                describe=partial(_limit_text, limit.spelled),
                lifts=frozenset({limit.code}),
                guess=_COUNTS.get(limit.field),
            )


def _higher_values(limit: _Limit, was: Any, inputs: PlanInputs, pod: Pod) -> Sequence[Any]:
    """Higher values, up to the one with which the limit can no longer stop this pod."""
    pod_index = inputs.snapshot.pod_index
    match limit.field:
        case "node":
            enough = len(pod_index.on(pod.node))
        case "namespace":
            templates = pod_index.namespaces.get(pod.namespace, ())
            enough = sum(len(pod_index.templates[template]) for template in templates)
        case "total":
            enough = len(pod_index)
        case _:
            return tuple(percent for percent in HALF_PERCENTS if percent > was)
    if inputs.descheduler.semantics.repeat_spends_limits:
        enough *= 2  # a pod that two plugins propose may count twice
    return range(was + 1, enough + 1)


def _with_limit(field: str, inputs: PlanInputs, value: Any) -> PlanInputs:
    descheduler = inputs.descheduler
    limits = structs.replace(descheduler.limits, **{field: value})
    return inputs._replace(descheduler=structs.replace(descheduler, limits=limits))


def _limit_text(spelled: str, value: Any) -> str:
    return f"`{spelled}` were {value:g}"


def budget_options(inputs: PlanInputs, pod: Pod) -> Iterator[ChangeOption]:
    """The budgets that cover the pod: allowing more, being the only one, being up to date."""
    covering = inputs.snapshot.budgets_of(pod)
    for budget in covering:
        if len(covering) > 1:
            yield _only_budget(budget, covering)
        yield _allowing_more(budget, inputs)
        if not budget.up_to_date:
            yield _status_up_to_date(budget)


def _allowing_more(budget: Budget, inputs: PlanInputs) -> ChangeOption:
    selector = budget.selector
    covered = sum(
        len(inputs.snapshot.pod_index.templates[template])
        for template in inputs.snapshot.pod_index.namespaces.get(budget.namespace, ())
        if selector is not None and selector.matches(template.labels)
    )
    return ChangeOption(
        name="disruptionsAllowed",
        where=f"budget {budget.key}",
        current=budget.disruptions_allowed,
        values=range(budget.disruptions_allowed + 1, budget.disruptions_allowed + covered + 1),
        apply=partial(_with_budget, budget, "disruptions_allowed"),
        describe=partial(_allowance_text, budget),
        lifts=frozenset({"budget"}),
        scope=ChangeScope.BUDGET,
        guess=partial(_covered_up_to, budget),
    )


def _covered_up_to(budget: Budget, plan: Plan, pod: Pod) -> int:
    """The number of moves of pods that the budget covers, up to this pod's and with it."""
    selector = budget.selector
    return sum(
        move.pod.namespace == budget.namespace
        and selector is not None
        and selector.matches(move.pod.labels)
        for move in _up_to(plan, pod)
    )


def _allowance_text(budget: Budget, allowed: int) -> str:
    more = allowed - budget.disruptions_allowed
    count = "one more disruption" if more == 1 else f"{more} more disruptions"
    wants = budget.desired_healthy
    ready = wants + allowed - budget.current_healthy if wants else 0
    way = f", as it does with {ready} more {'pod' if ready == 1 else 'pods'} ready"
    return f"budget {budget.key} allowed {count}{way if ready > 0 else ''}"


def _only_budget(budget: Budget, covering: tuple[Budget, ...]) -> ChangeOption:
    others = frozenset(other.key for other in covering if other is not budget)
    return ChangeOption(
        name="the only budget",
        where=f"budget {budget.key}",
        current=False,
        values=(True,),
        apply=lambda inputs, _: _with_budgets(inputs, Change(gone=others)),
        describe=lambda _: f"{budget.key} were the only budget that covers it",
        lifts=frozenset({"several-budgets"}),
        scope=ChangeScope.BUDGET,
    )


def _status_up_to_date(budget: Budget) -> ChangeOption:
    return ChangeOption(
        name="up to date",
        where=f"budget {budget.key}",
        current=False,
        values=(True,),
        apply=partial(_with_budget, budget, "up_to_date"),
        describe=lambda _: f"the status of budget {budget.key} had caught up with its spec",
        lifts=frozenset({"budget-not-ready"}),
        scope=ChangeScope.BUDGET,
    )


def _with_budget(budget: Budget, field: str, inputs: PlanInputs, value: Any) -> PlanInputs:
    """The inputs with one field of the budget changed, keeping earlier changes to it."""
    now = inputs.snapshot.budgets.get(budget.key, budget)
    return _with_budgets(inputs, Change(put=(structs.replace(now, **{field: value}),)))


def _with_budgets(inputs: PlanInputs, budgets: Change[Budget]) -> PlanInputs:
    changes = Changes(at=inputs.snapshot.taken_at, budgets=budgets)
    return inputs._replace(snapshot=inputs.snapshot.next(changes))
