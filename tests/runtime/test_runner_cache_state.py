"""A run says on request what it knows of the cluster."""

from __future__ import annotations

import asyncio

from resettle.model.pod import IN_PROGRESS, ON_REQUEST
from resettle.testing import ApiServer, node, pod
from tests.runtime.harness import running

WORLD = [node("n1").node, *node("n1").holding(pod("a", age="1m"), pod("b", age="1m")).pods]


def test_each_kind_is_logged_with_the_number_of_its_objects() -> None:
    async def scenario() -> None:
        async with running(WORLD) as stage:
            await stage.cycles(1)

            stage.runner.log_state()

            kinds = [line.split()[3:5] for line in stage.log_lines("cache state")]
            assert kinds == [
                ["kind=Node", "objects=1"],
                ["kind=Pod", "objects=2"],
                ["kind=PodDisruptionBudget", "objects=0"],
            ]
            assert all(" digest=" in line for line in stage.log_lines("cache state"))

    asyncio.run(scenario())


def test_moves_in_flight_are_counted_by_their_stage() -> None:
    async def scenario() -> None:
        moved_by_others = dict.fromkeys((ON_REQUEST, IN_PROGRESS), "")
        moving = pod("vm", age="1m", metadata={"annotations": moved_by_others})
        async with running([*WORLD, *node("n1").holding(moving).pods]) as stage:
            await stage.cycles(1)

            stage.runner.log_state()

            assert stage.log_lines("in flight") == ["INFO in flight moves=1 confirmed=1"]

    asyncio.run(scenario())


def test_nothing_is_known_before_the_first_list() -> None:
    async def scenario() -> None:
        async with running([], server=ApiServer(WORLD)) as stage:
            stage.runner.log_state()

            assert stage.log == ["INFO nothing listed yet"]

    asyncio.run(scenario())
