"""Prometheus: instant queries over HTTP, answered with a number for each node.

Each query is sent twice, as itself and as `timestamp(query)`: a sample in an answer carries the
time of the query, not the time when it was taken.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Raw, Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import ClusterError, InputError, ResettleError
from resettle.kube.auth.access import Access
from resettle.kube.auth.identity import SERVICE_ACCOUNT_DIR
from resettle.kube.auth.proxy import proxy_for
from resettle.kube.auth.tls import client_tls_context
from resettle.kube.status import Answer
from resettle.kube.transport.client import Client
from resettle.model.measurements import Figure, MetricsQuery, Readings
from resettle.policy.document import Prometheus
from resettle.utilization.sources.prometheus_auth import SecretToken, credentials, token_of

_EXCERPT_LENGTH = 120


class _Series(Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class _Data(Struct, rename="camel"):
    result_type: str = ""
    result: Raw = Raw(b"[]")


class _Reply(Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_reply = msgspec.json.Decoder(_Reply)
_vector = msgspec.json.Decoder(list[_Series])


def read_samples(answer: Answer) -> Sequence[_Series]:
    """The samples of an answer; an error says why it has none."""
    if answer.status == 401:
        raise ClusterError("it does not accept the token (401)")
    if answer.status == 403:
        raise ClusterError(f"it does not let us ask (403): {_excerpt(answer.body)}")
    try:
        reply = _reply.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        excerpt = _excerpt(answer.body)
        if answer.status == 200:
            raise ClusterError(f"this is not an answer of Prometheus: {excerpt}") from None
        raise ClusterError(f"it answered {answer.status}: {excerpt}") from None
    if reply.status != "success" or reply.data is None:
        failure = f"{reply.error_type}: {reply.error}".strip(": ") or f"status `{reply.status}`"
        raise ClusterError(f"it answered {answer.status}: {failure}")
    if reply.data.result_type != "vector":
        raise ClusterError(
            f"the query is answered with a {reply.data.result_type or 'nothing'} "
            "and not with a number for each node"
        )
    try:
        return _vector.decode(reply.data.result)
    except msgspec.DecodeError as error:
        raise ClusterError(f"its answer cannot be decoded: {error}") from None


def read_figures(
    values: Sequence[_Series], times: Sequence[_Series], label: str
) -> tuple[Figure, ...]:
    """A figure for each sample, with the time it was really taken.

    An answer carries the time of the query; `times` is the answer to `timestamp(query)`, with the
    times when the samples came in. Where two of one node differ, the older counts.
    """
    taken: dict[str, float] = {}
    for series in times:
        name, at = series.metric.get(label, ""), _number(series)
        taken[name] = min(taken.get(name, at), at)
    figures = []
    for series in values:
        name = series.metric.get(label, "")
        asked_at = series.value[0] if series.value else 0.0
        # A sample that came in between the two answers has the time of its answer.
        figures.append(Figure(name, _number(series), _time(taken.get(name, asked_at))))
    return tuple(figures)


def _number(series: _Series) -> float:
    if series.value is None:
        raise ClusterError("the query is answered with histograms and not with numbers")
    try:
        return float(series.value[1])
    except ValueError:
        raise ClusterError(f"`{series.value[1]}` in its answer is no number") from None


def _time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise ClusterError(f"`{seconds}` in its answer is no time") from None


def _excerpt(body: bytes) -> str:
    """The beginning of a text meant for people."""
    text = " ".join(body[: 4 * _EXCERPT_LENGTH].decode(errors="replace").split())
    return text[:_EXCERPT_LENGTH] + ("…" if len(text) > _EXCERPT_LENGTH else "") or "nothing"


TIMEOUT_SECONDS = 10
MAX_QUERY_IN_URL = 2000
"""Longer queries are sent with POST, because proxies limit the length of a URL."""
_PATH = "/api/v1/query"


class PrometheusServer:
    """Client of one Prometheus server; `cluster` is where the Secret with its token is."""

    def __init__(
        self,
        provider: Prometheus,
        cluster: Client,
        clock: Clock = SYSTEM,
        *,
        environment: Mapping[str, str] = os.environ,
        account: Path | None = None,
        within: float = TIMEOUT_SECONDS,
    ) -> None:
        self._provider = provider
        self._cluster = cluster
        self._within = within
        self._identity = credentials(provider, clock, account)
        address = urlsplit(provider.url)
        bare = address._replace(netloc=address.netloc.rpartition("@")[2])
        self._name = bare.geturl().rstrip("/")
        self._client = Client(
            Access(
                server=self._name,
                trust=_tls_context(provider, account) if address.scheme == "https" else None,
                credentials=self._identity,
                proxy=proxy_for(self._name, environment),
                source="`metricsProviders`",
            ),
            clock=clock,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.__aexit__(None, None, None)

    async def answers(self, questions: frozenset[MetricsQuery]) -> dict[MetricsQuery, Readings]:
        """The answer to each question; one that fails says why and leaves the others alone."""
        try:
            await self._sign_in()
        except ResettleError as error:
            failed = Readings(failure=f"no token for Prometheus at {self._name}: {error}")
            return dict.fromkeys(questions, failed)
        asked = sorted(questions)
        return dict(zip(asked, await asyncio.gather(*map(self._answer, asked)), strict=True))

    async def _sign_in(self) -> None:
        token = self._provider.auth_token
        if isinstance(self._identity, SecretToken) and token and token.secret_reference:
            self._identity.set_token(await token_of(self._cluster, token.secret_reference))

    async def _answer(self, question: MetricsQuery) -> Readings:
        try:
            values, times = await asyncio.gather(
                self._send_query(question.query), self._send_query(f"timestamp({question.query})")
            )
            answer = read_figures(read_samples(values), read_samples(times), question.label)
        except ResettleError as error:
            reason = str(error).removeprefix(f"{self._name} ").partition("; ")[0]
            asked = f"Prometheus at {self._name}, asked for `{question.query}`"
            return Readings(failure=f"{asked}: {reason}")
        return Readings(figures=answer)

    async def _send_query(self, query: str) -> Answer:
        form = {"query": query, "timeout": f"{self._within:g}s"}
        if len(query) <= MAX_QUERY_IN_URL:
            return await self._client.send(
                "GET", _PATH, query=form, within=self._within, patience=0
            )
        return await self._client.send(
            "POST",
            _PATH,
            urlencode(form).encode(),
            content_type="application/x-www-form-urlencoded",
            within=self._within,
            patience=0,
        )


def _tls_context(provider: Prometheus, account: Path | None) -> ssl.SSLContext:
    """Trust the CA that the policy names; without one, the cluster's and the system's CAs."""
    file = (
        Path(provider.ca_file) if provider.ca_file else (account or SERVICE_ACCOUNT_DIR) / "ca.crt"
    )
    if not provider.ca_file and not file.exists():
        return client_tls_context(b"")
    try:
        trust = client_tls_context(file.read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file} holds no certificate: {reason}") from None
    if not provider.ca_file:
        trust.load_default_certs()
    return trust
