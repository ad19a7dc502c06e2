"""A run seen through its window: real requests while it works, waits, and gets into trouble."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from resettle.clock import SYSTEM
from resettle.cluster.access import Access
from resettle.cluster.lease_settings import LeaseSettings
from resettle.errors import InputError
from resettle.framework import Plugin
from resettle.log import Log
from resettle.serving import Serving, Window, meters_of_a_run
from resettle.serving.meters import Meters
from resettle.testing import Fault, HandClock, PocketServer, node, pod
from tests.running import Stage, policy, running

from .asking import SECONDS, Told, asked
from .readings import readings

PODS = "/api/v1/pods"
NOBODY_THERE = Access(server="http://127.0.0.1:1")
"""An API server that is never asked: nothing is protected here."""


def world(*pods: dict[str, Any]) -> list[dict[str, Any]]:
    full = node("n1").holding(*pods)
    return [full.node, node("n2").node, *full.pods]


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 3 * SECONDS))


def lists_of_pods(server: PocketServer) -> int:
    """How often pods were asked for, listed or watched."""
    return sum(it.path == PODS for it in server.asked)


class Seen(NamedTuple):
    """A run, and the port of its window."""

    stage: Stage
    port: int
    log: list[str]

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Told:
        return await asked(self.port, path, method, **headers)

    async def status(self, path: str) -> int:
        return (await self.ask(path)).status

    async def read(self, name: str, **labels: str) -> float:
        """The value of all lines with this name and these labels together."""
        told = [it for it in readings((await self.ask("/metrics")).body) if it.name == name]
        return sum(it.value for it in told if labels.items() <= it.labels.items())


@asynccontextmanager
async def seen(*given: Any, metrics: bool = True, **more: Any) -> AsyncIterator[Seen]:
    """A run over these objects, with a window."""
    log: list[str] = []
    serving = Serving(port=0, address="127.0.0.1", metrics=metrics)
    window = Window(serving, NOBODY_THERE, SYSTEM, Log.to(log), meters_of_a_run)
    if window.meters:
        more |= {"observers": [window.meters.reported], "run_observer": window.meters}
    async with running(*given, **more) as stage, window.open(stage.runner.status) as port:
        yield Seen(stage, port, log)


def test_a_run_that_is_well_says_so_and_shows_what_it_did() -> None:
    async def story() -> None:
        async with seen(world(pod("a", age="3h"))) as run:
            await run.stage.cycles(1)
            for path in ("/healthz", "/livez", "/readyz", "/healthz/Descheduler", "/readyz/cache"):
                told = await run.ask(path)
                assert (told.status, told.text) == (200, "ok")
            assert (await run.ask("/readyz?verbose")).text.endswith("readyz check passed\n")
            told = await run.ask("/metrics")
            assert told.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert await run.read("descheduler_pods_evicted_total", result="success") == 1
            assert await run.read("resettle_last_cycle_result", result="done") == 1
            packed = await run.ask("/metrics", **{"Accept-Encoding": "gzip"})
            assert packed.headers["Content-Encoding"] == "gzip"
            assert b"descheduler_build_info" in gzip.decompress(packed.body)
        (line,) = [line for line in run.log if "serving" in line]
        assert f"port={run.port} certificate=self-signed" in line

    play(story())


def test_it_answers_while_a_plan_is_being_drawn() -> None:
    drawing, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        drawing.set()
        assert go_on.wait(SECONDS)

    async def story() -> None:
        plugin = Plugin(name="Slow", deschedule=slow)
        document = policy("Slow", configs=[{"name": "Slow"}])
        async with seen(world(pod("a")), document, plugins=[plugin]) as run:
            try:
                await run.stage.until(drawing.is_set)
                assert await run.status("/livez") == 200
                assert await run.status("/readyz") == 200
                assert await run.read("resettle_cycles_total") == 0
            finally:
                go_on.set()
            await run.stage.cycles(1)
            assert await run.read("resettle_cycles_total", result="done") == 1

    play(story())


def test_it_is_alive_and_not_ready_before_the_cluster_is_listed() -> None:
    async def story() -> None:
        server = PocketServer(world(pod("a")), clock=HandClock())
        server.faults.add(Fault(path=PODS, status=500, times=9999))
        async with seen([], server=server) as run:
            await run.stage.until(lambda: lists_of_pods(server) > 0)
            assert await run.status("/livez") == 200
            told = await run.ask("/readyz")
            assert told.status == 500
            assert "[-]cache failed: the cluster has not been listed yet\n" in told.text
            assert "[+]policy ok\n" in told.text
            assert await run.read("resettle_cache_synced") == 0

    play(story())


def test_what_is_known_gets_old_and_it_is_no_longer_ready_but_alive() -> None:
    async def story() -> None:
        async with seen(world(pod("a"))) as run:
            await run.stage.cycles(1)
            server = run.stage.server
            server.faults.add(Fault(path=PODS, status=500, times=9999))
            before = lists_of_pods(server)
            server.drop_watches()
            while lists_of_pods(server) == before:  # the watch is taken up again after a pause
                run.stage.clock.wind(timedelta(seconds=0.1))
                await asyncio.sleep(0.01)
            run.stage.clock.wind(timedelta(seconds=181))
            assert await run.status("/readyz") == 500
            assert await run.status("/readyz/policy") == 200
            assert await run.status("/livez") == 200
            assert await run.read("resettle_cache_age_seconds", kind="Pod") >= 181

    play(story())


def test_a_cycle_that_hangs_is_no_life() -> None:
    drawing, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        drawing.set()
        assert go_on.wait(SECONDS)

    async def story() -> None:
        plugin = Plugin(name="Slow", deschedule=slow)
        document = policy("Slow", configs=[{"name": "Slow"}])
        async with seen(world(pod("a")), document, plugins=[plugin]) as run:
            try:
                await run.stage.until(drawing.is_set)
                run.stage.clock.wind(timedelta(seconds=610))
                assert await run.status("/livez") == 200
                run.stage.clock.wind(timedelta(seconds=11))
                told = await run.ask("/healthz")
                assert told.status == 500
                assert "[-]cycle failed: no sign of work for 621 s\n" in told.text
            finally:
                go_on.set()

    play(story())


def test_a_standby_is_ready_and_says_that_it_is_one() -> None:
    async def story() -> None:
        spec = {"holderIdentity": "another", "leaseDurationSeconds": 137}
        meta = {"name": "descheduler", "namespace": "kube-system"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        objects = [*world(pod("a", age="3h")), {**lease, "spec": spec}]
        async with seen(objects, lease=LeaseSettings()) as run:
            await run.stage.until(lambda: bool(run.stage.told("waiting for the lease")))
            assert await run.status("/readyz") == 200
            assert await run.status("/livez") == 200
            assert await run.read("resettle_role", role="standby") == 1
            assert run.stage.evictions == []

    play(story())


def test_a_lease_that_is_lost_is_neither_ready_nor_alive() -> None:
    async def story() -> None:
        async with seen(world(pod("a")), lease=LeaseSettings()) as run:
            await run.stage.cycles(1)
            assert await run.status("/livez") == 200
            # Nothing of the process moves on, but its clock does: it has not heard of this yet.
            run.stage.server.faults.add(Fault(path="*/leases/*", status=500, times=999))
            run.stage.clock.wind(timedelta(seconds=108))
            assert await run.status("/livez") == 500
            told = await run.ask("/readyz")
            assert "[-]leaderElection failed: the lease was lost\n" in told.text

    play(story())


def test_a_delete_has_metrics_begin_anew() -> None:
    async def story() -> None:
        async with seen(world(pod("a", age="3h"))) as run:
            await run.stage.cycles(1)
            told = await run.ask("/metrics", "DELETE")
            assert (told.status, told.text) == (200, "metrics reset\n")
            assert await run.read("descheduler_pods_evicted_total") == 0

    play(story())


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 404),
        ("/debug/pprof", "GET", 404),
        ("/metrics/", "GET", 404),
        ("/readyz/nonsense", "GET", 404),
        ("/metrics", "POST", 405),
        ("/livez", "DELETE", 405),
    ],
)
def test_what_is_not_there_is_told(path: str, method: str, status: int) -> None:
    async def story() -> None:
        async with seen(world(pod("a"))) as run:
            assert (await run.ask(path, method)).status == status

    play(story())


def test_without_metrics_health_is_served_all_the_same() -> None:
    async def story() -> None:
        async with seen(world(pod("a", age="3h")), metrics=False) as run:
            await run.stage.cycles(1)
            assert await run.status("/livez") == 200
            told = await run.ask("/metrics")
            assert told.status == 404
            assert "/metrics" not in told.text

    play(story())


def test_a_port_that_is_taken_ends_a_run_unless_serving_is_optional() -> None:
    async def story() -> None:
        log: list[str] = []
        async with seen(world(pod("a"))) as run:
            there: dict[str, Any] = {"port": run.port, "address": "127.0.0.1"}
            status = run.stage.runner.status

            def window(**more: Any) -> Window[Meters]:
                serving = Serving(**there, **more)
                return Window(serving, NOBODY_THERE, SYSTEM, Log.to(log), meters_of_a_run)

            with pytest.raises(InputError, match="Address already in use"):
                async with window().open(status):
                    pass
            assert log == []
            async with window(optional=True).open(status):
                (line,) = log
            assert line.startswith("WARNING nothing is served reason=")

    play(story())


def test_without_a_window_nothing_is_served_or_counted() -> None:
    async def story() -> None:
        log: list[str] = []
        window = Window(None, NOBODY_THERE, SYSTEM, Log.to(log), meters_of_a_run)
        assert window.meters is None
        async with running(world(pod("a"))) as stage, window.open(stage.runner.status) as port:
            assert port == 0
            await stage.cycles(1)
        assert log == []

    play(story())
