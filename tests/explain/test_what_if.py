"""How often plans are drawn to answer a question."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from resettle.explain.pod import PodAnswer, explain_pod
from resettle.explain.what_if import PlanInputs
from resettle.framework import Descheduler, Plan
from resettle.model import Snapshot
from resettle.testing import World, cluster, node, pod

from .builders import policy

OLD = {"maxPodLifeTimeSeconds": 60}
MIRROR = {"kubernetes.io/config.mirror": "abc"}


class CountingDescheduler(Descheduler, frozen=True, kw_only=True):
    """A descheduler that lists what each plan was drawn from; changed copies use the same list."""

    draws: list[tuple[Descheduler, Snapshot]]

    def draw_plan(self, snapshot: Snapshot, **more: Any) -> Plan:
        self.draws.append((self, snapshot))
        return super().draw_plan(snapshot, **more)


def counting(descheduler: Descheduler) -> CountingDescheduler:
    fields = {name: getattr(descheduler, name) for name in structs.asdict(descheduler)}
    return CountingDescheduler(**fields, draws=[])


def ask(descheduler: CountingDescheduler, world: World) -> tuple[PodAnswer, int]:
    """The answer about `default/it`, and how often a plan was drawn without any change."""
    snapshot = world.snapshot()
    asked = snapshot.pod("default", "it")
    assert asked is not None
    answer = explain_pod(PlanInputs(descheduler, snapshot), asked)
    unchanged = sum(
        drawn is descheduler and cluster_drawn is snapshot
        for drawn, cluster_drawn in descheduler.draws
    )
    return answer, unchanged


def test_one_plan_is_drawn_for_a_pod_that_moves() -> None:
    descheduler = counting(policy("PodLifeTime", OLD))

    answer, _ = ask(descheduler, cluster(node("n1").holding(pod("it")), node("n2")))

    assert answer.move is not None
    assert len(descheduler.draws) == 1


@pytest.mark.parametrize(
    ("world", "top"),
    [
        pytest.param(
            cluster(node("n1").holding(pod("it")), node("n2")),
            {"evictor": {"minReplicas": 2}},
            id="a filter, lifted by one change",
        ),
        pytest.param(
            cluster(
                node("n1").holding(pod("oldest", age="9d"), pod("it", age="1h")),
                node("n2").holding(pod("older", age="8d")),
            ),
            {"maxNoOfPodsToEvictTotal": 2, "maxNoOfPodsToEvictPerNode": 1},
            id="two limits, lifted by two changes",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("it", annotations=MIRROR)), node("n2")),
            {},
            id="a refusal that no change lifts",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("it", age="1h"), pod("a", age="2h")), node("n2")),
            {"maxNoOfPodsToEvictTotal": 0},
            id="a limit that ends the plugin's turn",
        ),
    ],
)
def test_the_plan_without_changes_is_drawn_once(world: World, top: dict[str, Any]) -> None:
    answer, unchanged = ask(counting(policy("PodLifeTime", OLD, **top)), world)

    assert answer.refused
    assert unchanged == 1
