"""Controllers of plugins: started with the leader, restarted with back-off, stopped with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import NotNow
from resettle.framework import (
    Args,
    ControllerHandle,
    ExtensionPoint,
    Instance,
    NotThisPod,
    Plugin,
    Profile,
)
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.log import Log
from resettle.runtime.controllers import STEADY_SECONDS, Controllers, MakeHandle, SetFigure
from resettle.runtime.status import ControllerStatus
from resettle.testing import ApiServer, ManualClock, cluster, node, pod
from tests.runtime.harness import Object, policy, running

Run = Callable[[ControllerHandle], Any]
NODE = node("n1").holding(pod("a", age="10m"), pod("b", age="10m"))
WORLD = cluster(NODE).objects
LEASE = LeaseSettings(namespace="kube-system", name="resettle")


class Work:
    """A controller whose work is one function."""

    def __init__(self, run: Run, handle: ControllerHandle) -> None:
        self._run, self._handle = run, handle

    async def run(self) -> None:
        await self._run(self._handle)


class Stubs:
    """A plugin whose controllers do as they are told, and what became of them."""

    def __init__(self, *runs: Run) -> None:
        self.runs = list(runs)
        self.handles: list[ControllerHandle] = []
        self.plugin = Plugin(name="Worker", args=WorkerArgs, controller=self.make)

    def make(self, args: Args, handle: ControllerHandle) -> Work:
        self.handles.append(handle)
        run = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        return Work(run, handle)

    def profile(self, name: str = "p", size: int = 0, **more: Any) -> Profile:
        instance = Instance(self.plugin, WorkerArgs(size=size), ExtensionPoint.CONTROLLER)
        return Profile(name=name, controllers=(instance,), **more)


class WorkerArgs(Args, frozen=True, kw_only=True):
    size: int = 0


async def for_ever(handle: ControllerHandle) -> None:
    await asyncio.Event().wait()


def failing(error: BaseException) -> Run:
    async def run(handle: ControllerHandle) -> None:
        raise error

    return run


async def ends(handle: ControllerHandle) -> None:
    """Ends by itself."""


async def fails_in_a_group(handle: ControllerHandle) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(failing(LookupError("inside"))(handle))


async def ignores_cancellation(handle: ControllerHandle) -> None:
    """Ends only when it is cancelled a second time, as the end of the event loop does."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


class Bench:
    """Controllers over a clock that is wound by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[str] = []
        self.ended = ""
        self.controllers = Controllers(
            self.clock, Log.to(self.lines), self.may_act, stop_seconds=0.05
        )
        self.gates: list[Callable[[], None]] = []

    def may_act(self) -> None:
        if self.ended:
            raise NotNow(self.ended)

    def make_handle(
        self, profile: Profile, may_go_on: Callable[[], None], set_figure: SetFigure
    ) -> ControllerHandle:
        self.gates.append(may_go_on)
        unused: Any = None
        return ControllerHandle(
            profile=profile.name,
            evictor=unused,
            requests=unused,
            urgent_requests=unused,
            requests_for=unused,
            report_move=unused,
            set_figure=set_figure,
            wait_for_change=unused,
            delete_options={},
            clock=self.clock,
            log=Log.to(self.lines),
        )

    async def use(
        self, *profiles: Profile, make: MakeHandle | None = None, **delete_options: Any
    ) -> None:
        await self.controllers.use_profiles(profiles, make or self.make_handle, delete_options)
        await asyncio.sleep(0.01)

    async def pass_seconds(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        await asyncio.sleep(0.01)

    def logged(self, event: str) -> list[str]:
        return [line for line in self.lines if f" {event} " in line]

    @property
    def status(self) -> ControllerStatus:
        (status,) = self.controllers.statuses
        return status


def bench_test(scenario: Callable[[Bench], Any]) -> Callable[[], None]:
    """A test of one scenario, which must not hang, and stops all controllers at its end."""

    def test() -> None:
        async def run() -> None:
            bench = Bench()
            async with bench.controllers.stopped_at_the_end():
                await scenario(bench)

        asyncio.run(asyncio.wait_for(run(), 20))

    return test


# -- starts and stops -----------------------------------------------------------------------------


@bench_test
async def test_controllers_of_all_profiles_run_until_they_are_stopped(bench: Bench) -> None:
    stubs = Stubs(for_ever)
    await bench.use(stubs.profile("p"), stubs.profile("q"))

    assert [(status.profile, status.name) for status in bench.controllers.statuses] == [
        ("p", "Worker"),
        ("q", "Worker"),
    ]
    assert all(status.running and not status.failure for status in bench.controllers.statuses)
    assert len(bench.logged("controller started")) == 2

    await bench.controllers.stop()
    assert bench.controllers.statuses == ()
    assert len(bench.logged("controller stopped")) == 2


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        pytest.param(failing(ValueError("no")), "ValueError: no", id="an error"),
        pytest.param(ends, "it ended by itself", id="an end"),
        pytest.param(fails_in_a_group, "LookupError: inside", id="an error of one of its tasks"),
        pytest.param(
            failing(asyncio.CancelledError()),
            "RuntimeError: it cancelled itself",
            id="a task it cancelled",
        ),
        pytest.param(
            failing(NotNow("the cache is 4m old")),
            "NotNow: the cache is 4m old",
            id="a cache that is too old for now",
        ),
    ],
)
def test_one_that_fails_is_started_again(run: Run, reason: str) -> None:
    @bench_test
    async def scenario(bench: Bench) -> None:
        await bench.use(Stubs(run, for_ever).profile())
        assert not bench.status.running
        assert bench.status.failure == reason
        assert reason in bench.logged("controller failed")[0]

        await bench.pass_seconds(1)
        assert bench.status.running
        assert (bench.status.failure, bench.status.restarts) == ("", 1)

    scenario()


def test_one_whose_factory_fails_is_started_again() -> None:
    @bench_test
    async def scenario(bench: Bench) -> None:
        stubs = Stubs(for_ever)
        tries = []

        def make(args: Args, handle: ControllerHandle) -> Work:
            tries.append(handle)
            if len(tries) == 1:
                raise LookupError("not yet")
            return stubs.make(args, handle)

        plugin = Plugin(name="Worker", args=WorkerArgs, controller=make)
        instance = Instance(plugin, WorkerArgs(), ExtensionPoint.CONTROLLER)
        await bench.use(Profile(name="p", controllers=(instance,)))
        assert bench.status.failure == "LookupError: not yet"

        await bench.pass_seconds(1)
        assert bench.status.running

    scenario()


@bench_test
async def test_pauses_grow_to_a_minute_and_begin_again_after_a_good_while(bench: Bench) -> None:
    async def fail_later(handle: ControllerHandle) -> None:
        await handle.clock.sleep(STEADY_SECONDS)
        raise ValueError("late")

    failures = [failing(ValueError("no"))] * 8
    stubs = Stubs(*failures, fail_later, for_ever)
    await bench.use(stubs.profile())
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        made = len(stubs.handles)
        await bench.pass_seconds(pause - 0.5)
        assert len(stubs.handles) == made, "too soon"
        await bench.pass_seconds(0.5)
        assert len(stubs.handles) == made + 1
    await bench.pass_seconds(STEADY_SECONDS)
    assert "again_in=1" in bench.logged("controller failed")[-1]
    await bench.pass_seconds(1)
    assert (bench.status.running, bench.status.restarts) == (True, 9)


@pytest.mark.parametrize(
    "error", [NotNow("asked to stop"), ValueError("no"), ExceptionGroup("g", [NotNow("stop")])]
)
def test_none_is_started_again_once_a_stop_was_requested(error: Exception) -> None:
    @bench_test
    async def scenario(bench: Bench) -> None:
        stubs = Stubs(failing(error))
        bench.ended = "asked to stop"
        await bench.use(stubs.profile())
        await bench.pass_seconds(600)

        assert len(stubs.handles) == 1
        assert bench.status.failure == "asked to stop"
        assert bench.logged("controller failed") == []

    scenario()


@bench_test
async def test_a_start_that_is_over_may_send_nothing_more(bench: Bench) -> None:
    await bench.use(Stubs(failing(ValueError("no")), for_ever).profile())
    await bench.pass_seconds(1)
    first, second = bench.gates

    with pytest.raises(NotNow, match="the controller was stopped"):
        first()
    second()
    await bench.controllers.stop()
    with pytest.raises(NotNow):
        second()


@bench_test
async def test_one_that_ignores_its_cancellation_is_left_behind(bench: Bench) -> None:
    await bench.use(Stubs(ignores_cancellation).profile())
    await bench.controllers.stop()

    assert bench.logged("controller left behind")
    assert bench.logged("controller stopped") == []
    with pytest.raises(NotNow):
        bench.gates[0]()


@bench_test
async def test_one_that_cleans_up_has_the_time_for_it(bench: Bench) -> None:
    done = []

    async def clean_up(handle: ControllerHandle) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            done.append(True)

    await bench.use(Stubs(clean_up).profile())
    await bench.controllers.stop()
    assert done == [True]


# -- another policy -------------------------------------------------------------------------------

KEEP = (Instance(Plugin(name="Keep", filter=lambda *_: None), Args(), ExtensionPoint.FILTER),)


@pytest.mark.parametrize(
    ("change", "starts"),
    [
        pytest.param({}, 1, id="nothing"),
        pytest.param({"deschedule": KEEP}, 1, id="a strategy, which is none of its business"),
        pytest.param({"size": 2}, 2, id="its arguments"),
        pytest.param({"filters": KEEP}, 2, id="a filter"),
        pytest.param({"pre_eviction_filters": KEEP}, 2, id="a pre-eviction filter"),
    ],
)
def test_with_another_policy_those_that_changed_are_started_again(
    change: dict[str, Any], starts: int
) -> None:
    @bench_test
    async def scenario(bench: Bench) -> None:
        stubs = Stubs(for_ever)
        await bench.use(stubs.profile())
        await bench.use(stubs.profile(**change))

        assert len(stubs.handles) == starts
        assert bench.status.running
        assert len(bench.logged("controller stopped")) == starts - 1

    scenario()


@bench_test
async def test_other_delete_options_start_it_again(bench: Bench) -> None:
    stubs = Stubs(for_ever)
    await bench.use(stubs.profile(), gracePeriodSeconds=1)
    await bench.use(stubs.profile(), gracePeriodSeconds=1)
    assert len(stubs.handles) == 1
    await bench.use(stubs.profile(), gracePeriodSeconds=2)
    assert len(stubs.handles) == 2


@bench_test
async def test_one_that_is_not_enabled_any_more_is_stopped(bench: Bench) -> None:
    await bench.use(Stubs(for_ever).profile())
    await bench.use()

    assert bench.controllers.statuses == ()


@bench_test
async def test_one_that_goes_on_gets_the_newest_handle_when_it_starts_again(bench: Bench) -> None:
    fail = asyncio.Event()

    async def fail_once(handle: ControllerHandle) -> None:
        await fail.wait()
        fail.clear()
        raise ValueError("no")

    stubs = Stubs(fail_once)
    newer: list[str] = []

    def make(
        profile: Profile, may_go_on: Callable[[], None], set_figure: SetFigure
    ) -> ControllerHandle:
        newer.append(profile.name)
        return bench.make_handle(profile, may_go_on, set_figure)

    await bench.use(stubs.profile())
    await bench.use(stubs.profile(), make=make)
    assert newer == []
    fail.set()
    await asyncio.sleep(0.01)
    await bench.pass_seconds(1)
    assert newer == ["p"]


# -- in a run -------------------------------------------------------------------------------------


def enabling(*, more: Object | None = None, **config: Any) -> Object:
    """A policy with the controller in its profile."""
    document = policy(version="resettle/v1", **(more or {}))
    (profile,) = document["profiles"]
    profile["plugins"]["controller"] = {"enabled": ["Worker"]}
    profile["pluginConfig"].append({"name": "Worker", "args": config})
    return document


def play(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def test_a_controller_runs_beside_the_cycles_and_ends_with_the_run() -> None:
    stubs = Stubs(for_ever)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin]) as stage:
            await stage.cycles(1)
            (status,) = stage.runner.status().controllers
            assert (status.profile, status.running) == ("main", True)
            stage.runner.stop()
            assert await stage.working == 0
            assert stage.log_lines("controller stopped")
            assert stage.runner.status().controllers == ()

    play(scenario())


def test_a_run_of_one_cycle_ends_its_controllers_with_it() -> None:
    stubs = Stubs(for_ever)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin], interval=0) as stage:
            assert await stage.working == 0
            assert len(stubs.handles) == 1
            assert stage.log_lines("controller stopped")

    play(scenario())


def test_in_a_dry_run_none_is_made() -> None:
    stubs = Stubs(for_ever)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin], dry_run=True) as stage:
            await stage.cycles(1)
            assert stubs.handles == []
            assert stage.runner.status().controllers == ()

    play(scenario())


def test_only_the_leader_has_controllers_and_loses_them_with_the_lease() -> None:
    stubs = Stubs(for_ever)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin], lease=LEASE) as stage:
            await stage.cycles(1)
            assert len(stubs.handles) == 1
            lease = stage.server.store.get("Lease.coordination.k8s.io", LEASE.name, LEASE.namespace)
            assert lease is not None
            lease["spec"]["holderIdentity"] = "another"
            lease["spec"]["renewTime"] = "2999-01-01T00:00:00.000000Z"
            stage.server.store.put(lease)
            while not stage.working.done():
                stage.clock.advance(timedelta(seconds=2))
                await asyncio.sleep(0.02)
            assert stage.log_lines("controller stopped")
            with pytest.raises(NotNow):
                await stubs.handles[0].requests.send("GET", "/api/v1/pods")

    play(scenario())


def test_a_policy_that_is_read_again_changes_what_a_controller_gets() -> None:
    stubs = Stubs(for_ever)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin]) as stage:
            await stage.cycles(1)
            stage.write(enabling(more={"maxNoOfPodsToEvictTotal": 7}))
            await stage.next_cycle()
            assert len(stubs.handles) == 1, "nothing of it is the controller's"
            stage.write(enabling(more={"deleteOptions": {"gracePeriodSeconds": 7}}))
            await stage.next_cycle()
            assert [handle.delete_options for handle in stubs.handles] == [
                {},
                {"gracePeriodSeconds": 7},
            ]
            stage.write(policy(version="resettle/v1"))
            await stage.next_cycle()
            assert stage.runner.status().controllers == ()
            with pytest.raises(NotNow, match="the controller was stopped"):
                await stubs.handles[1].requests.send("GET", "/api/v1/pods")

    play(scenario())


def test_another_policy_is_in_the_view_at_once() -> None:
    stubs = Stubs(for_ever)
    world = cluster(NODE, node("n2", labels={"pool": "red"}), node("n3")).objects

    async def scenario() -> None:
        async with running(world, enabling(), plugins=[stubs.plugin]) as stage:
            await stage.cycles(1)
            evictor = stubs.handles[0].evictor
            assert len(evictor.view.nodes) == 3
            stage.write(enabling(more={"nodeSelector": "pool!=red"}))
            await stage.next_cycle()
            assert len(stubs.handles) == 1
            assert len(evictor.view.nodes) == 2

    play(scenario())


def test_requests_for_a_pod_are_checked_as_those_of_a_mover() -> None:
    outcome: list[Any] = []

    async def delete_twice(handle: ControllerHandle) -> None:
        live = handle.evictor.live_pod("default", "a")
        assert live is not None
        path = "/api/v1/namespaces/default/pods/a"
        label = b'{"metadata": {"labels": {"new": "yes"}}}'
        kind = "application/merge-patch+json"
        answer = await handle.requests.send("PATCH", path, label, content_type=kind)
        outcome.append(answer.status)
        while handle.evictor.live_pod("default", "a") is live:
            await handle.wait_for_change(5)
        try:
            await handle.requests_for(live).send("DELETE", path)
        except NotThisPod as error:
            outcome.append(str(error))
        await for_ever(handle)

    stubs = Stubs(delete_twice)
    server = ApiServer(WORLD)

    async def scenario() -> None:
        async with running(WORLD, enabling(), plugins=[stubs.plugin], server=server) as stage:
            await stage.until(lambda: len(outcome) == 2)
            assert outcome == [200, "it is not what it was when the plan was drawn"]
            assert stage.server.store.get("Pod", "a") is not None

    play(scenario())
