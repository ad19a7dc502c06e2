"""What the endpoint serves under which path, and the health checks behind it.

    /metrics                    all metrics; DELETE resets them
    /livez /readyz /healthz     health, with `?verbose` and `?exclude=NAME`
    /readyz/cache …             a single check

Names and texts of health are those of Kubernetes components. Alive means that a restart would not
help: the event loop runs (a response proves it), cycles come about as often as they should, and the
lease was not lost. Ready means that the component acts, or would at once if the leader went away.
An API server that is away makes it unready, and not dead.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from resettle.runtime.status import ComponentStatus, Role
from resettle.runtime.watching import STALE_SECONDS
from resettle.times import format_seconds

if TYPE_CHECKING:
    from resettle.telemetry.metrics.registry import ComponentMetrics

METRICS = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UPSTREAM_CHECK = "Descheduler"
"""The name of the only check of kubernetes-sigs/descheduler; it stands for all of ours."""
_COMPRESS_FROM_BYTES = 1024
_FASTEST = 1

# -- metrics --------------------------------------------------------------------------------------


def metrics_routes(
    metrics: ComponentMetrics, status: Callable[[], ComponentStatus]
) -> list[web.AbstractRouteDef]:
    """The routes of `/metrics`."""

    async def get(request: web.Request) -> web.Response:
        metrics.update(status())
        # A large cluster has tens of thousands of lines; watches and leases must not wait for them.
        text = await asyncio.to_thread(metrics.text)
        headers = {"Content-Type": METRICS_TYPE}
        accepts_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
        if not accepts_gzip or len(text) < _COMPRESS_FROM_BYTES:
            return web.Response(body=text, headers=headers)
        packed = await asyncio.to_thread(gzip.compress, text, _FASTEST)
        return web.Response(body=packed, headers={**headers, "Content-Encoding": "gzip"})

    async def reset(request: web.Request) -> web.Response:
        metrics.reset()
        return web.Response(text="metrics reset\n")

    return [web.get(METRICS, get), web.delete(METRICS, reset)]


# -- health ---------------------------------------------------------------------------------------

OVERDUE_SECONDS = 600.0
"""How long there may be no sign of work, beyond the interval: the longest wait within a cycle is
for a plan, which takes seconds, or for one response of the API server."""

Check = Callable[[ComponentStatus], str]
"""Gives the reason why the check fails; empty if it passes."""


def _ping(status: ComponentStatus) -> str:
    return ""


def _cycle(status: ComponentStatus) -> str:
    if status.role is Role.STANDBY or status.quiet_for <= status.interval + OVERDUE_SECONDS:
        return ""
    return f"no sign of work for {format_seconds(status.quiet_for)}"


def _lease_not_lost(status: ComponentStatus) -> str:
    return "the lease was lost" if status.role is Role.LOST else ""


def _leads_or_could_lead(status: ComponentStatus) -> str:
    if status.role is Role.STANDBY and status.lease_silence > STALE_SECONDS:
        return f"the lease could not be read for {format_seconds(status.lease_silence)}"
    return _lease_not_lost(status)


def _policy(status: ComponentStatus) -> str:
    return "" if status.policy_taken_at else "no policy has been loaded yet"


def _cache(status: ComponentStatus) -> str:
    if status.role is Role.STANDBY:
        return ""  # it watches nothing until it leads
    if status.ages is None:
        return "the cluster has not been listed yet"
    old = {kind: age for kind, age in status.ages.items() if age > STALE_SECONDS}
    return ", ".join(f"{kind} is {format_seconds(age)} old" for kind, age in sorted(old.items()))


def _controllers(status: ComponentStatus) -> str:
    stopped = [controller for controller in status.controllers if not controller.running]
    return ", ".join(
        f"{controller.name} of profile {controller.profile} is not running: {controller.failure}"
        for controller in stopped
    )


def _shutdown(status: ComponentStatus) -> str:
    return "it is stopping" if status.stopping else ""


ALIVE: Mapping[str, Check] = {
    "ping": _ping,
    "cycle": _cycle,
    "leaderElection": _lease_not_lost,
}
READY: Mapping[str, Check] = {
    "ping": _ping,
    "policy": _policy,
    "cache": _cache,
    "leaderElection": _leads_or_could_lead,
    "controllers": _controllers,
    "shutdown": _shutdown,
}


def run_checks(
    name: str,
    checks: Mapping[str, Check],
    status: ComponentStatus,
    *,
    verbose: bool = False,
    exclude: Collection[str] = (),
) -> tuple[bool, str]:
    """Whether all checks pass except those excluded, and the text of the response."""
    lines, healthy = [], True
    for check_name, check in checks.items():
        if check_name in exclude:
            lines.append(f"[+]{check_name} excluded: ok")
        elif reason := check(status):
            lines.append(f"[-]{check_name} failed: {reason}")
            healthy = False
        else:
            lines.append(f"[+]{check_name} ok")
    if unknown := sorted(set(exclude) - checks.keys()):
        lines.append(f"[!]there is no check to exclude with the name {', '.join(unknown)}")
    if healthy and not verbose:
        return True, "ok"
    lines.append(f"{name} check {'passed' if healthy else 'failed'}")
    return healthy, "\n".join(lines) + "\n"


HEALTH: Mapping[str, Mapping[str, Check]] = {"healthz": ALIVE, "livez": ALIVE, "readyz": READY}


def health_routes(status: Callable[[], ComponentStatus]) -> list[web.AbstractRouteDef]:
    """The routes of health, each with all its checks or a single check."""
    routes: list[web.AbstractRouteDef] = []
    for name in HEALTH:
        handler = _health_handler(name, status)
        routes += [web.get(f"/{name}", handler), web.get(f"/{name}/{{check:.*}}", handler)]
    return routes


def _health_handler(
    name: str, status: Callable[[], ComponentStatus]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def health(request: web.Request) -> web.Response:
        checks = HEALTH[name]
        only = request.match_info.get("check", "").strip("/")
        if only and (name, only) != ("healthz", UPSTREAM_CHECK):
            if only not in checks:
                text = f"there is no check `{only}`; there is {', '.join(checks)}\n"
                return web.Response(status=404, text=text)
            checks = {only: checks[only]}
        healthy, text = run_checks(
            name,
            checks,
            status(),
            verbose="verbose" in request.query,
            exclude=request.query.getall("exclude", []),
        )
        return web.Response(status=200 if healthy else 500, text=text)

    return health
