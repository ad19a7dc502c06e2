"""Who takes part in a simulation: a policy each, with or without a soft tainter at its side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.errors import InputError
from resettle.framework.descheduler import Descheduler
from resettle.policy.soft_taints import BALANCER


class Part(NamedTuple):
    """A policy made ready, and whoever taints nodes by it."""

    planner: Descheduler
    tainter: SimulatedTainter | None = None


def cast(planners: Mapping[str, Descheduler], soft_taints: str | None) -> dict[str, Part]:
    """The parts, by what they are called; to compare, one policy has two of them."""
    if soft_taints is None:
        return {name: Part(planner) for name, planner in planners.items()}
    tainted = {name: Part(planner, _tainter(name, planner)) for name, planner in planners.items()}
    if soft_taints == "with":
        return tainted
    if len(planners) > 1:
        raise InputError(
            "--soft-taints compare runs one policy without taints and with them; "
            "leave out --against, or write --soft-taints to have both policies taint"
        )
    ((name, part),) = tainted.items()
    return {name: Part(part.planner), f"{name} with taints": part}


def _tainter(name: str, planner: Descheduler) -> SimulatedTainter:
    task = task_of(planner, Mode.TAINT)
    if task.thresholds is None:
        raise InputError(
            f"{name} does not balance with {BALANCER}, by whose thresholds nodes are tainted; "
            "enable it under `balance`, or simulate without soft taints"
        )
    return SimulatedTainter(task)
