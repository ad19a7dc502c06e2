"""Usage from the metrics API (cpu and memory) and from Prometheus (a number from 0 to 1 per node).

A Prometheus query says nothing about single pods, so the effect of a move is unknown: plugins then
move few pods at a time and measure again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from resettle.framework.view import View
from resettle.model.measurements import Figure, Readings, Used
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.resources import NANO
from resettle.utilization.bands import node_capacity
from resettle.utilization.usage import BASIC, UsageMissingError, UsageProblem, age_problem

MEASURED = ("cpu", "memory")


class MetricsApiUsage:
    """Usage from the metrics API: cpu and memory are measured, pods are counted."""

    knows_pods = True

    def __init__(self, view: View, readings: Readings, max_age: timedelta) -> None:
        self._view = view
        self._readings = readings
        self._max_age = max_age

    def tracked_resources(self, thresholds: Iterable[str]) -> list[str]:
        """Resources with thresholds, and cpu, memory and pods."""
        return list(dict.fromkeys((*thresholds, *BASIC)))

    def capacity(self, node: Node) -> Mapping[str, int]:
        """What the node can allocate."""
        return node_capacity(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What the node uses, system processes included."""
        pods = self._view.requests_on(node).get("pods", 0)
        return {**self._readings.nodes[node.name].amounts, "pods": pods}

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod's containers use together."""
        return None if self.pod_problem(pod) else self._readings.pods[pod.key].amounts

    def problem(self, node: Node) -> UsageProblem | None:
        """Why the node's figures cannot be used: missing, incomplete or old."""
        return self._used_problem(self._readings.nodes.get(node.name))

    def pod_problem(self, pod: Pod) -> UsageProblem | None:
        """Why the pod's figures cannot be used; older ones than the pod are of an earlier pod."""
        used = self._readings.pods.get(pod.key)
        if used is not None and self._view.semantics.figures_judged_together:
            return None  # upstream asks for each pod when it needs it, and checks no age
        if used is not None and pod.created is not None and used.at < pod.created:
            used = None
        return self._used_problem(used)

    def measured_at(self, node: Node) -> datetime:
        """When the node was measured."""
        return self._readings.nodes[node.name].at

    def display_name(self, resource: str) -> str:
        """`cpu in use` for what is measured, the plain name for what is counted."""
        return f"{resource} in use" if resource in MEASURED else resource

    def _used_problem(self, used: Used | None) -> UsageProblem | None:
        if used is None or any(name not in used.amounts for name in MEASURED):
            return UsageProblem("usage-missing", "has no figure in the metrics API")
        return age_problem(self._view.taken_at - used.at, self._max_age)


METRIC = "MetricResource"
"""The name that thresholds give to the result of a single query."""
WHOLE = 100
MOST_NAMED = 3


class PrometheusUsage:
    """Usage from Prometheus: whole percents, one for each query."""

    knows_pods = False

    def __init__(self, view: View, answers: Mapping[str, Readings], max_age: timedelta) -> None:
        self._view = view
        self._max_age = max_age
        if view.semantics.figures_judged_together:
            for answer in answers.values():
                _check_all(answer.figures)
        self._figures = {name: _by_node(answer.figures) for name, answer in answers.items()}
        self._capacity = dict.fromkeys(answers, WHOLE * NANO)

    def tracked_resources(self, thresholds: Iterable[str]) -> list[str]:
        """Resources with thresholds, and nothing else."""
        return list(thresholds)

    def capacity(self, node: Node) -> Mapping[str, int]:
        """A hundred percent, for every node and query."""
        return self._capacity

    def of_node(self, node: Node) -> Mapping[str, int]:
        """The result of each query in whole percent, rounded down."""
        return {
            name: int(figures[node.name][-1].number * WHOLE) * NANO
            for name, figures in self._figures.items()
        }

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """None: queries say nothing about pods."""
        return None

    def problem(self, node: Node) -> UsageProblem | None:
        """The first problem of one of the node's samples."""
        every = (self._sample_problem(figures, node) for figures in self._figures.values())
        return next(filter(None, every), None)

    def pod_problem(self, pod: Pod) -> UsageProblem | None:
        """None: queries say nothing about pods."""
        return None

    def measured_at(self, node: Node) -> datetime:
        """When the oldest of the node's samples was taken."""
        return min(figures[node.name][-1].at for figures in self._figures.values())

    def display_name(self, resource: str) -> str:
        """The name that the policy gives to a query; a single query has none."""
        return "by its query" if resource == METRIC else resource

    def _sample_problem(
        self, figures: Mapping[str, list[Figure]], node: Node
    ) -> UsageProblem | None:
        samples = figures.get(node.name)
        if not samples:
            return UsageProblem(
                "usage-missing", f"has no sample in the answer{_describe_other_nodes(figures)}"
            )
        if len(samples) > 1 and not self._view.semantics.figures_judged_together:
            numbers = " and ".join(f"{sample.number:g}" for sample in samples[:MOST_NAMED])
            says = f"has {len(samples)} samples in the answer ({numbers})"
            return UsageProblem("usage-ambiguous", says)
        if fault := _fault(samples[-1].number):
            return UsageProblem("usage-invalid", f"has a sample {fault}")
        return age_problem(self._view.taken_at - samples[-1].at, self._max_age)


def _check_all(figures: Iterable[Figure]) -> None:
    """Raise on the first impossible sample, whatever its node, as upstream does."""
    for figure in figures:
        if not figure.node:
            raise UsageMissingError(
                "a sample of the answer does not name its node; nothing is moved without figures"
            )
        if fault := _fault(figure.number):
            raise UsageMissingError(
                f"{figure.node} has a sample {fault}; nothing is moved without figures"
            )


def _fault(number: float) -> str:
    """What is wrong with a number, if it is not one from 0 to 1."""
    if math.isnan(number):
        return "that is not a number (NaN)"
    return "" if 0 <= number <= 1 else f"of {number:g}, which is not from 0 to 1"


def _by_node(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    by_node: dict[str, list[Figure]] = {}
    for figure in figures:
        by_node.setdefault(figure.node, []).append(figure)
    return by_node


def _describe_other_nodes(figures: Mapping[str, list[Figure]]) -> str:
    """Which nodes the answer names, where the right name is not among them."""
    if not figures:
        return ", which is empty"
    others = sorted(name for name in figures if name)[:MOST_NAMED]
    if not others:
        return ", whose samples do not name a node"
    return f", which names {', '.join(others)}{', …' if len(figures) > len(others) else ''}"
