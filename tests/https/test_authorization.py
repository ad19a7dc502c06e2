"""Protected routes: the API server decides who gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from resettle.clock import SYSTEM
from resettle.https import ServingCertificate, Tls
from resettle.https.authorization import CACHE_SECONDS, ApiServerAuthorizer
from resettle.https.server import HttpsServer, listen
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.testing import ApiServer, DeniedPermission, Fault, ManualClock

from .harness import HttpsClient, Response, echo, play

OURS = "a-token"
REVIEWS = "*reviews"


class Protected(NamedTuple):
    """A server with protected metrics, a client, and the API server that decides."""

    server: ApiServer
    clock: ManualClock
    client: HttpsClient
    log: list[str]

    async def ask(self, path: str = "/metrics", method: str = "GET", token: str = OURS) -> Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self.client.request(path, method, headers)

    @property
    def reviews(self) -> list[str]:
        """The reviews that the API server was asked for."""
        paths = [request.path.rpartition("/")[2] for request in self.server.requests]
        return [path for path in paths if path.endswith("reviews")]


@asynccontextmanager
async def protected(folder: Path, *bans: DeniedPermission) -> AsyncIterator[Protected]:
    clock, log = ManualClock(), list[str]()
    with ApiServer([], token=OURS, denied=bans) as server:
        access = read_kubeconfig(str(server.kubeconfig(folder / "kubeconfig")))
        async with Client(access) as client:
            to_list = Log.to(log)
            https = HttpsServer(
                listen("127.0.0.1", 0),
                ServingCertificate(Tls(), "127.0.0.1", SYSTEM, to_list),
                to_list,
                public=[web.get("/livez", echo)],
                protected=[web.get("/metrics", echo), web.delete("/metrics", echo)],
                authorizer=ApiServerAuthorizer(client, clock, to_list),
            )
            async with https.run():
                asking = HttpsClient(https.port)
                yield Protected(server, clock, asking, log)
                asking.close()


def test_a_client_that_is_known_and_allowed_gets_it(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            for method in ("GET", "HEAD", "DELETE"):
                assert (await endpoint.ask(method=method)).status == 200
            assert endpoint.log == []

    play(run_scenario())


@pytest.mark.parametrize("token", ["", "made-up"])
def test_an_unknown_client_is_asked_for_a_token(token: str, tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            for _ in range(2):
                response = await endpoint.ask(token=token)
                assert response.status == 401
                assert response.headers["WWW-Authenticate"] == "Bearer"
            (line,) = endpoint.log
            assert line.startswith("WARNING access denied path=/metrics")
            assert "made-up" not in line

    play(run_scenario())


def test_a_client_without_a_token_costs_the_api_server_nothing(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            await endpoint.ask(token="")
            assert endpoint.reviews == []

    play(run_scenario())


def test_a_client_that_is_known_and_not_allowed_is_refused_by_name(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(
            tmp_path, DeniedPermission(verb="get", resource="/metrics")
        ) as endpoint:
            response = await endpoint.ask()
            assert response.status == 403
            assert response.body == b"test:admin may not get the path /metrics\n"
            (line,) = endpoint.log
            assert "verb=get user=test:admin" in line
            assert (await endpoint.ask(method="HEAD")).status == 403, (
                "who may not get may not ask for the size"
            )

    play(run_scenario())


def test_another_verb_needs_a_permission_of_its_own(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(
            tmp_path, DeniedPermission(verb="delete", resource="/metrics")
        ) as endpoint:
            assert (await endpoint.ask()).status == 200
            assert (await endpoint.ask(method="DELETE")).status == 403

    play(run_scenario())


def test_public_routes_are_for_all(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            endpoint.server.faults.add(Fault(path=REVIEWS, status=500, times=99))
            for path in ("/livez", "/livez?verbose"):
                assert (await endpoint.ask(path, token="")).status == 200
            assert endpoint.reviews == []

    play(run_scenario())


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Fault(path="*/tokenreviews", status=500, times=99), id="who is it?"),
        pytest.param(Fault(path="*/subjectaccessreviews", status=500, times=99), id="may they?"),
        pytest.param(Fault(path=REVIEWS, hang_up=True, times=99), id="no answer"),
        pytest.param(Fault(path=REVIEWS, body=b"{}", times=99), id="an answer that says nothing"),
    ],
)
def test_without_a_decision_the_request_is_refused(trouble: Fault, tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            endpoint.server.faults.add(trouble)
            response = await endpoint.ask()
            assert response.status == 503
            assert b"GET" not in response.body
            (line,) = endpoint.log
            assert line.startswith("ERROR all access denied: the API server cannot be asked")

    play(run_scenario())


def test_a_permission_that_we_lack_is_logged_with_its_rule(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(
            tmp_path, DeniedPermission(verb="create", resource="tokenreviews")
        ) as endpoint:
            assert (await endpoint.ask()).status == 503
            (line,) = endpoint.log
            assert (
                'apiGroups: [\\"authentication.k8s.io\\"], resources: [\\"tokenreviews\\"]' in line
            )

    play(run_scenario())


def test_answers_are_kept_for_a_while_and_no_longer(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            for _ in range(3):
                assert (await endpoint.ask()).status == 200
            assert endpoint.reviews == ["tokenreviews", "subjectaccessreviews"]

            endpoint.server.denied.append(DeniedPermission(verb="get", resource="/metrics"))
            endpoint.clock.advance(timedelta(seconds=CACHE_SECONDS))
            assert (await endpoint.ask()).status == 403

    play(run_scenario())


def test_the_number_of_cached_answers_is_limited(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            for number in range(300):
                assert (await endpoint.ask(token=f"made-up-{number}")).status == 401
            assert len(endpoint.reviews) == 300
            await endpoint.ask(token="made-up-299")
            assert len(endpoint.reviews) == 300, "the last ones are still known"
            await endpoint.ask(token="made-up-0")
            assert len(endpoint.reviews) == 301, "the first ones are not"

    play(run_scenario())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"bearer  {OURS}", 200),
        (f"Basic {OURS}", 401),
        ("Bearer", 401),
        (OURS, 401),
        ("Bearer \xff\xfe", 401),
    ],
)
def test_only_a_bearer_token_counts(header: str, status: int, tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with protected(tmp_path) as endpoint:
            headers = {"Authorization": header}
            assert (await endpoint.client.request("/metrics", "GET", headers)).status == status

    play(run_scenario())
