"""The cache: what it asks for, what it receives, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import ClusterError, Forbidden, InputError, PluginError, Unauthorized
from resettle.framework import Kind
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.watch.cache import Cache
from resettle.model import Pod
from resettle.model.pod import CONDITIONS
from resettle.testing import (
    NOW,
    ApiServer,
    Fault,
    ManualClock,
    budget,
    definition,
    node,
    pod,
)
from tests.kube.watch.harness import (
    EVERYTHING,
    PATIENCE_SECONDS,
    WIDGET,
    Meta,
    caught_up,
    everything,
    fresh,
    until,
    watched,
    watching,
    widget,
)

PODS = "/api/v1/pods"
WORLD = [node("n1").node, *node("n1").holding(pod("a"), pod("b")).pods]
UidChange = tuple[str | None, str | None]


def record_uids(changes: list[UidChange]) -> Callable[[Pod | None, Pod | None], None]:
    """A listener that records the uids before and after each change."""
    return lambda before, after: changes.append(
        (before.uid if before else None, after.uid if after else None)
    )


def named(*names: str) -> list[dict[str, Any]]:
    return [pod(name, metadata={"uid": f"{name}-1"}) for name in names]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


# -- what is asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "paths"),
    [
        pytest.param((), ["/api/v1/nodes", PODS], id="nodes and pods in any case"),
        pytest.param(
            ("PodDisruptionBudget", "usage", "history"),
            ["/api/v1/nodes", PODS, "/apis/policy/v1/poddisruptionbudgets"],
            id="kinds that are read, and not what is no kind",
        ),
        pytest.param(
            ("Widget",), ["/api/v1/nodes", PODS, WIDGET.path], id="a kind that a plugin brought"
        ),
    ],
)
def test_only_what_is_read_is_listed_and_watched(kinds: tuple[str, ...], paths: list[str]) -> None:
    async def run_scenario() -> None:
        world = [
            *WORLD,
            definition("Widget", group="example.com"),
            budget("b", allowed=1, labels={}),
        ]
        async with ApiServer(world) as server, watched(server, kinds, [WIDGET]) as cache:
            await watching(server, cache)
            asked = sorted((request.verb, request.path) for request in server.requests)

        assert asked == sorted((verb, path) for verb in ("list", "watch") for path in paths)

    run(run_scenario())


def test_a_long_list_comes_in_pages_and_is_watched_from_the_version_of_the_first() -> None:
    async def run_scenario() -> None:
        async with ApiServer(named(*(f"p{i}" for i in range(1200)))) as server:
            begins = str(server.store.version)
            async with watched(server) as cache:
                await watching(server, cache)
                asked = [request for request in server.requests if request.path == PODS]

                assert [request.verb for request in asked] == ["list", "list", "list", "watch"]
                assert [request.query["limit"] for request in asked[:3]] == ["500"] * 3
                assert asked[3].query["resourceVersion"] == begins
                assert asked[3].query["allowWatchBookmarks"] == "true"
                assert len(cache.snapshot(NOW).pods) == 1200

    run(run_scenario())


@pytest.mark.parametrize(
    ("own_kinds", "error", "says"),
    [
        pytest.param(
            [Kind("Widget", Meta)], InputError, "declares no path", id="a kind that is nowhere"
        ),
        pytest.param(
            [WIDGET, Kind("Widget", Meta, "/x")], PluginError, "two structs", id="a kind twice"
        ),
    ],
)
def test_a_kind_that_cannot_be_watched_is_an_error_before_anything_starts(
    own_kinds: list[Kind], error: type[Exception], says: str
) -> None:
    access = Access(server="http://127.0.0.1:1")

    with pytest.raises(error, match=says):
        Cache(access, Client(access), ["Widget"], own_kinds)


# -- the first list --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        pytest.param([Fault(verbs=("list",), path=PODS, status=403)], Forbidden, id="not allowed"),
        pytest.param([Fault(verbs=("list",), status=401, times=99)], Unauthorized, id="unknown"),
        pytest.param(
            [Fault(verbs=("list",), path=PODS, status=500, times=99)],
            ClusterError,
            id="an error that stays",
        ),
    ],
)
def test_a_first_list_that_fails_for_good_ends_the_wait(
    faults: list[Fault], error: type[Exception]
) -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD, faults=faults) as server:
            with pytest.raises(error):
                async with watched(server):
                    pass

    run(run_scenario())


def test_a_pod_that_cannot_be_read_is_named() -> None:
    odd = pod("odd", cpu="much")

    async def run_scenario() -> None:
        async with ApiServer([odd]) as server:
            with pytest.raises(InputError, match=r"default/odd, one of the pods: cpu: `much`"):
                async with watched(server):
                    pass

    run(run_scenario())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verbs=("list",), status=500, times=6), id="errors"),
        pytest.param(Fault(verbs=("list",), status=429, retry_after_seconds=1), id="too many"),
        pytest.param(Fault(verbs=("list",), hang_up=True, times=3), id="no answer"),
        pytest.param(Fault(verbs=("list",), status=410, times=3), id="a list that expires"),
    ],
)
def test_a_first_list_gets_over_what_passes(fault: Fault) -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD, faults=[fault]) as server, watched(server) as cache:
            assert [node.name for node in cache.snapshot(NOW).node_index] == ["n1"]

    run(run_scenario())


def test_a_cache_that_is_stopped_before_it_is_synced_is_an_error() -> None:
    async def run_scenario() -> None:
        async with ApiServer(faults=[Fault(path=PODS, delay_seconds=9)]) as server:
            access = Access(server=server.url)
            async with Client(access) as client:
                cache = Cache(access, client, ())
                running = asyncio.create_task(cache.run())
                await until(lambda: any(request.path == PODS for request in server.requests))
                running.cancel()
                with pytest.raises(ClusterError, match="stopped before every kind was listed"):
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await cache.wait_for_sync()

    run(run_scenario())


# -- what is received ------------------------------------------------------------------------------


def test_a_pod_is_as_of_the_last_event_and_a_snapshot_stays_as_it_was() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            before = cache.snapshot(NOW)
            server.store.delete("Pod", "a")
            server.store.merge("Pod", "b", {"metadata": {"labels": {"app": "web"}}})
            server.store.put(pod("a", namespace="shop"))
            await caught_up(server, cache)

            assert cache.pod("default", "a") is None
            cached = [cache.pod("default", "b"), cache.pod("shop", "a")]
            assert [item.labels.get("app") if item else None for item in cached] == ["web", None]
            assert [item.key if item else None for item in cached] == ["default/b", "shop/a"]
            assert cache.pod("nowhere", "a") is None
            assert sorted(pod.key for pod in before.pods) == ["default/a", "default/b"]
            after = cache.snapshot(NOW)
            assert sorted(pod.key for pod in after.pods) == ["default/b", "shop/a"]
            assert after.node_index is before.node_index, "what did not change is shared"

    run(run_scenario())


def test_a_snapshot_carries_what_is_remembered_and_who_is_moving() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            first = cache.snapshot(NOW, history={("p", "q"): 7}, moving=["u"])
            later = cache.snapshot(NOW + timedelta(hours=1))

            assert (dict(first.history), set(first.moving)) == ({("p", "q"): 7}, {"u"})
            assert (dict(later.history), set(later.moving)) == ({}, set())
            assert later.taken_at - first.taken_at == timedelta(hours=1)

    run(run_scenario())


def test_objects_of_a_plugins_own_kind_come_go_and_change() -> None:
    world = [definition("Widget", group="example.com"), widget("w", 3), widget("v", 1)]

    async def run_scenario() -> None:
        async with (
            ApiServer(world) as server,
            watched(server, ["Widget"], [WIDGET]) as cache,
        ):
            sizes = [[item.size for item in cache.snapshot(NOW).others["Widget"]]]
            server.store.put(widget("w", 9))
            server.store.put(widget("w", 4, namespace="shop"))
            server.store.delete("Widget", "v")
            await caught_up(server, cache)
            sizes.append([item.size for item in cache.snapshot(NOW).others["Widget"]])
            sizes.append([item.size for item in cache.snapshot(NOW).others["Widget"]])

            assert sizes == [[1, 3], [4, 9], [4, 9]]

    run(run_scenario())


def test_a_heartbeat_is_no_news() -> None:
    changes: list[UidChange] = []

    async def run_scenario() -> None:
        async with (
            ApiServer(WORLD) as server,
            watched(server, listener=record_uids(changes)) as cache,
        ):
            before = cache.snapshot(NOW)
            changes.clear()
            for name, kind in (("n1", "Node"), ("a", "Pod")):
                server.store.merge(kind, name, {"metadata": {"annotations": {"seen": "just now"}}})
            await caught_up(server, cache)
            after = cache.snapshot(NOW)

            assert (after.node_index, after.pod_index) == (before.node_index, before.pod_index)
            assert changes == []

    run(run_scenario())


def test_listeners_hear_the_first_list_and_every_change() -> None:
    changes: list[UidChange] = []

    async def run_scenario() -> None:
        async with (
            ApiServer(named("a", "b")) as server,
            watched(server, listener=record_uids(changes)) as cache,
        ):
            await watching(server, cache)
            server.store.merge("Pod", "a", {"metadata": {"labels": {"app": "web"}}})
            server.store.delete("Pod", "b")
            server.store.put(named("c")[0])
            await caught_up(server, cache)

    run(run_scenario())
    assert changes[:2] == [(None, "a-1"), (None, "b-1")]
    assert changes[2:] == [("a-1", "a-1"), ("b-1", None), (None, "c-1")]


@pytest.mark.parametrize("kinds", [(), (CONDITIONS,)], ids=["no plugin", "a plugin"])
def test_conditions_are_kept_if_a_plugin_reads_them(kinds: tuple[str, ...]) -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server, kinds) as cache:
            server.store.put(pod("c"))
            await until(lambda: cache.pod("default", "c") is not None)

            for kept_pod in cache.snapshot(NOW).pods:
                assert kept_pod.state.ready
                assert (kept_pod.state.conditions is not None) == bool(kinds)

    run(run_scenario())


def test_the_cache_is_too_old_until_every_kind_has_an_event_again() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with ApiServer(WORLD) as server, watched(server, clock=clock) as cache:
            await watching(server, cache)
            assert not cache.is_older_than(30)
            clock.advance(timedelta(seconds=40))
            assert cache.is_older_than(30)
            assert not cache.is_older_than(40)
            server.store.put(pod("c"))
            await until(lambda: cache.ages()["Pod"] == 0)
            assert cache.is_older_than(30), "no event of nodes arrived"
            server.store.bookmark()
            await until(lambda: not cache.is_older_than(30))

    run(run_scenario())


# -- how fresh -------------------------------------------------------------------------------------


def test_bookmarks_advance_the_version_without_an_event() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            await watching(server, cache)
            before = cache.versions
            server.store.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
            server.store.bookmark()
            await until(lambda: set(cache.versions.values()) == {str(server.store.version)})

            assert before["Pod"] != cache.versions["Pod"]

    run(run_scenario())


def test_age_grows_while_the_server_is_silent_and_ends_with_a_word_of_every_kind() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with ApiServer(WORLD) as server, watched(server, clock=clock) as cache:
            await watching(server, cache)
            assert cache.age() == 0
            clock.advance(timedelta(seconds=40))
            assert cache.age() == 40
            server.store.put(pod("c"))
            await until(lambda: cache.ages()["Pod"] == 0)
            assert cache.age() == 40, "no event of nodes arrived"
            server.store.bookmark()
            await until(lambda: cache.age() == 0)

    run(run_scenario())


def test_age_is_infinite_before_the_first_list() -> None:
    access = Access(server="http://127.0.0.1:1")

    assert Cache(access, Client(access), ()).age() == float("inf")


def test_a_watch_that_ends_in_order_is_taken_up_where_it_was() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server, watch_seconds=1) as cache:
            await until(lambda: [request.verb for request in server.requests].count("watch") >= 4)
            server.store.put(pod("c"))
            await caught_up(server, cache)

            assert cache.pod("default", "c") is not None
            assert [request.verb for request in server.requests].count("list") == 2, (
                "one for each kind"
            )

    run(run_scenario())


# -- all kinds -------------------------------------------------------------------------------------


def test_every_kind_is_held_as_a_fresh_list_has_it() -> None:
    async def run_scenario() -> None:
        world = [
            *WORLD,
            budget("b", allowed=1, labels={}),
            definition("Widget", group="example.com"),
        ]
        kinds = EVERYTHING | {"Widget"}
        async with ApiServer(world) as server, watched(server, kinds, [WIDGET]) as cache:
            server.store.put(widget("w", 3))
            await caught_up(server, cache)

            cached = everything(cache.snapshot(NOW))
            assert cached == everything(await fresh(server, kinds, [WIDGET]))

    run(run_scenario())


# -- waiting for changes ---------------------------------------------------------------------------


def test_a_wait_ends_when_any_object_has_changed() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            seen = cache.changes
            assert seen > 0, "what was listed counts"
            waits = [asyncio.create_task(cache.wait_for_change(seen)) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert not any(wait.done() for wait in waits)

            server.store.put(node("another").node)
            await asyncio.wait_for(asyncio.gather(*waits), 10)
            assert cache.changes > seen

            await asyncio.wait_for(cache.wait_for_change(seen), 10)  # what was missed ends it too

    asyncio.run(run_scenario())


def test_a_wait_that_begins_later_does_not_disturb_one_that_waits() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            first = asyncio.create_task(cache.wait_for_change(cache.changes))
            await asyncio.sleep(0)
            server.store.put(node("another").node)
            await asyncio.wait_for(first, 10)
            second = asyncio.create_task(cache.wait_for_change(cache.changes))
            third = asyncio.create_task(cache.wait_for_change(cache.changes))
            await asyncio.sleep(0.01)
            second.cancel()
            assert not third.done()

            server.store.put(node("one-more").node)
            await asyncio.wait_for(third, 10)

    asyncio.run(run_scenario())
