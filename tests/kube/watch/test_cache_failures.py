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
from tests.kube.watch.test_cache import PODS, WORLD, UidChange, named, record_uids, run


class Noting(Hurried):
    """Remembers how long each sleep should have been."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().sleep(seconds)


def lists(server: ApiServer) -> int:
    """How often pods were listed."""
    return sum(request.verb == "list" and request.path == PODS for request in server.requests)


def on_pods(**what: object) -> Fault:
    """What goes wrong with the next watches of pods."""
    return Fault(verbs=("watch",), path=PODS, **what)  # type: ignore[arg-type]


async def forgotten(server: ApiServer, cache: Cache, change: Callable[[], object]) -> None:
    """Makes a change that no watch shows, only a list."""
    await watching(server, cache)
    # No watch comes back before the past is gone.
    server.faults.add(Fault(verbs=("watch",), delay_seconds=0.05, times=len(cache.versions)))
    server.drop_watches()
    await until(lambda: server.watches == 0)
    change()
    server.store.compact()


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
    changes: list[UidChange] = []

    async def run_scenario() -> None:
        async with (
            ApiServer(named("a"), faults=[fault]) as server,
            watched(server, listener=record_uids(changes)) as cache,
        ):
            for item in named("b", "c", "d"):
                server.store.put(item)
            server.store.delete("Pod", "b")
            await caught_up(server, cache)

            assert lists(server) == 1
            assert everything(cache.snapshot(NOW)) == everything(await fresh(server, frozenset()))

    run(run_scenario())
    expected = [(None, "a-1"), (None, "b-1"), (None, "c-1"), (None, "d-1"), ("b-1", None)]
    assert changes == expected


def test_pauses_grow_to_half_a_minute_and_are_reset_by_an_event() -> None:
    clock = Noting()

    async def run_scenario() -> None:
        async with (
            ApiServer(WORLD, faults=[on_pods(status=429, times=11)]) as server,
            watched(server, clock=clock) as cache,
        ):
            await until(lambda: len(clock.pauses) == 11)
            await watching(server, cache)
            server.store.put(pod("c"))
            await caught_up(server, cache)
            server.faults.add(on_pods(status=429))
            server.drop_watches()
            await until(lambda: len(clock.pauses) == 14)

    run(run_scenario())
    growing = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert clock.pauses[:11] == pytest.approx(growing)
    assert sorted(clock.pauses[11:]) == [0.1, 0.1, 0.2]


def test_a_server_that_names_a_time_is_given_that_time() -> None:
    clock = Noting()

    async def run_scenario() -> None:
        fault = on_pods(status=503, retry_after_seconds=7)
        async with (
            ApiServer(WORLD, faults=[fault]) as server,
            watched(server, clock=clock) as cache,
        ):
            await watching(server, cache)

    run(run_scenario())
    assert clock.pauses == [7]


# -- listing again ---------------------------------------------------------------------------------


def test_a_list_after_an_expired_version_reports_exactly_the_differences() -> None:
    changes: list[UidChange] = []

    async def run_scenario() -> None:
        async with (
            ApiServer(named("stays", "goes", "changes", "replaced")) as server,
            watched(server, listener=record_uids(changes)) as cache,
        ):
            before = cache.snapshot(NOW)
            changes.clear()

            def change() -> None:
                server.store.delete("Pod", "goes")
                server.store.merge("Pod", "changes", {"metadata": {"labels": {"app": "web"}}})
                server.store.delete("Pod", "replaced")
                server.store.put(pod("replaced", metadata={"uid": "replaced-2"}))
                server.store.put(named("comes")[0])

            await forgotten(server, cache, change)
            await caught_up(server, cache)

            assert lists(server) == 2
            stays = before.pod("default", "stays")
            assert stays is not None
            assert cache.pod("default", "stays") is stays, "what did not change is not read again"
            assert everything(cache.snapshot(NOW)) == everything(await fresh(server, frozenset()))

    run(run_scenario())
    assert changes[0] == ("goes-1", None)
    assert sorted(changes[1:], key=str) == [
        ("changes-1", "changes-1"),
        ("replaced-1", "replaced-2"),
        (None, "comes-1"),
    ]


def test_what_went_before_a_list_stays_gone_after_it() -> None:
    async def run_scenario() -> None:
        async with ApiServer(named("a")) as server, watched(server) as cache:
            cache.snapshot(NOW)
            await watching(server, cache)
            server.store.delete("Pod", "a")
            await caught_up(server, cache)
            await forgotten(server, cache, lambda: server.store.put(named("b")[0]))
            await caught_up(server, cache)

            assert lists(server) == 2
            assert [pod.name for pod in cache.snapshot(NOW).pods] == ["b"]

    run(run_scenario())


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
        pytest.param(_POD % ("RENAMED", '"a":1'), "`RENAMED`", id="an unknown event"),
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

    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server, log=Log.to(lines)) as cache:
            await watching(server, cache)
            server.faults.add(on_pods(begins_with=line))
            server.drop_watches()
            await until(lambda: lists(server) == 2)
            server.store.put(pod("c"))
            await caught_up(server, cache)

            assert lists(server) == 2
            assert cache.pod("default", "c") is not None
            assert cache.pod("default", "x") is None

    run(run_scenario())
    (again,) = [line for line in lines if line.startswith("INFO listed again")]
    assert "kind=Pod" in again
    assert reason in again


def test_malformed_events_are_logged_once() -> None:
    lines: list[str] = []

    async def run_scenario() -> None:
        faults = [on_pods(begins_with="so it goes", times=5)]
        async with (
            ApiServer(WORLD, faults=faults) as server,
            watched(server, log=Log.to(lines)) as cache,
        ):
            await until(lambda: not server.faults.pending)
            await watching(server, cache)

    run(run_scenario())
    assert sum(line.startswith("WARNING") for line in lines) == 1


def test_a_watch_taken_up_in_vain_leads_to_a_list_in_the_end() -> None:
    async def run_scenario() -> None:
        async with (
            ApiServer(WORLD, faults=[on_pods(status=500, times=6)]) as server,
            watched(server) as cache,
        ):
            await watching(server, cache)

            assert lists(server) == 2

    run(run_scenario())


def test_a_list_that_expires_half_way_begins_again() -> None:
    async def run_scenario() -> None:
        pods = named(*(f"p{i}" for i in range(600)))
        # The second request for pods is the one for the second page.
        faults = [
            Fault(verbs=("list",), path=PODS, delay_seconds=0),
            Fault(verbs=("list",), path=PODS, status=410),
        ]
        async with ApiServer(pods, faults=faults) as server, watched(server) as cache:
            assert len(cache.snapshot(NOW).pods) == 600
            assert lists(server) == 4

    run(run_scenario())


# -- what does not pass ----------------------------------------------------------------------------


def test_a_watch_forbidden_later_is_logged_once_and_the_age_grows() -> None:
    lines: list[str] = []

    async def run_scenario() -> None:
        clock = ManualClock()
        async with (
            ApiServer(WORLD) as server,
            watched(server, clock=clock, log=Log.to(lines)) as cache,
        ):
            await watching(server, cache)
            server.faults.add(on_pods(status=403, times=6))
            server.drop_watches()
            while server.faults.pending:
                await clock.wait_for_sleepers()
                clock.advance(timedelta(seconds=30))
                await asyncio.sleep(0)
            assert cache.ages()["Pod"] >= 150
            server.store.put(pod("c"))
            clock.advance(timedelta(seconds=30))
            await until(lambda: cache.pod("default", "c") is not None)
            assert cache.ages()["Pod"] == 0

    run(run_scenario())
    (warning,) = [line for line in lines if line.startswith("WARNING")]
    assert "kind=Pod" in warning
    assert "403" in warning


def test_an_object_that_cannot_be_read_lets_the_age_grow_and_all_else_goes_on() -> None:
    async def run_scenario() -> None:
        async with ApiServer(WORLD) as server, watched(server) as cache:
            await watching(server, cache)
            before = cache.versions["Pod"]
            odd = {"status": {"startTime": "noon"}}
            server.store.merge("Pod", "a", odd)
            await until(lambda: lists(server) > 3)
            server.store.put(node("n2").node)
            await until(lambda: cache.versions["Node"] == str(server.store.version))
            assert cache.versions["Pod"] == before
            assert cache.ages()["Pod"] > cache.ages()["Node"]
            server.store.merge("Pod", "a", {"status": {"startTime": "2026-01-31T12:00:00Z"}})
            await caught_up(server, cache)

            assert everything(cache.snapshot(NOW)) == everything(await fresh(server, frozenset()))

    run(run_scenario())
