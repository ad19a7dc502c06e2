"""Cycle after cycle: when they begin, what changes between them, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import Forbidden, InputError
from resettle.framework import Args, Plugin
from resettle.framework.mover import ApiRequests, Evictor, MoveResponse, MoveResult, Options
from resettle.framework.plan import Move
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.testing import ApiServer, DeniedPermission, Fault, ManualClock, budget, node, pod
from tests.runtime.harness import INTERVAL, policy, running

OLD, ALMOST, YOUNG = "3h", "59m30s", "1m"
EVICTIONS = "*/eviction"


def world(*pods: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Two nodes, the first of which holds the pods."""
    full = node("n1").holding(*pods)
    return [full.node, node("n2").node, *full.pods]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_one_cycle_and_the_end_if_there_is_no_interval() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=OLD), pod("b", age=YOUNG)), interval=0) as stage:
            assert await stage.working == 0
            assert stage.evictions == ["a"]
            assert len(stage.log_lines("cycle done")) == 1

    play(scenario())


def test_an_interval_is_counted_from_start_to_start() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=OLD))) as stage:
            await stage.cycles(1)
            stage.clock.advance(timedelta(seconds=INTERVAL - 0.001))
            await asyncio.sleep(0.05)
            assert len(stage.log_lines("cycle done")) == 1

            stage.clock.advance(timedelta(seconds=0.001))
            await stage.cycles(2)

    play(scenario())


def test_a_step_of_the_wall_clock_neither_hastens_nor_delays_a_cycle() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=YOUNG))) as stage:
            await stage.cycles(1)
            stage.clock.step(timedelta(hours=-7))
            await stage.next_cycle()
            stage.clock.step(timedelta(hours=14))
            await asyncio.sleep(0.05)
            assert len(stage.log_lines("cycle done")) == 2
            assert stage.evictions == []

            await stage.next_cycle()
            assert stage.evictions == ["a"], "by the wall it is old now"

    play(scenario())


def test_no_pod_is_asked_twice_while_it_leaves() -> None:
    async def scenario() -> None:
        # The test API server deletes a pod at once; here the watch does not show it.
        mute = Fault(verbs=("watch",), path="/api/v1/pods", times=99, bytes_per_second=1)
        async with running(world(pod("a", age=OLD))) as stage:
            stage.server.faults.add(mute)
            await stage.cycles(1)
            await stage.next_cycle()
            await stage.next_cycle()
            assert stage.evictions == ["a"]

    play(scenario())


# -- policies ------------------------------------------------------------------------------------


def test_a_policy_that_changes_is_taken_from_the_next_cycle_on() -> None:
    async def scenario() -> None:
        never = policy(configs=[{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 10**8}}])
        async with running(world(pod("a", age=OLD)), never) as stage:
            await stage.cycles(1)
            assert stage.evictions == []

            stage.write(policy())
            await stage.next_cycle()
            assert stage.evictions == ["a"]
            assert len(stage.log_lines("policy loaded")) == 1

    play(scenario())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("apiVersion: nonsense", "nonsense", id="one with mistakes"),
        pytest.param("{", "is not YAML", id="one that is no policy at all"),
        pytest.param(None, "there is no file", id="one that is gone"),
    ],
)
def test_a_policy_that_turns_bad_is_logged_once_and_changes_nothing(
    text: str | None, says: str
) -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=ALMOST))) as stage:
            await stage.cycles(1)
            if text is None:
                stage.file.unlink()
            else:
                stage.write(text)
            await stage.next_cycle()
            (line,) = stage.log_lines("policy not loaded")
            assert says in line
            assert stage.evictions == []

            await stage.next_cycle()
            assert len(stage.log_lines("policy not loaded")) == 1
            assert stage.evictions == ["a"], "the last good one is still in force"

            stage.write(policy(nodeSelector="none=such"))
            await stage.next_cycle()
            assert len(stage.log_lines("policy loaded")) == 1

    play(scenario())


def test_a_policy_that_reads_other_kinds_has_them_listed() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=OLD))) as stage:
            await stage.cycles(1)
            stage.write(policy(version="resettle/v1"))
            await stage.next_cycle()
            listed = {request.path for request in stage.server.requests}
            assert "/api/v1/persistentvolumeclaims" in listed

    play(scenario())


def test_a_first_policy_that_cannot_be_used_ends_the_run() -> None:
    async def scenario() -> None:
        async with running([], {"apiVersion": "nonsense"}) as stage:
            with pytest.raises(Exception, match="nonsense"):
                await stage.working

    play(scenario())


# -- what the API server declines ----------------------------------------------------------------


def test_a_plan_that_is_declined_in_part_is_drawn_again_from_the_same_snapshot() -> None:
    async def scenario() -> None:
        pods = [pod(name, age=age) for name, age in (("a", "5h"), ("b", "4h"), ("c", "3h"))]
        limited = policy(maxNoOfPodsToEvictTotal=1)
        async with running(world(*pods), limited, interval=0) as stage:
            stage.server.faults.add(
                Fault(path="*/a/eviction", status=403, message='admission webhook "w" denied')
            )
            assert await stage.working == 0
            assert stage.evictions == ["a", "b"], "one in all, and the next in line takes its turn"
            (done,) = stage.log_lines("cycle done")
            assert "evicted=1" in done
            assert "rounds=2" in done

    play(scenario())


def test_no_more_is_asked_of_a_budget_than_the_plan_counted_on() -> None:
    async def scenario() -> None:
        pods = [pod(name, age=OLD, labels={"app": "web"}, owner="ReplicaSet/web") for name in "abc"]
        allows = budget("web", allowed=1, labels={"app": "web"})
        async with running([*world(*pods), allows], interval=0) as stage:
            assert await stage.working == 0
            assert len(stage.evictions) == 1

    play(scenario())


@pytest.mark.parametrize(
    ("wanted", "failures"),
    [
        pytest.param(True, ["node eviction limit exceeded (1)", "budget"], id="if asked for"),
        pytest.param(False, [], id="and else not"),
    ],
)
def test_pods_that_are_held_back_get_an_event(wanted: bool, failures: list[str]) -> None:
    async def scenario() -> None:
        spent = budget("spent", allowed=0, labels={"app": "shy"})
        pods = [pod("a", age="5h"), pod("b", age="4h")]
        shy = node("n3").holding(pod("c", age=OLD, labels={"app": "shy"}))
        limited = policy(maxNoOfPodsToEvictPerNode=1, evictionFailureEventNotification=wanted)
        objects = [*world(*pods), shy.node, *shy.pods, spent]
        async with running(objects, limited, interval=0) as stage:
            assert await stage.working == 0
            events = stage.server.store.list("Event")
            warnings = [event for event in events if event["type"] == "Warning"]
            names = sorted(warning["involvedObject"]["name"] for warning in warnings)
            assert names == ["b", "c"][: 2 * wanted]
            for failure in failures:
                assert any(failure in warning["message"] for warning in warnings)

    play(scenario())


def test_an_answer_that_is_lost_counts_until_it_is_known() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age="5h"), pod("b", age="4h"))) as stage:
            stage.server.faults.add(Fault(path="*/a/eviction", status=504, times=1))
            await stage.cycles(1)
            assert stage.evictions == ["a", "b"]
            assert len(stage.log_lines("answer lost")) == 1

            for _ in range(6):
                await stage.next_cycle()
            assert stage.evictions == ["a", "b"], "not asked again while it may be leaving"

            await stage.next_cycle()
            assert len(stage.log_lines("not evicted after all")) == 1
            assert stage.evictions == ["a", "b", "a"]

    play(scenario())


# -- movers --------------------------------------------------------------------------------------


class Gentle:
    """A mover that sends nothing and keeps the options of each move."""

    def __init__(self) -> None:
        self.options: list[Options] = []

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        self.options.append(options)
        return MoveResponse(MoveResult.EVICTED)


def test_a_profile_may_have_a_mover_of_its_own() -> None:
    gentle = Gentle()

    def make(args: Args, evictor: Evictor) -> Gentle:
        return gentle

    async def scenario() -> None:
        document = policy(
            version="resettle/v1", evict={"enabled": ["Gentle"]}, gracePeriodSeconds=7
        )
        mover = Plugin(name="Gentle", evict=make)
        objects = world(*(pod(name, age=OLD, owner="ReplicaSet/web") for name in "ab"))
        async with running(objects, document, plugins=[mover], interval=0) as stage:
            assert await stage.working == 0
            assert stage.evictions == []
            (options,) = gentle.options
            assert (options.initiator, options.profile) == ("PodLifeTime", "main")
            assert options.delete_options == {"gracePeriodSeconds": 7}
            assert "is 3h old" in options.reason

    play(scenario())


# -- stopping, leading, and being allowed to -------------------------------------------------------


def test_a_stop_midway_sends_nothing_more_and_awaits_what_was_sent() -> None:
    async def scenario() -> None:
        pods = [pod(f"p{i:02}", age=OLD) for i in range(40)]
        async with running(world(*pods)) as stage:
            stage.server.faults.add(Fault(path=EVICTIONS, times=99, delay_seconds=0.2))
            await stage.until(lambda: len(stage.evictions) > 0)
            stage.runner.stop()
            assert await stage.working == 0
            asked = len(stage.evictions)
            assert 0 < asked < 40
            assert len(stage.log_lines("evicted")) == asked
            assert f"unsent={40 - asked}" in stage.log_lines("cycle done")[0]

    play(scenario())


def holder(server: ApiServer) -> str:
    """Who has the lease."""
    lease = server.store.get("Lease", "descheduler", "kube-system")
    assert lease is not None
    return str(lease["spec"].get("holderIdentity") or "")


def test_only_a_leader_acts_and_it_gives_the_lease_back() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=OLD)), lease=LeaseSettings()) as stage:
            await stage.cycles(1)
            assert holder(stage.server) == "me"
            stage.runner.stop()
            assert await stage.working == 0
            assert not holder(stage.server)

    play(scenario())


def test_a_lease_that_is_lost_ends_the_run() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=YOUNG)), lease=LeaseSettings()) as stage:
            await stage.cycles(1)
            stage.server.faults.add(Fault(path="*/leases/*", status=500, times=999))
            for _ in range(6):
                stage.clock.advance(timedelta(seconds=26))
                await asyncio.sleep(0.05)
            assert await stage.working == 1
            assert len(stage.log_lines("lease lost")) == 1

    play(scenario())


def test_a_missing_permission_is_reported_before_anything_is_done() -> None:
    async def scenario() -> None:
        ban = DeniedPermission(verb="create", resource="pods/eviction")
        server = ApiServer(world(pod("a", age=OLD)), clock=ManualClock(), denied=[ban])
        async with running([], server=server) as stage:
            with pytest.raises(Forbidden, match="may not create pods/eviction"):
                await stage.working
            assert stage.evictions == []

    play(scenario())


def test_a_dry_run_shows_what_it_would_do() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=OLD)), interval=0, dry_run=True) as stage:
            assert await stage.working == 0
            assert len(stage.log_lines("would evict")) == 1
            assert {request.verb for request in stage.server.requests} <= {
                "list",
                "watch",
                "create",
            }
            assert stage.evictions == []

    play(scenario())


def test_what_is_known_must_be_fresh() -> None:
    async def scenario() -> None:
        async with running(world(pod("a", age=YOUNG))) as stage:
            await stage.cycles(1)
            stage.server.faults.add(Fault(status=503, times=9999))
            stage.server.drop_watches()
            stage.clock.advance(timedelta(hours=2))
            await stage.cycles(2)
            assert stage.evictions == []
            assert "old; the watch is broken" in stage.log_lines("cycle skipped")[0]

    play(scenario())


def test_no_policy_file_is_an_error_of_one_line() -> None:
    async def scenario() -> None:
        async with running([]) as stage:
            stage.runner.stop()
            await stage.working
        with pytest.raises(InputError, match="there is no file"):
            await stage.runner.run()

    play(scenario())
