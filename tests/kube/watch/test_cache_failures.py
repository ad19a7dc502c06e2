"""What the cache gets over: broken watches, forgotten pasts, refusals and nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from resettle.kube.watch.cache import Cache
from resettle.log import Log
from resettle.testing import NOW, ApiServer, Fault, ManualClock, node, pod
from tests.kube.watch.harness import Hurried, caught_up, everything, fresh, until, watched, watching
from tests.kube.watch.test_cache import PODS, WORLD, Told, named, run, told


class Noting(Hurried):
    """Remembers how long somebody meant to sleep."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().sleep(seconds)


def lists(pocket: ApiServer) -> int:
    """How often pods were listed."""
    return sum(it.verb == "list" and it.path == PODS for it in pocket.requests)


def on_pods(**what: object) -> Fault:
    """What goes wrong with the next watches of pods."""
    return Fault(verbs=("watch",), path=PODS, **what)  # type: ignore[arg-type]


async def forgotten(pocket: ApiServer, cache: Cache, change: Callable[[], object]) -> None:
    """Makes a change that no watch can tell of: a list alone can."""
    await watching(pocket, cache)
    # No watch comes back before the past is gone.
    pocket.faults.add(Fault(verbs=("watch",), delay_seconds=0.05, times=len(cache.versions)))
    pocket.drop_watches()
    await until(lambda: pocket.watches == 0)
    change()
    pocket.store.compact()


# -- taking up a watch -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(on_pods(drop_after_events=1, times=3), id="a watch that is cut"),
        pytest.param(on_pods(hang_up=True, times=2), id="no answer"),
        pytest.param(on_pods(status=500, times=2), id="an error"),
        pytest.param(on_pods(status=503, times=9), id="a server that is not there yet"),
        pytest.param(on_pods(status=429, retry_after_seconds=1, times=9), id="too many requests"),
        pytest.param(on_pods(status=403, times=9), id="forbidden for a while"),
        pytest.param(on_pods(status=401, times=9), id="credentials that were late"),
        pytest.param(on_pods(bytes_per_second=20_000, twice=True), id="slow and repetitive"),
    ],
)
def test_a_watch_goes_on_from_the_last_version_and_nothing_is_listed_again(fault: Fault) -> None:
    heard: list[Told] = []

    async def story() -> None:
        async with (
            ApiServer(named("a"), faults=[fault]) as pocket,
            watched(pocket, heard=told(heard)) as cache,
        ):
            for one in named("b", "c", "d"):
                pocket.store.put(one)
            pocket.store.delete("Pod", "b")
            await caught_up(pocket, cache)

            assert lists(pocket) == 1
            assert everything(cache.snapshot(NOW)) == everything(await fresh(pocket, frozenset()))

    run(story())
    expected = [(None, "a-1"), (None, "b-1"), (None, "c-1"), (None, "d-1"), ("b-1", None)]
    assert heard == expected


def test_pauses_grow_to_half_a_minute_and_are_reset_by_an_event() -> None:
    clock = Noting()

    async def story() -> None:
        async with (
            ApiServer(WORLD, faults=[on_pods(status=429, times=11)]) as pocket,
            watched(pocket, clock=clock) as cache,
        ):
            await until(lambda: len(clock.pauses) == 11)
            await watching(pocket, cache)
            pocket.store.put(pod("c"))
            await caught_up(pocket, cache)
            pocket.faults.add(on_pods(status=429))
            pocket.drop_watches()
            await until(lambda: len(clock.pauses) == 14)

    run(story())
    growing = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert clock.pauses[:11] == pytest.approx(growing)
    assert sorted(clock.pauses[11:]) == [0.1, 0.1, 0.2]


def test_a_server_that_names_a_time_is_given_that_time() -> None:
    clock = Noting()

    async def story() -> None:
        fault = on_pods(status=503, retry_after_seconds=7)
        async with (
            ApiServer(WORLD, faults=[fault]) as pocket,
            watched(pocket, clock=clock) as cache,
        ):
            await watching(pocket, cache)

    run(story())
    assert clock.pauses == [7]


# -- listing anew ----------------------------------------------------------------------------------


def test_a_list_after_an_expired_version_reports_exactly_the_differences() -> None:
    heard: list[Told] = []

    async def story() -> None:
        async with (
            ApiServer(named("stays", "goes", "changes", "replaced")) as pocket,
            watched(pocket, heard=told(heard)) as cache,
        ):
            before = cache.snapshot(NOW)
            heard.clear()

            def change() -> None:
                pocket.store.delete("Pod", "goes")
                pocket.store.merge("Pod", "changes", {"metadata": {"labels": {"app": "web"}}})
                pocket.store.delete("Pod", "replaced")
                pocket.store.put(pod("replaced", metadata={"uid": "replaced-2"}))
                pocket.store.put(named("comes")[0])

            await forgotten(pocket, cache, change)
            await caught_up(pocket, cache)

            assert lists(pocket) == 2
            stays = before.pod("default", "stays")
            assert stays is not None
            assert cache.pod("default", "stays") is stays, "what did not change is not read anew"
            assert everything(cache.snapshot(NOW)) == everything(await fresh(pocket, frozenset()))

    run(story())
    assert heard[0] == ("goes-1", None)
    assert sorted(heard[1:], key=str) == [
        ("changes-1", "changes-1"),
        ("replaced-1", "replaced-2"),
        (None, "comes-1"),
    ]


def test_what_went_before_a_list_stays_gone_after_it() -> None:
    async def story() -> None:
        async with ApiServer(named("a")) as pocket, watched(pocket) as cache:
            cache.snapshot(NOW)
            await watching(pocket, cache)
            pocket.store.delete("Pod", "a")
            await caught_up(pocket, cache)
            await forgotten(pocket, cache, lambda: pocket.store.put(named("b")[0]))
            await caught_up(pocket, cache)

            assert lists(pocket) == 2
            assert [it.name for it in cache.snapshot(NOW).pods] == ["b"]

    run(story())


_POD = '{"type":"%s","object":{"metadata":{"name":"x"},"spec":{},%s}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(
            '{"type":"ERROR","object":{"kind":"Status","status":"Failure","metadata":{},'
            '"message":"too old resource version","reason":"Expired","code":410}}',
            "too old resource version",
            id="an expired version",
        ),
        pytest.param(
            '{"type":"ERROR","object":{"kind":"Status","code":500}}', "code 500", id="an error"
        ),
        pytest.param(
            '{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"1"}}}',
            "earlier version",
            id="a bookmark from the past: the cluster was restored from a copy",
        ),
        pytest.param("so it goes", "cannot be decoded", id="no JSON"),
        pytest.param(_POD % ("RENAMED", '"a":1'), "`RENAMED`", id="an event nobody knows"),
        pytest.param(_POD % ("ADDED", '"status":7'), "cannot be decoded", id="no pod"),
        pytest.param(
            '{"type":"ADDED","object":{"metadata":{},"spec":{}}}', "`name`", id="a pod of no name"
        ),
        pytest.param(
            _POD % ("ADDED", '"status":{"startTime":"noon"}'), "startTime", id="a pod out of time"
        ),
    ],
)
def test_an_event_that_cannot_be_decoded_leads_to_a_list(line: str, reason: str) -> None:
    lines: list[str] = []

    async def story() -> None:
        async with ApiServer(WORLD) as pocket, watched(pocket, log=Log.to(lines)) as cache:
            await watching(pocket, cache)
            pocket.faults.add(on_pods(begins_with=line))
            pocket.drop_watches()
            await until(lambda: lists(pocket) == 2)
            pocket.store.put(pod("c"))
            await caught_up(pocket, cache)

            assert lists(pocket) == 2
            assert cache.pod("default", "c") is not None
            assert cache.pod("default", "x") is None

    run(story())
    (again,) = [it for it in lines if it.startswith("INFO listed again")]
    assert "kind=Pod" in again
    assert reason in again


def test_malformed_events_are_logged_once() -> None:
    lines: list[str] = []

    async def story() -> None:
        faults = [on_pods(begins_with="so it goes", times=5)]
        async with (
            ApiServer(WORLD, faults=faults) as pocket,
            watched(pocket, log=Log.to(lines)) as cache,
        ):
            await until(lambda: not pocket.faults.pending)
            await watching(pocket, cache)

    run(story())
    assert sum(it.startswith("WARNING") for it in lines) == 1


def test_a_watch_taken_up_in_vain_leads_to_a_list_in_the_end() -> None:
    async def story() -> None:
        async with (
            ApiServer(WORLD, faults=[on_pods(status=500, times=6)]) as pocket,
            watched(pocket) as cache,
        ):
            await watching(pocket, cache)

            assert lists(pocket) == 2

    run(story())


def test_a_list_that_expires_half_way_begins_again() -> None:
    async def story() -> None:
        pods = named(*(f"p{i}" for i in range(600)))
        # The second request for pods is the one for the second page.
        faults = [
            Fault(verbs=("list",), path=PODS, delay_seconds=0),
            Fault(verbs=("list",), path=PODS, status=410),
        ]
        async with ApiServer(pods, faults=faults) as pocket, watched(pocket) as cache:
            assert len(cache.snapshot(NOW).pods) == 600
            assert lists(pocket) == 4

    run(story())


# -- what does not pass ----------------------------------------------------------------------------


def test_a_watch_forbidden_later_is_logged_once_and_the_age_grows() -> None:
    lines: list[str] = []

    async def story() -> None:
        clock = ManualClock()
        async with (
            ApiServer(WORLD) as pocket,
            watched(pocket, clock=clock, log=Log.to(lines)) as cache,
        ):
            await watching(pocket, cache)
            pocket.faults.add(on_pods(status=403, times=6))
            pocket.drop_watches()
            while pocket.faults.pending:
                await clock.wait_for_sleepers()
                clock.advance(timedelta(seconds=30))
                await asyncio.sleep(0)
            assert cache.ages()["Pod"] >= 150
            pocket.store.put(pod("c"))
            clock.advance(timedelta(seconds=30))
            await until(lambda: cache.pod("default", "c") is not None)
            assert cache.ages()["Pod"] == 0

    run(story())
    (warning,) = [it for it in lines if it.startswith("WARNING")]
    assert "kind=Pod" in warning
    assert "403" in warning


def test_an_object_that_cannot_be_read_lets_the_age_grow_and_all_else_goes_on() -> None:
    async def story() -> None:
        async with ApiServer(WORLD) as pocket, watched(pocket) as cache:
            await watching(pocket, cache)
            before = cache.versions["Pod"]
            odd = {"status": {"startTime": "noon"}}
            pocket.store.merge("Pod", "a", odd)
            await until(lambda: lists(pocket) > 3)
            pocket.store.put(node("n2").node)
            await until(lambda: cache.versions["Node"] == str(pocket.store.version))
            assert cache.versions["Pod"] == before
            assert cache.ages()["Pod"] > cache.ages()["Node"]
            pocket.store.merge("Pod", "a", {"status": {"startTime": "2026-01-31T12:00:00Z"}})
            await caught_up(pocket, cache)

            assert everything(cache.snapshot(NOW)) == everything(await fresh(pocket, frozenset()))

    run(story())
