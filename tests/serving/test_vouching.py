"""Who gets metrics where they are protected: those whom the API server vouches for, nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resettle.cluster.kubeconfig import read_kubeconfig
from resettle.errors import Forbidden
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.loop.status import Role, Status
from resettle.serving import Serving, Window, meters_of_a_run
from resettle.serving.http import Answer, parsed
from resettle.serving.meters import Meters
from resettle.serving.routes import Routes
from resettle.serving.vouching import KEPT_SECONDS, Vouching
from resettle.testing import Ban, Fault, HandClock, PocketServer

from .asking import Told, asked

OURS = "a-token"
REVIEWS = "*reviews"


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


class Guarded(NamedTuple):
    """Metrics behind a gate, and the API server that is asked."""

    server: PocketServer
    clock: HandClock
    routes: Routes
    log: list[str]

    async def ask(self, path: str = "/metrics", method: str = "GET", token: str = OURS) -> Answer:
        shown = f"Authorization: Bearer {token}\r\n" if token else ""
        head = f"{method} {path} HTTP/1.1\r\n{shown}\r\n"
        return await self.routes.answer(parsed(head.encode()))

    @property
    def reviews(self) -> list[str]:
        """Which reviews the API server was asked for."""
        paths = [it.path.rpartition("/")[2] for it in self.server.asked]
        return [path for path in paths if path.endswith("reviews")]


@asynccontextmanager
async def guarded(folder: Path, *bans: Ban) -> AsyncIterator[Guarded]:
    clock, log = HandClock(), list[str]()
    with PocketServer([], token=OURS, bans=bans) as server:
        access = read_kubeconfig(str(server.kubeconfig(folder / "kubeconfig")))
        async with Client(access) as client:
            gate = Vouching(client, clock, Log.to(log))
            routes = Routes(lambda: Status(role=Role.ALONE), Meters(), gate)
            yield Guarded(server, clock, routes, log)


def test_who_is_known_and_may_is_let_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            for method in ("GET", "HEAD", "DELETE"):
                assert (await it.ask(method=method)).status == 200
            assert it.log == []

    play(story())


@pytest.mark.parametrize("token", ["", "made-up"])
def test_who_is_not_known_is_asked_for_a_token(token: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            for _ in range(2):
                told = await it.ask(token=token)
                assert told.status == 401
                assert ("WWW-Authenticate", "Bearer") in told.headers
            (line,) = it.log
            assert line.startswith("WARNING not let in path=/metrics")
            assert "made-up" not in line

    play(story())


def test_somebody_without_a_token_costs_the_api_server_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            await it.ask(token="")
            assert it.reviews == []

    play(story())


def test_who_is_known_and_may_not_is_turned_away_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path, Ban(verb="get", resource="/metrics")) as it:
            told = await it.ask()
            assert told.status == 403
            assert told.body == b"pocket:admin may not get the path /metrics\n"
            (line,) = it.log
            assert "verb=get user=pocket:admin" in line
            assert (await it.ask(method="HEAD")).status == 403, "who may not get may not peek"

    play(story())


def test_to_reset_takes_a_right_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path, Ban(verb="delete", resource="/metrics")) as it:
            assert (await it.ask()).status == 200
            assert (await it.ask(method="DELETE")).status == 403

    play(story())


def test_health_is_for_everybody(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            it.server.faults.add(Fault(path=REVIEWS, status=500, times=99))
            for path in ("/livez", "/healthz", "/healthz/Descheduler", "/livez?verbose"):
                assert (await it.ask(path, token="")).status == 200
            assert it.reviews == []

    play(story())


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Fault(path="*/tokenreviews", status=500, times=99), id="who is it?"),
        pytest.param(Fault(path="*/subjectaccessreviews", status=500, times=99), id="may they?"),
        pytest.param(Fault(path=REVIEWS, hang_up=True, times=99), id="no answer"),
        pytest.param(Fault(path=REVIEWS, body=b"{}", times=99), id="an answer that says nothing"),
    ],
)
def test_what_cannot_be_found_out_is_a_no(trouble: Fault, tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            it.server.faults.add(trouble)
            told = await it.ask()
            assert told.status == 503
            assert b"descheduler_" not in told.body
            (line,) = it.log
            assert line.startswith("ERROR nobody is let in: the API server cannot be asked")

    play(story())


def test_a_right_that_we_lack_is_told_with_its_rule(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path, Ban(verb="create", resource="tokenreviews")) as it:
            assert (await it.ask()).status == 503
            (line,) = it.log
            assert (
                'apiGroups: [\\"authentication.k8s.io\\"], resources: [\\"tokenreviews\\"]' in line
            )

    play(story())


def test_answers_are_kept_for_a_while_and_no_longer(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            for _ in range(3):
                assert (await it.ask()).status == 200
            assert it.reviews == ["tokenreviews", "subjectaccessreviews"]

            it.server.bans.append(Ban(verb="get", resource="/metrics"))
            it.clock.wind(timedelta(seconds=KEPT_SECONDS))
            assert (await it.ask()).status == 403

    play(story())


def test_strangers_in_crowds_are_forgotten_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded(tmp_path) as it:
            for number in range(300):
                assert (await it.ask(token=f"made-up-{number}")).status == 401
            assert len(it.reviews) == 300
            await it.ask(token="made-up-299")
            assert len(it.reviews) == 300, "the last ones are still known"
            await it.ask(token="made-up-0")
            assert len(it.reviews) == 301, "the first ones are not"

    play(story())


# -- the whole window ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"), [({"Authorization": f"Bearer {OURS}"}, 200), ({}, 401)]
)
def test_a_window_that_is_protected_over_the_wire(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    async def story() -> None:
        with PocketServer([], token=OURS) as server:
            access = read_kubeconfig(str(server.kubeconfig(tmp_path / "kubeconfig")))
            serving = Serving(port=0, address="127.0.0.1", protected=True)
            log: list[str] = []
            window = Window(serving, access, HandClock(), Log.to(log), meters_of_a_run)
            async with window.open(lambda: Status(role=Role.ALONE)) as port:
                told: Told = await asked(port, "/metrics", **headers)
                assert told.status == status
                assert (await asked(port, "/livez")).status == 200
            assert "metrics=protected" in log[0]

    play(story())


def test_a_run_that_may_not_ask_about_others_does_not_begin(tmp_path: Path) -> None:
    async def story() -> None:
        with PocketServer([], bans=[Ban(resource="subjectaccessreviews")]) as server:
            access = read_kubeconfig(str(server.kubeconfig(tmp_path / "kubeconfig")))
            serving = Serving(port=0, address="127.0.0.1", protected=True)
            window = Window(serving, access, HandClock(), Log.to([]), meters_of_a_run)
            with pytest.raises(Forbidden, match="may not create subjectaccessreviews"):
                async with window.open(lambda: Status(role=Role.ALONE)):
                    pass

    play(story())
