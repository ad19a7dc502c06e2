"""Usage as the metrics API tells it: cpu and memory of each node and each pod.

Usage as Prometheus queries tell it: a number from 0 to 1 for each node, whatever it stands for.

A query says nothing of single pods, so nobody knows what moving one will do; who balances by it
takes little at a time and looks again.
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
from resettle.utilization.bands import offered
from resettle.utilization.usage import BASIC, Doubt, UsageMissingError, aged

MEASURED = ("cpu", "memory")


class Metered:
    """Cpu and memory as measured; pods are counted."""

    blind = False

    def __init__(self, view: View, readings: Readings, max_age: timedelta) -> None:
        self._view = view
        self._readings = readings
        self._max_age = max_age

    def followed(self, thresholds: Iterable[str]) -> list[str]:
        """Those with thresholds, and the basic ones."""
        return list(dict.fromkeys((*thresholds, *BASIC)))

    def offer(self, node: Node) -> Mapping[str, int]:
        """What it can allocate."""
        return offered(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What it uses, system and all."""
        pods = self._view.requested(node).get("pods", 0)
        return {**self._readings.nodes[node.name].amounts, "pods": pods}

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What its containers use together."""
        return None if self.pod_doubt(pod) else self._readings.pods[pod.key].amounts

    def doubt(self, node: Node) -> Doubt | None:
        """Whether it was measured, of late and as a whole."""
        return self._doubt(self._readings.nodes.get(node.name))

    def pod_doubt(self, pod: Pod) -> Doubt | None:
        """The same; what was measured before the pod was made is of another by its name."""
        used = self._readings.pods.get(pod.key)
        if used is not None and self._view.semantics.figures_judged_together:
            return None  # the peer asks for each pod at the moment, and knows no age
        if used is not None and pod.created is not None and used.at < pod.created:
            used = None
        return self._doubt(used)

    def taken(self, node: Node) -> datetime:
        """When it was measured."""
        return self._readings.nodes[node.name].at

    def named(self, resource: str) -> str:
        """What is measured is in use, what is counted is not."""
        return f"{resource} in use" if resource in MEASURED else resource

    def _doubt(self, used: Used | None) -> Doubt | None:
        if used is None or any(name not in used.amounts for name in MEASURED):
            return Doubt("usage-missing", "has no figure in the metrics API")
        return aged(self._view.taken_at - used.at, self._max_age)


METRIC = "MetricResource"
"""What the number of a single query is called in thresholds."""
WHOLE = 100
MOST_NAMED = 3


class Queried:
    """Whole percents, one for each query."""

    blind = True

    def __init__(self, view: View, answers: Mapping[str, Readings], max_age: timedelta) -> None:
        self._view = view
        self._max_age = max_age
        if view.semantics.figures_judged_together:
            for answer in answers.values():
                _check_all(answer.figures)
        self._figures = {name: _by_node(answer.figures) for name, answer in answers.items()}
        self._offer = dict.fromkeys(answers, WHOLE * NANO)

    def followed(self, thresholds: Iterable[str]) -> list[str]:
        """Those with thresholds, and nothing else."""
        return list(thresholds)

    def offer(self, node: Node) -> Mapping[str, int]:
        """A hundred percent, whatever the node is made of."""
        return self._offer

    def of_node(self, node: Node) -> Mapping[str, int]:
        """The number in percent, without what is behind the point."""
        return {
            name: int(figures[node.name][-1].number * WHOLE) * NANO
            for name, figures in self._figures.items()
        }

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """Nobody knows."""
        return None

    def doubt(self, node: Node) -> Doubt | None:
        """The first doubt about one of its numbers."""
        every = (self._doubt(figures, node) for figures in self._figures.values())
        return next(filter(None, every), None)

    def pod_doubt(self, pod: Pod) -> Doubt | None:
        """None: of pods nothing is claimed."""
        return None

    def taken(self, node: Node) -> datetime:
        """When the oldest of its numbers was taken."""
        return min(figures[node.name][-1].at for figures in self._figures.values())

    def named(self, resource: str) -> str:
        """The name a policy gave to it; the number of a single query has none."""
        return "by its query" if resource == METRIC else resource

    def _doubt(self, figures: Mapping[str, list[Figure]], node: Node) -> Doubt | None:
        found = figures.get(node.name)
        if not found:
            return Doubt("usage-missing", f"has no sample in the answer{_instead(figures)}")
        if len(found) > 1 and not self._view.semantics.figures_judged_together:
            said = " and ".join(f"{it.number:g}" for it in found[:MOST_NAMED])
            return Doubt("usage-ambiguous", f"has {len(found)} samples in the answer ({said})")
        if fault := _fault(found[-1].number):
            return Doubt("usage-invalid", f"has a sample {fault}")
        return aged(self._view.taken_at - found[-1].at, self._max_age)


def _check_all(figures: Iterable[Figure]) -> None:
    """One sample that cannot be is enough for the peer, whether or not it is of a node at hand."""
    for figure in figures:
        if not figure.node:
            raise UsageMissingError(
                "a sample of the answer does not say which node it is of; "
                "nothing is moved without figures"
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
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.node, []).append(figure)
    return found


def _instead(figures: Mapping[str, list[Figure]]) -> str:
    """Whom the answer speaks of, where it knows nobody by the right name."""
    if not figures:
        return ", which is empty"
    others = sorted(name for name in figures if name)[:MOST_NAMED]
    if not others:
        return ", whose samples do not say which node they are of"
    return f", which speaks of {', '.join(others)}{', …' if len(figures) > len(others) else ''}"
