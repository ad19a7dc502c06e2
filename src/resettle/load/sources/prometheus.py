"""Prometheus: instant queries over HTTP, answered with a number for each node."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from resettle.clock import SYSTEM, Clock
from resettle.cluster.access import Access
from resettle.cluster.in_cluster import ACCOUNT
from resettle.cluster.proxies import proxy_for
from resettle.cluster.statuses import Answer
from resettle.cluster.trust import trusting
from resettle.errors import InputError, ResettleError
from resettle.kube.transport.client import Client
from resettle.load.sources.answers import figures, samples
from resettle.load.sources.tokens import Held, credentials, token_of
from resettle.model.readings import Question, Readings
from resettle.policy.document import Prometheus

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
