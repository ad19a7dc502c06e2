"""Whatever happens to a cluster and to the way there: once it is quiet, the cache is right."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.cli.text.plan import plan_json
from resettle.model import Pod
from resettle.model.pod import State, Template
from resettle.testing import NOW, ApiServer, Fault, definition, pod
from resettle.testing.builders import Object
from resettle.testing.random.clusters import cluster_of
from resettle.testing.strategies import policies
from tests.framework.test_descheduler_properties import descheduler
from tests.kube.watch.harness import (
    EVERYTHING,
    WIDGET,
    caught_up,
    everything,
    fresh,
    watched,
    widget,
)

KINDS = EVERYTHING | {"Widget"}
MOVABLE = ("Pod", "Pod", "Pod", "Node", "PodDisruptionBudget", "PersistentVolumeClaim", "Widget")
BOTH = ("list", "watch")
FAULTS = (
    Fault(verbs=BOTH, status=500, times=3),
    Fault(verbs=BOTH, status=429, retry_after_seconds=1),
    Fault(verbs=BOTH, status=503, times=2),
    Fault(verbs=BOTH, hang_up=True, times=2),
    Fault(verbs=BOTH, delay_seconds=0.01, times=3),
    Fault(verbs=BOTH, status=410),
    Fault(verbs=BOTH, status=403),
    Fault(verbs=("watch",), drop_after_events=1, times=3),
    Fault(verbs=("watch",), drop_after_events=4, times=2),
    Fault(verbs=("watch",), twice=True, times=4),
    Fault(verbs=("watch",), begins_with="so it goes"),
    Fault(verbs=("watch",), bytes_per_second=100_000, times=2),
    Fault(verbs=("list",), bytes_per_second=400_000, times=2),
)


class Trouble:
    """Does things to a cluster, as the dice fall."""

    def __init__(self, server: ApiServer, dice: Random) -> None:
        self._server = server
        self._dice = dice

    def come(self) -> None:
        """Objects come, or take the place of others."""
        for item in self._dice.sample(others := self._others(), min(4, len(others))):
            self._server.store.put(item)

    def go(self) -> None:
        """An object goes."""
        if item := self._any_object():
            meta = item["metadata"]
            self._server.store.delete(item["kind"], meta["name"], meta.get("namespace", ""))

    def change(self) -> None:
        """Something about an object changes."""
        if item := self._any_object():
            meta = item["metadata"]
            patch = {"metadata": {"labels": {"app": self._dice.choice(["web", "db", "new"])}}}
            self._server.store.merge(item["kind"], meta["name"], patch, meta.get("namespace", ""))

    def replace(self) -> None:
        """A pod goes, and another of its name comes."""
        if item := self._any_object("Pod"):
            meta = item["metadata"]
            self._server.store.delete("Pod", meta["name"], meta["namespace"])
            uid = f"uid-{self._dice.getrandbits(32)}"
            self._server.store.put({**item, "metadata": {**meta, "uid": uid}})

    def storm(self) -> None:
        """Much happens at once."""
        for _ in range(12):
            self._dice.choice([self.come, self.go, self.change, self.replace])()

    def cut(self) -> None:
        """Every watch is broken off."""
        self._server.drop_watches()

    def forget(self) -> None:
        """The past is forgotten."""
        self._server.store.compact()

    def cut_and_forget(self) -> None:
        """Both, with something in between."""
        self.cut()
        self.storm()
        self.forget()

    def fail(self) -> None:
        """Something goes wrong with the requests to come."""
        self._server.faults.add(self._dice.choice(FAULTS))

    def send_bookmarks(self) -> None:
        """Sends every watch a bookmark."""
        self._server.store.bookmark()

    def _any_object(self, kind: str = "") -> Object | None:
        objects = self._server.store.list(kind or self._dice.choice(MOVABLE))
        return self._dice.choice(objects) if objects else None

    def _others(self) -> list[Object]:
        pods = range(self._dice.randint(0, 20))
        world = cluster_of(self._dice, nodes=self._dice.randint(1, 5), pods=pods, budgets=2)
        return [*world.objects, widget(f"w{self._dice.randint(0, 5)}", self._dice.randint(0, 9))]


TROUBLES: list[Callable[[Trouble], None]] = [
    *(Trouble.come, Trouble.go, Trouble.change, Trouble.replace, Trouble.storm, Trouble.cut),
    *(Trouble.forget, Trouble.cut_and_forget, Trouble.fail, Trouble.fail, Trouble.send_bookmarks),
]


class RecordingListener:
    """The pods as a listener knows them from changes alone."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def __call__(self, before: Pod | None, after: Pod | None) -> None:
        about = after or before
        assert about is not None
        assert self.pods.pop(about.key, None) is before
        if after is not None:
            self.pods[after.key] = after


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    troubles=st.lists(st.sampled_from(TROUBLES), min_size=1, max_size=25),
    seed=st.integers(0, 2**32),
    document=policies(),
)
def test_once_quiet_the_cache_equals_a_fresh_list(
    troubles: list[Callable[[Trouble], None]], seed: int, document: dict[str, Any]
) -> None:
    dice, planner, recorded = Random(seed), descheduler(document), RecordingListener()
    world = cluster_of(dice, nodes=4, pods=range(20), budgets=2)
    objects = [*world.objects, definition("Widget", group="example.com"), widget("w0", 1)]

    async def run_scenario() -> None:
        async with (
            ApiServer(objects) as server,
            watched(server, KINDS, [WIDGET], listener=recorded) as cache,
        ):
            trouble = Trouble(server, dice)
            for happens in troubles:
                happens(trouble)
                # However long the cache has had to notice, it may be asked at any time.
                await asyncio.sleep(dice.choice([0, 0, 0.001, 0.004]))
                if dice.random() < 0.3:
                    planner.draw_plan(cache.snapshot(NOW))
            server.faults.clear()
            await caught_up(server, cache)

            mine, scratch = cache.snapshot(NOW), await fresh(server, KINDS, [WIDGET])
            assert everything(mine) == everything(scratch)
            assert plan_json(planner.draw_plan(mine)) == plan_json(planner.draw_plan(scratch))
            assert recorded.pods == {pod.key: pod for pod in mine.pods}

    asyncio.run(run_scenario())


def test_templates_and_states_that_no_pod_has_any_more_are_forgotten() -> None:
    def wave(number: int) -> list[Object]:
        """Pods that have nothing in common with others but their names."""
        return [
            pod(f"p{i}", labels={"wave": f"{number}-{i}"}, restarts=1000 * number + i)
            for i in range(150)
        ]

    def alive(kind: type[Template] | type[State]) -> int:
        gc.collect()  # what other tests have left behind
        return sum(type(thing) is kind for thing in gc.get_objects())

    async def run_scenario() -> None:
        before = {kind: alive(kind) for kind in (Template, State)}
        async with ApiServer(wave(0)) as server, watched(server) as cache:
            for number in range(1, 7):
                for item in wave(number):
                    server.store.put(item)
                await caught_up(server, cache)
                cache.snapshot(NOW)

            more = {kind: alive(kind) - count for kind, count in before.items()}
            assert all(150 <= count < 300 for count in more.values()), more

    asyncio.run(run_scenario())
