"""What is served under which path.

    /metrics                    all metrics; DELETE has them begin at zero
    /livez /readyz /healthz     health, with `?verbose` and `?exclude=NAME`
    /readyz/cache …             one check of it

Health is open to everybody, metrics to those whom the gate lets pass.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from resettle.loop.status import Status
from resettle.serving.exposition import CONTENT_TYPE
from resettle.serving.health import ALIVE, READY, Check, told
from resettle.serving.http import Answer, Request, plain

if TYPE_CHECKING:
    from resettle.serving.instruments import Instruments

METRICS = "/metrics"
HEALTH: Mapping[str, Mapping[str, Check]] = {"healthz": ALIVE, "livez": ALIVE, "readyz": READY}
OF_THE_PEER = "/healthz/Descheduler"
"""The name of the peer's one check, which stands for all of ours."""
_WORTH_PACKING = 1024
_FASTEST = 1


class Gate(Protocol):
    """Who may pass."""

    async def refusal(self, request: Request) -> Answer | None:
        """What to answer in place of what was asked for; None if that may be given."""


class Open:
    """Lets everybody pass."""

    async def refusal(self, request: Request) -> Answer | None:
        """None."""
        return None


class Routes:
    """Finds the answer to a request; `meters` is None where metrics are off."""

    def __init__(
        self, status: Callable[[], Status], meters: Instruments | None, gate: Gate
    ) -> None:
        self._status = status
        self._meters = meters
        self._gate = gate

    async def answer(self, request: Request) -> Answer:
        """What is answered."""
        if request.path == METRICS and self._meters is not None:
            if request.method not in ("GET", "HEAD", "DELETE"):
                return _not_allowed("GET, HEAD, DELETE")
            return await self._gate.refusal(request) or await self._metrics(request, self._meters)
        _, name, *rest = [*request.path.split("/"), ""]
        if (checks := HEALTH.get(name)) is not None:
            if request.method not in ("GET", "HEAD"):
                return _not_allowed("GET, HEAD")
            return self._health(request, name, checks, "/".join(rest).strip("/"))
        served = [*([METRICS] if self._meters else ()), *(f"/{name}" for name in HEALTH)]
        return plain(404, f"nothing is served here; there is {', '.join(served)}\n")

    def _health(self, request: Request, name: str, checks: Mapping[str, Check], one: str) -> Answer:
        if one and request.path != OF_THE_PEER:
            if one not in checks:
                return plain(404, f"there is no check `{one}`; there is {', '.join(checks)}\n")
            checks = {one: checks[one]}
        fine, text = told(
            name,
            checks,
            self._status(),
            verbose="verbose" in request.query,
            without=request.query.get("exclude", ()),
        )
        return plain(200 if fine else 500, text)

    async def _metrics(self, request: Request, meters: Instruments) -> Answer:
        if request.method == "DELETE":
            meters.reset()
            return plain(200, "metrics reset\n")
        meters.look(self._status())
        # A large cluster has tens of thousands of lines; watches and leases shall not wait for it.
        text = await asyncio.to_thread(meters.text)
        if not request.takes_gzip or len(text) < _WORTH_PACKING:
            return Answer(200, text, CONTENT_TYPE)
        packed = await asyncio.to_thread(gzip.compress, text, _FASTEST)
        return Answer(200, packed, CONTENT_TYPE, (("Content-Encoding", "gzip"),))


def _not_allowed(methods: str) -> Answer:
    return plain(405, f"only {methods}\n", ("Allow", methods))
