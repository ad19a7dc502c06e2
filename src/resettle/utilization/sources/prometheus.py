"""Prometheus: instant queries over HTTP, answered with a number for each node.

What Prometheus says to an instant query, off the wire and into figures.
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
from resettle.kube.auth.identity import ACCOUNT
from resettle.kube.auth.proxy import proxy_for
from resettle.kube.auth.tls import trusting
from resettle.kube.status import Answer
from resettle.kube.transport.client import Client
from resettle.model.measurements import Figure, Question, Readings
from resettle.policy.document import Prometheus
from resettle.utilization.sources.prometheus_auth import Held, credentials, token_of

_LONGEST_WORDS = 120


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


def samples(answer: Answer) -> Sequence[_Series]:
    """The samples of an answer; an error says what it is instead of one."""
    if answer.status == 401:
        raise ClusterError("it does not accept the token (401)")
    if answer.status == 403:
        raise ClusterError(f"it does not let us ask (403): {_words(answer.body)}")
    try:
        reply = _reply.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _words(answer.body)
        if answer.status == 200:
            raise ClusterError(f"what it answers is not an answer of Prometheus: {said}") from None
        raise ClusterError(f"it answered {answer.status}: {said}") from None
    if reply.status != "success" or reply.data is None:
        said = f"{reply.error_type}: {reply.error}".strip(": ") or f"status `{reply.status}`"
        raise ClusterError(f"it answered {answer.status}: {said}")
    if reply.data.result_type != "vector":
        raise ClusterError(
            f"the query is answered with a {reply.data.result_type or 'nothing'} "
            "and not with a number for each node"
        )
    try:
        return _vector.decode(reply.data.result)
    except msgspec.DecodeError as error:
        raise ClusterError(f"what it answers cannot be understood: {error}") from None


def figures(values: Sequence[_Series], times: Sequence[_Series], label: str) -> tuple[Figure, ...]:
    """A figure for each sample, with the time it was really taken.

    An answer tells when it was worked out, which is always now; `times` is the answer to
    `timestamp(query)` and tells when the samples in it came in. Where two of one node differ,
    the older counts.
    """
    taken: dict[str, float] = {}
    for series in times:
        name, at = series.metric.get(label, ""), _number(series)
        taken[name] = min(taken.get(name, at), at)
    found = []
    for series in values:
        name = series.metric.get(label, "")
        asked_at = series.value[0] if series.value else 0.0
        # Whoever came in between the two answers is as old as the one that has it.
        found.append(Figure(name, _number(series), _time(taken.get(name, asked_at))))
    return tuple(found)


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


def _words(body: bytes) -> str:
    """The beginning of something that was meant for people."""
    text = " ".join(body[: 4 * _LONGEST_WORDS].decode(errors="replace").split())
    return text[:_LONGEST_WORDS] + ("…" if len(text) > _LONGEST_WORDS else "") or "nothing"


WITHIN_SECONDS = 10
LONGEST_IN_ADDRESS = 2000
"""Characters of a query that still go into the address; proxies have their limits."""
_PATH = "/api/v1/query"


class PrometheusServer:
    """One server, and how to ask it; `cluster` is where the Secret with its token is."""

    def __init__(
        self,
        provider: Prometheus,
        cluster: Client,
        clock: Clock = SYSTEM,
        *,
        environment: Mapping[str, str] = os.environ,
        account: Path | None = None,
        within: float = WITHIN_SECONDS,
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
                trust=_trust(provider, account) if address.scheme == "https" else None,
                credentials=self._identity,
                proxy=proxy_for(self._name, environment),
                source="`metricsProviders`",
            ),
            clock=clock,
        )

    async def close(self) -> None:
        """Ends all connections."""
        await self._client.__aexit__(None, None, None)

    async def answers(self, questions: frozenset[Question]) -> dict[Question, Readings]:
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
        if isinstance(self._identity, Held) and token and token.secret_reference:
            self._identity.hold(await token_of(self._cluster, token.secret_reference))

    async def _answer(self, question: Question) -> Readings:
        try:
            # A sample in an answer is stamped with the time of the question; when it came in is
            # a question of its own.
            values, times = await asyncio.gather(
                self._asked(question.query), self._asked(f"timestamp({question.query})")
            )
            found = figures(samples(values), samples(times), question.label)
        except ResettleError as error:
            said = str(error).removeprefix(f"{self._name} ").partition("; ")[0]
            asked = f"Prometheus at {self._name}, asked for `{question.query}`"
            return Readings(failure=f"{asked}: {said}")
        return Readings(figures=found)

    async def _asked(self, query: str) -> Answer:
        form = {"query": query, "timeout": f"{self._within:g}s"}
        if len(query) <= LONGEST_IN_ADDRESS:
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


def _trust(provider: Prometheus, account: Path | None) -> ssl.SSLContext:
    """Whom to believe to be Prometheus: the authority that is named, else the cluster's own too."""
    file = Path(provider.ca_file) if provider.ca_file else (account or ACCOUNT) / "ca.crt"
    if not provider.ca_file and not file.exists():
        return trusting(b"")
    try:
        trust = trusting(file.read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file} holds no certificate: {reason}") from None
    if not provider.ca_file:
        trust.load_default_certs()
    return trust
