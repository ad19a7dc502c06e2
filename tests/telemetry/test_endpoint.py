"""The endpoint of a run: real requests while it works, waits, and meets faults."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resettle.clock import SYSTEM
from resettle.errors import Forbidden, InputError
from resettle.framework import Plugin
from resettle.kube.auth.access import Access
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.log import Log
from resettle.runtime.status import ComponentStatus, Role
from resettle.telemetry import Endpoint, EndpointSettings, build_run_metrics
from resettle.telemetry.metrics.run import RunMetrics
from resettle.testing import ApiServer, DeniedPermission, Fault, ManualClock, node, pod
from tests.https.harness import SECONDS, Response, get, play
from tests.runtime.harness import Stage, policy, running

from .harness import readings

OURS = "a-token"
PODS = "/api/v1/pods"
NO_API_SERVER = Access(server="http://127.0.0.1:1")
"""An API server that is never asked: nothing is protected here."""


def world(*pods: dict[str, Any]) -> list[dict[str, Any]]:
    full = node("n1").holding(*pods)
    return [full.node, node("n2").node, *full.pods]


def lists_of_pods(server: ApiServer) -> int:
    """How often pods were asked for, listed or watched."""
    return sum(request.path == PODS for request in server.requests)


class Seen(NamedTuple):
    """A run, and the port of its endpoint."""

    stage: Stage
    port: int
    log: list[str]

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Response:
        return await get(self.port, path, method, **headers)

    async def status(self, path: str) -> int:
        return (await self.ask(path)).status

    async def read(self, name: str, **labels: str) -> float:
        """The value of all lines with this name and these labels together."""
        lines = [
            reading
            for reading in readings((await self.ask("/metrics")).body)
            if reading.name == name
        ]
        return sum(line.value for line in lines if labels.items() <= line.labels.items())


@asynccontextmanager
async def seen(*given: Any, metrics: bool = True, **more: Any) -> AsyncIterator[Seen]:
    """A run over these objects, with an endpoint."""
    log: list[str] = []
    settings = EndpointSettings(port=0, address="127.0.0.1", metrics=metrics)
    endpoint = Endpoint(settings, NO_API_SERVER, SYSTEM, Log.to(log), build_run_metrics)
    if endpoint.metrics:
        more |= {"observers": [endpoint.metrics.observe_cycle], "run_observer": endpoint.metrics}
    async with running(*given, **more) as stage, endpoint.open(stage.runner.status) as port:
        yield Seen(stage, port, log)


def test_a_run_that_is_well_says_so_and_shows_what_it_did() -> None:
    async def scenario() -> None:
        async with seen(world(pod("a", age="3h"))) as run:
            await run.stage.cycles(1)
            for path in ("/healthz", "/livez", "/readyz", "/healthz/Descheduler", "/readyz/cache"):
                response = await run.ask(path)
                assert (response.status, response.text) == (200, "ok")
            assert (await run.ask("/readyz?verbose")).text.endswith("readyz check passed\n")
            response = await run.ask("/metrics")
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert await run.read("descheduler_pods_evicted_total", result="success") == 1
            assert await run.read("resettle_last_cycle_result", result="done") == 1
            packed = await run.ask("/metrics", **{"Accept-Encoding": "gzip"})
            assert packed.headers["Content-Encoding"] == "gzip"
            assert b"descheduler_build_info" in gzip.decompress(packed.body)
        (line,) = [line for line in run.log if "serving" in line]
        assert f"port={run.port} certificate=self-signed" in line

    play(scenario())


def test_it_answers_while_a_plan_is_being_drawn() -> None:
    drawing, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        drawing.set()
        assert go_on.wait(SECONDS)

    async def scenario() -> None:
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

    play(scenario())


def test_it_is_alive_and_not_ready_before_the_cluster_is_listed() -> None:
    async def scenario() -> None:
        server = ApiServer(world(pod("a")), clock=ManualClock())
        server.faults.add(Fault(path=PODS, status=500, times=9999))
        async with seen([], server=server) as run:
            await run.stage.until(lambda: lists_of_pods(server) > 0)
            assert await run.status("/livez") == 200
            response = await run.ask("/readyz")
            assert response.status == 500
            assert "[-]cache failed: the cluster has not been listed yet\n" in response.text
            assert "[+]policy ok\n" in response.text
            assert await run.read("resettle_cache_synced") == 0

    play(scenario())


def test_what_is_known_gets_old_and_it_is_no_longer_ready_but_alive() -> None:
    async def scenario() -> None:
        async with seen(world(pod("a"))) as run:
            await run.stage.cycles(1)
            server = run.stage.server
            server.faults.add(Fault(path=PODS, status=500, times=9999))
            before = lists_of_pods(server)
            server.drop_watches()
            while lists_of_pods(server) == before:  # the watch is taken up again after a pause
                run.stage.clock.advance(timedelta(seconds=0.1))
                await asyncio.sleep(0.01)
            run.stage.clock.advance(timedelta(seconds=181))
            assert await run.status("/readyz") == 500
            assert await run.status("/readyz/policy") == 200
            assert await run.status("/livez") == 200
            assert await run.read("resettle_cache_age_seconds", kind="Pod") >= 181

    play(scenario())


def test_a_cycle_that_hangs_is_not_alive() -> None:
    drawing, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        drawing.set()
        assert go_on.wait(SECONDS)

    async def scenario() -> None:
        plugin = Plugin(name="Slow", deschedule=slow)
        document = policy("Slow", configs=[{"name": "Slow"}])
        async with seen(world(pod("a")), document, plugins=[plugin]) as run:
            try:
                await run.stage.until(drawing.is_set)
                run.stage.clock.advance(timedelta(seconds=610))
                assert await run.status("/livez") == 200
                run.stage.clock.advance(timedelta(seconds=11))
                response = await run.ask("/healthz")
                assert response.status == 500
                assert "[-]cycle failed: no sign of work for 10m 21s\n" in response.text
            finally:
                go_on.set()

    play(scenario())


def test_a_standby_is_ready_and_says_that_it_is_one() -> None:
    async def scenario() -> None:
        spec = {"holderIdentity": "another", "leaseDurationSeconds": 137}
        meta = {"name": "descheduler", "namespace": "kube-system"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        objects = [*world(pod("a", age="3h")), {**lease, "spec": spec}]
        async with seen(objects, lease=LeaseSettings()) as run:
            await run.stage.until(lambda: bool(run.stage.log_lines("waiting for the lease")))
            assert await run.status("/readyz") == 200
            assert await run.status("/livez") == 200
            assert await run.read("resettle_role", role="standby") == 1
            assert run.stage.evictions == []

    play(scenario())


def test_a_lease_that_is_lost_is_neither_ready_nor_alive() -> None:
    async def scenario() -> None:
        async with seen(world(pod("a")), lease=LeaseSettings()) as run:
            await run.stage.cycles(1)
            assert await run.status("/livez") == 200
            # Nothing of the process moves on, but its clock does: it does not know of this yet.
            run.stage.server.faults.add(Fault(path="*/leases/*", status=500, times=999))
            run.stage.clock.advance(timedelta(seconds=108))
            assert await run.status("/livez") == 500
            response = await run.ask("/readyz")
            assert "[-]leaderElection failed: the lease was lost\n" in response.text

    play(scenario())


def test_a_delete_resets_metrics() -> None:
    async def scenario() -> None:
        async with seen(world(pod("a", age="3h"))) as run:
            await run.stage.cycles(1)
            response = await run.ask("/metrics", "DELETE")
            assert (response.status, response.text) == (200, "metrics reset\n")
            assert await run.read("descheduler_pods_evicted_total") == 0

    play(scenario())


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
def test_what_is_not_served_is_refused(path: str, method: str, status: int) -> None:
    async def scenario() -> None:
        async with seen(world(pod("a"))) as run:
            assert (await run.ask(path, method)).status == status

    play(scenario())


def test_without_metrics_health_is_served_all_the_same() -> None:
    async def scenario() -> None:
        async with seen(world(pod("a", age="3h")), metrics=False) as run:
            await run.stage.cycles(1)
            assert await run.status("/livez") == 200
            response = await run.ask("/metrics")
            assert response.status == 404
            assert "/metrics" not in response.text

    play(scenario())


def test_a_port_that_is_taken_ends_a_run_unless_serving_is_optional() -> None:
    async def scenario() -> None:
        log: list[str] = []
        async with seen(world(pod("a"))) as run:
            there: dict[str, Any] = {"port": run.port, "address": "127.0.0.1"}
            status = run.stage.runner.status

            def endpoint(**more: Any) -> Endpoint[RunMetrics]:
                settings = EndpointSettings(**there, **more)
                return Endpoint(settings, NO_API_SERVER, SYSTEM, Log.to(log), build_run_metrics)

            with pytest.raises(InputError, match="Address already in use"):
                async with endpoint().open(status):
                    pass
            assert log == []
            async with endpoint(optional=True).open(status):
                (line,) = log
            assert line.startswith("WARNING nothing is served reason=")

    play(scenario())


def test_without_an_endpoint_nothing_is_served_or_counted() -> None:
    async def scenario() -> None:
        log: list[str] = []
        endpoint = Endpoint(None, NO_API_SERVER, SYSTEM, Log.to(log), build_run_metrics)
        assert endpoint.metrics is None
        async with running(world(pod("a"))) as stage, endpoint.open(stage.runner.status) as port:
            assert port == 0
            await stage.cycles(1)
        assert log == []

    play(scenario())


@pytest.mark.parametrize(
    ("headers", "status"), [({"Authorization": f"Bearer {OURS}"}, 200), ({}, 401)]
)
def test_metrics_can_be_protected_and_health_stays_open(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        with ApiServer([], token=OURS) as server:
            access = read_kubeconfig(str(server.kubeconfig(tmp_path / "kubeconfig")))
            settings = EndpointSettings(port=0, address="127.0.0.1", protected=True)
            log: list[str] = []
            endpoint = Endpoint(settings, access, ManualClock(), Log.to(log), build_run_metrics)
            async with endpoint.open(lambda: ComponentStatus(role=Role.ALONE)) as port:
                response = await get(port, "/metrics", **headers)
                assert response.status == status
                assert (await get(port, "/livez")).status == 200
            assert "metrics=protected" in log[0]

    play(scenario())


def test_a_run_that_may_not_ask_about_clients_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        with ApiServer([], denied=[DeniedPermission(resource="subjectaccessreviews")]) as server:
            access = read_kubeconfig(str(server.kubeconfig(tmp_path / "kubeconfig")))
            settings = EndpointSettings(port=0, address="127.0.0.1", protected=True)
            endpoint = Endpoint(settings, access, ManualClock(), Log.to([]), build_run_metrics)
            with pytest.raises(Forbidden, match="may not create subjectaccessreviews"):
                async with endpoint.open(lambda: ComponentStatus(role=Role.ALONE)):
                    pass

    play(scenario())
