"""Fresh views: made again when it is worth it, and the same answers in several threads."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from resettle.eviction.evictor import ChangeWaits, FreshView, LiveEvictor
from resettle.framework import (
    Args,
    Descheduler,
    ExtensionPoint,
    Instance,
    Plugin,
    Profile,
    Refusal,
    View,
    build_descheduler,
    default_registry,
    load_policy,
)
from resettle.framework.profile import ProfileFilters
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod
from resettle.testing import ManualClock, World, cluster, node, pod
from resettle.testing.random.clusters import cluster_of
from tests.eviction.harness import rigged, run_with_timeout
from tests.kube.watch.harness import caught_up

WORLD = cluster(node("n1").holding(pod("a"), pod("b")))
THREADS = 8


class Counted:
    """Views that are counted, of a cluster whose changes are counted."""

    def __init__(self, cost: float = 0.0) -> None:
        self.changes = 0
        self.clock = ManualClock()
        self.taken = 0
        self.cost = cost
        self.is_busy = False
        self._changed = asyncio.Event()
        self.fresh_view = FreshView(self.take, self, self.clock, lambda: self.is_busy)

    def take(self) -> View:
        self.taken += 1
        self.clock.advance(timedelta(seconds=self.cost))
        return WORLD.view()

    def change(self) -> None:
        self.changes += 1
        self._changed.set()

    async def wait_for_change(self, seen: int) -> None:
        while self.changes == seen:
            self._changed.clear()
            await self._changed.wait()

    def pass_seconds(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))


# -- when a view is made again --------------------------------------------------------------------


def test_a_view_is_kept_while_nothing_changes() -> None:
    counted = Counted()
    first = counted.fresh_view.view()
    counted.pass_seconds(0.9)

    assert counted.fresh_view.view() is first
    assert counted.taken == 1


def test_a_view_is_made_again_after_a_second_since_limits_over_time_move_on() -> None:
    counted = Counted()
    first = counted.fresh_view.view()
    counted.pass_seconds(1.0)

    assert counted.fresh_view.view() is not first


def test_a_view_is_made_again_after_a_change() -> None:
    counted = Counted()
    first = counted.fresh_view.view()
    counted.change()
    counted.pass_seconds(0.1)

    assert counted.fresh_view.view() is not first
    assert counted.fresh_view.taken_with == 1


@pytest.mark.parametrize(
    ("cost", "pause"),
    [
        pytest.param(0.0, 0.1, id="a cheap one ten times a second"),
        pytest.param(0.05, 1.0, id="a costly one for a twentieth of the time"),
    ],
)
def test_views_are_not_made_more_often_than_they_may_cost(cost: float, pause: float) -> None:
    counted = Counted(cost)
    counted.fresh_view.view()
    counted.change()
    counted.pass_seconds(pause - 0.001)
    counted.fresh_view.view()
    assert counted.taken == 1

    counted.pass_seconds(0.001)
    counted.fresh_view.view()
    assert counted.taken == 2


def test_no_view_is_made_while_a_plan_is_drawn() -> None:
    counted = Counted()
    counted.fresh_view.view()
    counted.change()
    counted.pass_seconds(10)
    counted.is_busy = True
    counted.fresh_view.view()
    assert counted.taken == 1

    counted.is_busy = False
    counted.fresh_view.view()
    assert counted.taken == 2


def test_a_view_that_was_forgotten_is_made_again_at_once() -> None:
    counted = Counted()
    counted.fresh_view.view()
    counted.fresh_view.forget()

    counted.fresh_view.view()

    assert counted.taken == 2


def test_what_a_former_view_prepared_is_dropped() -> None:
    counted = Counted()
    first = counted.fresh_view.view()
    first.prepare_once(Args(), lambda args, view: object())
    counted.fresh_view.use(WORLD.view())

    assert first._prepared == {}


# -- waits for changes ----------------------------------------------------------------------------


def test_a_wait_ends_with_a_change_or_with_its_time() -> None:
    async def run_scenario() -> None:
        counted = Counted()
        waits = ChangeWaits(counted.fresh_view, counted, counted.clock)
        await waits.wait(60)  # the first ends at once

        waiting = asyncio.create_task(waits.wait(60))
        await counted.clock.wait_for_sleepers()
        counted.pass_seconds(59)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        counted.change()
        await waiting

        waiting = asyncio.create_task(waits.wait(60))
        await counted.clock.wait_for_sleepers()
        counted.pass_seconds(60)
        await waiting

    run_with_timeout(run_scenario())


def test_a_change_that_the_view_did_not_have_yet_ends_the_next_wait() -> None:
    async def run_scenario() -> None:
        counted = Counted()
        waits = ChangeWaits(counted.fresh_view, counted, counted.clock)
        await waits.wait(60)
        counted.change()
        await waits.wait(60)
        assert counted.fresh_view.taken_with == 0, "too soon for another view"

        waiting = asyncio.create_task(waits.wait(60))
        await counted.clock.wait_for_sleepers(2)
        assert not waiting.done(), "it does not end again and again meanwhile"
        counted.pass_seconds(0.1)
        await waiting
        assert counted.fresh_view.taken_with == 1

    run_with_timeout(run_scenario())


def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    async def run_scenario() -> None:
        counted = Counted()
        waits = ChangeWaits(counted.fresh_view, counted, counted.clock)
        await waits.wait(60)
        before = asyncio.all_tasks()
        waiting = asyncio.create_task(waits.wait(60))
        await counted.clock.wait_for_sleepers()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert asyncio.all_tasks() == before

    run_with_timeout(run_scenario())


# -- threads --------------------------------------------------------------------------------------


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads take turns as often as they can, so that a race is likely to show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def random_world(seed: int) -> World:
    return cluster_of(Random(seed), nodes=8, pods=range(60), budgets=3, makes=12)


STRICT: dict[str, Any] = {"nodeFit": True, "minReplicas": 2}
LOOSE = {"nodeFit": True, "podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}


def policy_of(api_version: str, **evictors: dict[str, Any]) -> Descheduler:
    """A profile for each of these arguments; by default two that ask about nearly everything."""
    evictors = evictors or {"strict": STRICT, "loose": LOOSE}
    document = {
        "apiVersion": api_version,
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": name,
                "pluginConfig": [{"name": "DefaultEvictor", "args": args}],
                "plugins": {"deschedule": {"enabled": []}},
            }
            for name, args in evictors.items()
        ],
    }
    plugins = default_registry()
    return build_descheduler(
        load_policy(json.dumps(document), name="policy", plugins=plugins), plugins
    )


def answers(view: View, profiles: tuple[Profile, ...], pods: list[Pod]) -> dict[str, str]:
    """What the filters of each profile say about each pod."""
    said = {}
    for pod_asked in pods:
        for profile in profiles:
            filters = view.prepare_once(profile, ProfileFilters)
            said[f"{profile.name} {pod_asked.key}"] = str(filters.all.refusal(pod_asked))
    return said


@pytest.mark.parametrize("api_version", ["descheduler/v1alpha2", "resettle/v1"])
def test_filters_give_several_threads_the_answers_of_one(api_version: str) -> None:
    descheduler = policy_of(api_version)
    profiles = descheduler.profiles
    kinds_of_answers: set[str] = set()
    with ThreadPoolExecutor(THREADS) as threads, switching_often():
        for seed in range(25):
            world = random_world(seed)
            snapshot = world.snapshot(reads=descheduler.reads)
            pods = list(snapshot.pods)
            expected = answers(descheduler.view(snapshot), profiles, pods)
            kinds_of_answers.update(expected.values())

            shared = descheduler.view(world.snapshot(reads=descheduler.reads))
            again = list(shared.pods)
            orders = [Random(i).sample(again, len(again)) for i in range(THREADS)]
            asked = [threads.submit(answers, shared, profiles, order) for order in orders]

            for future in asked:
                assert future.result() == expected, world
    assert len(kinds_of_answers) > 5, "the worlds are too plain to show anything"


def test_a_snapshot_is_made_while_threads_read_the_one_before() -> None:
    """What an index works out on demand grows while the next index is made from it."""
    descheduler = policy_of("resettle/v1")
    worlds = [random_world(seed).snapshot(reads=descheduler.reads) for seed in range(12)]
    with ThreadPoolExecutor(THREADS) as threads, switching_often():
        for earlier, later in pairwise(worlds):
            changes = later.since(earlier)
            expected = answers(descheduler.view(later), descheduler.profiles, list(later.pods))
            view = descheduler.view(earlier)
            reading = [
                threads.submit(answers, view, descheduler.profiles, list(view.pods))
                for _ in range(THREADS - 1)
            ]
            following = [earlier.next(changes) for _ in range(20)]
            for future in reading:
                future.result()
            for snapshot in (following[0], following[-1]):
                pods = list(snapshot.pods)
                assert answers(descheduler.view(snapshot), descheduler.profiles, pods) == expected


def refuse_b(args: Any, view: View, pod: Pod) -> Refusal | None:
    return Refusal("kept", "is kept") if pod.name == "b" else None


KEEPS_B = Profile(
    name="daily",
    filters=(Instance(Plugin(name="KeepB", filter=refuse_b), Args(), ExtensionPoint.FILTER),),
)


def test_a_thread_that_asks_gets_a_view_that_the_event_loop_made() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            made_in: list[int] = []

            def take() -> View:
                made_in.append(threading.get_ident())
                return View(rig.cache.snapshot(rig.clock.now()))

            rig.fresh_view._take = take
            evictor = LiveEvictor(KEEPS_B, rig.fresh_view, rig.cache.pod)

            def ask() -> tuple[int, str]:
                live = evictor.live_pod("default", "b")
                assert live is not None
                refusal = evictor.refusal(live)
                return len(evictor.view.pods), refusal.by if refusal else ""

            assert await asyncio.to_thread(ask) == (2, "KeepB")
            rig.server.store.delete("Pod", "a")
            await caught_up(rig.server, rig.cache)
            rig.clock.advance(timedelta(seconds=1))
            assert await asyncio.to_thread(ask) == (1, "KeepB")
            assert made_in == [threading.get_ident()] * 2

    run_with_timeout(run_scenario())


def test_an_error_on_the_loop_reaches_the_thread_that_asked() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:

            def fail() -> View:
                raise LookupError("no view")

            rig.fresh_view._take = fail
            with pytest.raises(LookupError, match="no view"):
                await asyncio.to_thread(rig.fresh_view.view)

    run_with_timeout(run_scenario())


def test_what_a_mover_says_it_is_moving_is_in_every_view() -> None:
    def moving(args: Any, snapshot: Snapshot) -> frozenset[str]:
        return frozenset(pod.uid for pod in snapshot.pods if pod.name == "a")

    mover = Instance(Plugin(name="M", moving=moving), Args(), ExtensionPoint.EVICT)
    descheduler = Descheduler(profiles=(Profile(name="p", mover=mover),))

    assert descheduler.view(WORLD.snapshot()).moving == {"uid-default-a"}


def test_pods_that_a_mover_says_are_gone_are_in_every_view_once() -> None:
    gone = DepartedPod("uid-gone", "n1", "default", "uid-web")
    plugin = Plugin(name="M", departed=lambda args, snapshot: (gone,))
    mover = Instance(plugin, Args(), ExtensionPoint.EVICT)
    profiles = (Profile(name="p", mover=mover), Profile(name="q", mover=mover), Profile(name="r"))

    view = Descheduler(profiles=profiles).view(WORLD.snapshot())

    assert view.departed == (gone,)
    assert view.leaving.count_departed("uid-web") == 1


# -- a place that is held --------------------------------------------------------------------------


def test_a_placeholder_on_the_last_place_does_not_keep_the_pod_that_it_is_for() -> None:
    world = cluster(
        node("n1", cpu="4").holding(pod("a", cpu="3", owner="ReplicaSet/web")),
        node("n2", cpu="4").holding(pod("place", cpu="3", namespace="resettle")),
    )
    (profile,) = policy_of("resettle/v1", fits={"nodeFit": True, "minPodAge": "0s"}).profiles

    async def run_scenario() -> None:
        async with rigged(world) as rig:
            evictor = LiveEvictor(profile, rig.fresh_view, rig.cache.pod)
            live = evictor.live_pod("default", "a")
            assert live is not None

            refusal = evictor.refusal(live)
            assert refusal is not None
            assert refusal.code == "no-node-fits"
            assert evictor.refusal(live, frozenset(), place_held=True) is None
            again = evictor.refusal(live, frozenset())
            assert again is not None
            assert again.code == "no-node-fits"

    run_with_timeout(run_scenario())


def test_a_refusal_can_be_asked_of_an_older_view() -> None:
    asked: list[View] = []

    def note_view(args: Any, view: View, pod: Pod) -> Refusal | None:
        asked.append(view)
        return None

    noting = Plugin(name="NoteView", filter=note_view)
    profile = Profile(name="daily", filters=(Instance(noting, Args(), ExtensionPoint.FILTER),))
    counted = Counted()
    evictor = LiveEvictor(profile, counted.fresh_view, lambda namespace, name: None)
    older = evictor.view
    pods = list(older.pods)

    evictor.refusal(pods[0], view=older)
    counted.change()
    counted.pass_seconds(1)
    evictor.refusal(pods[1], view=older)
    evictor.refusal(pods[1])

    assert [view is older for view in asked] == [True, True, False]
