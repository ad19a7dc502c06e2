"""Prometheus over a real socket: what it says, what it says instead, and what it is shown."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.measurements import PROMETHEUS, Figure, Measured, MetricsQuery, Readings
from resettle.policy.document import AuthToken, MetricsProvider, Prometheus, SecretReference
from resettle.testing import ApiServer, DeniedPermission
from resettle.utilization.sources.poller import UsagePoller
from resettle.utilization.sources.prometheus import PrometheusServer
from tests.kube.auth.fakes import Authority
from tests.utilization.sources.fakes import ASKED_AT, Answer, Reply, seeing, truth, vector

BUSY = MetricsQuery(PROMETHEUS, "busy")
SECRET = AuthToken(secret_reference=SecretReference(namespace="monitoring", name="token"))
TWO = {"n1": 0.9, "n2": 0.1}


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


def asked(
    provider: Prometheus,
    *between: Callable[[], object],
    question: MetricsQuery = BUSY,
    cluster: str = "http://127.0.0.1:1",
    **more: Any,
) -> list[Readings]:
    """The readings of one client, at first and after each change."""

    async def run_scenario() -> list[Readings]:
        async with Client(Access(server=cluster)) as client:
            options = {"environment": {}, "account": Path("/nowhere"), **more}
            server = PrometheusServer(provider, client, **options)
            readings = [(await server.answers(frozenset({question})))[question]]
            for happens in between:
                await asyncio.to_thread(happens)
                readings.append((await server.answers(frozenset({question})))[question])
            await server.close()
            return readings

    return asyncio.run(run_scenario())


def token_in(api_server: ApiServer, token: str, key: str = "prometheusAuthToken") -> None:
    """Puts the token into the Secret that the policy names."""
    encoded = base64.b64encode(token.encode()).decode()
    api_server.store.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": "monitoring", "name": "token"},
            "data": {key: encoded},
        }
    )


# -- what it says ---------------------------------------------------------------------------------


def test_a_number_for_each_node_and_when_it_was_measured() -> None:
    with seeing(truth(TWO, at=ASKED_AT - 40)) as seer:
        (readings,) = asked(Prometheus(url=seer.url))

    measured = datetime.fromtimestamp(ASKED_AT - 40, UTC)
    assert readings == Readings(figures=(Figure("n1", 0.9, measured), Figure("n2", 0.1, measured)))
    assert sorted(seer.asked) == ["busy", "timestamp(busy)"]
    assert seer.verbs == ["GET", "GET"]


def test_whatever_it_says_of_a_node_is_kept_for_others_to_judge() -> None:
    series: list[tuple[dict[str, str], str]] = [
        ({"instance": "a"}, "NaN"),
        ({"instance": "b"}, "+Inf"),
        ({"instance": "c"}, "-0.1"),
        ({"instance": "c"}, "0.2"),
        ({"node": "d"}, "0.3"),
    ]

    def answer(query: str) -> Reply:
        times = query.startswith("timestamp(")
        return vector([(labels, ASKED_AT if times else number) for labels, number in series])

    with seeing(answer) as seer:
        (readings,) = asked(Prometheus(url=seer.url))

    assert [figure.node for figure in readings.figures] == ["a", "b", "c", "c", ""]
    assert math.isnan(readings.figures[0].number)
    assert [figure.number for figure in readings.figures[1:]] == [math.inf, -0.1, 0.2, 0.3]


def test_another_label_may_hold_the_name() -> None:
    with seeing(truth(TWO, label="node")) as seer:
        (readings,) = asked(
            Prometheus(url=seer.url), question=MetricsQuery(PROMETHEUS, "busy", "node")
        )

    assert [figure.node for figure in readings.figures] == ["n1", "n2"]


def test_a_long_query_does_not_go_into_the_address() -> None:
    query = " + ".join(["busy"] * 600)
    with seeing(truth(TWO)) as seer:
        (readings,) = asked(Prometheus(url=seer.url), question=MetricsQuery(PROMETHEUS, query))

    assert len(readings.figures) == 2
    assert seer.verbs == ["POST", "POST"]
    assert query in seer.asked


def test_an_address_may_go_on_behind_the_host() -> None:
    with seeing(truth(TWO)) as seer:
        (readings,) = asked(Prometheus(url=f"{seer.url}/tenant/a/"))

    assert len(readings.figures) == 2


# -- what it says instead -------------------------------------------------------------------------


def reply(status: int, document: object) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return lambda query: (status, body)


def result(kind: str, rows: object) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": rows}}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(reply(401, b"no"), "it does not accept the token (401)", id="401"),
        pytest.param(reply(403, b"go away"), "it does not let us ask (403): go away", id="403"),
        pytest.param(reply(503, b"starting up"), "it answered 503: starting up", id="503"),
        pytest.param(
            reply(200, b"<!DOCTYPE html>\n<title>Sign in</title>"),
            "is not an answer of Prometheus: <!DOCTYPE html> <title>Sign in</title>",
            id="a page for people",
        ),
        pytest.param(reply(200, b""), "is not an answer of Prometheus: nothing", id="nothing"),
        pytest.param(
            reply(400, {"status": "error", "errorType": "bad_data", "error": "parse error"}),
            "it answered 400: bad_data: parse error",
            id="a query that it does not understand",
        ),
        pytest.param(
            reply(200, result("scalar", [ASKED_AT, "0.3"])), "answered with a scalar", id="scalar"
        ),
        pytest.param(reply(200, result("matrix", [])), "answered with a matrix", id="matrix"),
        pytest.param(reply(200, {"status": "success"}), "status `success`", id="no data"),
        pytest.param(
            reply(200, result("vector", [{"metric": {"instance": "a"}, "histogram": [1, {}]}])),
            "answered with histograms",
            id="histograms",
        ),
        pytest.param(
            reply(200, result("vector", [{"metric": {}, "value": [1, "much"]}])),
            "`much` in its answer is no number",
            id="no number",
        ),
        pytest.param(
            reply(200, result("vector", [{"metric": {"instance": 7}, "value": [1, "1"]}])),
            "cannot be decoded",
            id="a label that is none",
        ),
        pytest.param(
            reply(200, result("vector", [{"metric": {}, "value": [1, "1e300"]}])),
            "is no time",
            id="no time",
        ),
    ],
)
def test_anything_else_is_a_failure_that_says_what_it_is(answer: Answer, says: str) -> None:
    with seeing(answer) as seer:
        (readings,) = asked(Prometheus(url=seer.url))

    assert readings.figures == ()
    assert readings.failure.startswith(f"Prometheus at {seer.url}, asked for `busy`: ")
    assert says in readings.failure


def test_an_empty_answer_is_an_answer() -> None:
    with seeing(lambda query: vector([])) as seer:
        (readings,) = asked(Prometheus(url=seer.url))

    assert readings == Readings()


def test_one_that_is_down_is_reported_and_found_again_once_it_is_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://localhost:{taken.getsockname()[1]}"
    (readings,) = asked(Prometheus(url=url))

    assert readings.failure == (
        f"Prometheus at {url}, asked for `busy`: cannot be reached: Connection refused"
    )


def test_one_that_says_nothing_is_given_up_and_asked_again() -> None:
    silent: Reply = (0, b"")
    with seeing(lambda query: silent) as seer:

        def speaks() -> None:
            seer.answer = truth(TWO)

        first, second = asked(Prometheus(url=seer.url), speaks, within=0.2)

    assert first.failure.endswith("gave no answer: it does not answer in time")
    assert len(second.figures) == 2


def test_a_failing_question_leaves_the_others_alone() -> None:
    def answer(query: str) -> Reply:
        return (503, b"no") if "bad" in query else truth(TWO)(query)

    async def run_scenario(url: str) -> dict[MetricsQuery, Readings]:
        async with Client(Access(server="http://127.0.0.1:1")) as client:
            server = PrometheusServer(Prometheus(url=url), client, environment={})
            both = frozenset({BUSY, MetricsQuery(PROMETHEUS, "bad")})
            try:
                return await server.answers(both)
            finally:
                await server.close()

    with seeing(answer) as seer:
        readings = asyncio.run(run_scenario(seer.url))

    assert [bool(reading.failure) for reading in readings.values()] == [True, False]


# -- what it is shown -----------------------------------------------------------------------------


def test_the_token_of_a_secret_is_read_again_each_time(api_server: ApiServer) -> None:
    token_in(api_server, "first\n")
    with seeing(truth(TWO)) as seer:
        readings = asked(
            Prometheus(url=seer.url, auth_token=SECRET),
            lambda: token_in(api_server, "second"),
            lambda: api_server.store.delete("Secret", "token", "monitoring"),
            lambda: token_in(api_server, "third", key="misspelt"),
            lambda: token_in(api_server, "fourth"),
            cluster=api_server.url,
        )

    assert [reading.failure for reading in readings] == [
        "",
        "",
        f"no token for Prometheus at {seer.url}: the Secret monitoring/token, which should hold "
        "the token, is not there",
        f"no token for Prometheus at {seer.url}: the Secret monitoring/token has nothing under "
        "`prometheusAuthToken`",
        "",
    ]
    tokens = ["Bearer first", "Bearer second", "Bearer fourth"]
    assert seer.shown == [token for token in tokens for _ in range(2)]


def test_a_secret_that_may_not_be_read_is_reported_with_the_rule_to_add(
    api_server: ApiServer,
) -> None:
    token_in(api_server, "secret")
    api_server.denied.append(DeniedPermission(verb="get", resource="secrets"))
    (readings,) = asked(
        Prometheus(url="http://localhost:1", auth_token=SECRET), cluster=api_server.url
    )

    assert "may not get secrets in namespace monitoring" in readings.failure


def test_a_server_behind_its_own_authority_is_found_at_any_port(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    tls = authority.guarding(authority.issued("server", "localhost"))
    with seeing(truth(TWO), tls) as seer:
        (trusted,) = asked(Prometheus(url=seer.url, ca_file=str(authority.certificate)))
        (unknown,) = asked(Prometheus(url=seer.url))

    assert len(trusted.figures) == 2
    assert "its certificate is not trusted" in unknown.failure


def test_in_a_pod_the_token_and_authority_of_its_account_are_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "cluster")
    tls = authority.guarding(authority.issued("server", "localhost"))
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of-the-account")
    (account / "ca.crt").write_bytes(authority.certificate.read_bytes())
    with seeing(truth(TWO), tls) as seer:
        (readings,) = asked(Prometheus(url=seer.url), account=account)

    assert len(readings.figures) == 2
    assert seer.shown == ["Bearer of-the-account"] * 2


def test_a_token_that_is_turned_down_is_read_again_from_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "cluster")
    tls = authority.guarding(authority.issued("server", "localhost"))
    file = tmp_path / "token"
    file.write_text("old")

    def answer(query: str) -> Reply:
        if seer.shown[-1] == "Bearer new":
            return truth(TWO)(query)
        file.write_text("new")
        return 401, b""

    with seeing(answer, tls) as seer:
        (readings,) = asked(
            Prometheus(url=seer.url, ca_file=str(authority.certificate), token_file=str(file))
        )

    assert len(readings.figures) == 2


def test_the_token_of_the_account_never_goes_over_plain_http(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-account")
    with seeing(truth(TWO)) as seer:
        (readings,) = asked(Prometheus(url=seer.url), account=tmp_path)

    assert len(readings.figures) == 2
    assert seer.shown == [None, None]


def test_a_name_and_a_password_in_the_address_are_shown_and_never_reported() -> None:
    with seeing(reply(503, b"no")) as seer:
        url = seer.url.replace("http://", "http://me:s%40fe@")
        (readings,) = asked(Prometheus(url=url))

    assert seer.shown == [f"Basic {base64.b64encode(b'me:s@fe').decode()}"] * 2
    assert "s%40fe" not in readings.failure


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (
            Prometheus(url="https://localhost:1", ca_file="/nowhere/ca.pem"),
            "/nowhere/ca.pem holds no certificate: No such file or directory",
        ),
        (
            Prometheus(url="https://localhost:1", token_file="/nowhere/token"),
            "/nowhere/token cannot be read: No such file or directory",
        ),
    ],
)
def test_files_that_are_not_there_are_reported(provider: Prometheus, says: str) -> None:
    async def run_scenario() -> Measured:
        async with Client(Access(server="http://127.0.0.1:1")) as client:
            meters = UsagePoller(client)
            meters.set_questions([BUSY], [MetricsProvider(source=PROMETHEUS, prometheus=provider)])
            return await meters.measure()

    assert asyncio.run(run_scenario()) == {BUSY: Readings(failure=says)}
