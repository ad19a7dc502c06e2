"""Usage as the metrics API tells it: cpu and memory of each node and each pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from resettle.framework.view import View
from resettle.load.shares import offered
from resettle.load.usage import BASIC, Doubt, aged
from resettle.model.node import Node
from resettle.model.pod import Pod
from resettle.model.readings import Readings, Used

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
