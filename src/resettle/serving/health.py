"""Whether a run is alive and ready, as probes ask for it; the words are those of kube components.

Alive means that a restart would not help: the event loop turns (who gets an answer knows), cycles
come about as often as they should, and the lease was not lost. Ready means that it acts, or would
at once if the leader were gone. An API server that is away makes it unready, and not dead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from resettle.loop.status import Role, Status
from resettle.loop.watching import STALE_SECONDS

OVERDUE_SECONDS = 600.0
"""How long there may be no sign of work, beyond the interval: the longest wait within a cycle is
for a plan, which takes seconds, or for one answer of the API server."""

Check = Callable[[Status], str]
"""Why something is not as it should be; empty if it is."""


def _ping(status: Status) -> str:
    return ""


def _cycle(status: Status) -> str:
    if status.role is Role.STANDBY or status.quiet_for <= status.interval + OVERDUE_SECONDS:
        return ""
    return f"no sign of work for {status.quiet_for:.0f} s"


def _lease_kept(status: Status) -> str:
    return "the lease was lost" if status.role is Role.LOST else ""


def _leads_or_could(status: Status) -> str:
    if status.role is Role.STANDBY and status.lease_silence > STALE_SECONDS:
        return f"nothing was heard of the lease for {status.lease_silence:.0f} s"
    return _lease_kept(status)


def _policy(status: Status) -> str:
    return "" if status.policy_taken_at else "no policy has been taken yet"


def _cache(status: Status) -> str:
    if status.role is Role.STANDBY:
        return ""  # it watches nothing until it leads
    if status.ages is None:
        return "the cluster has not been listed yet"
    old = {kind: age for kind, age in status.ages.items() if age > STALE_SECONDS}
    return ", ".join(f"{kind} is {age:.0f} s old" for kind, age in sorted(old.items()))


def _shutdown(status: Status) -> str:
    return "it is stopping" if status.stopping else ""


ALIVE: Mapping[str, Check] = {
    "ping": _ping,
    "cycle": _cycle,
    "leaderElection": _lease_kept,
}
READY: Mapping[str, Check] = {
    "ping": _ping,
    "policy": _policy,
    "cache": _cache,
    "leaderElection": _leads_or_could,
    "shutdown": _shutdown,
}


def told(
    name: str,
    checks: Mapping[str, Check],
    status: Status,
    *,
    verbose: bool = False,
    without: Collection[str] = (),
) -> tuple[bool, str]:
    """Whether all checks pass but those left out, and the text of the answer."""
    lines, fine = [], True
    for one, check in checks.items():
        if one in without:
            lines.append(f"[+]{one} excluded: ok")
        elif why := check(status):
            lines.append(f"[-]{one} failed: {why}")
            fine = False
        else:
            lines.append(f"[+]{one} ok")
    if unknown := sorted(set(without) - checks.keys()):
        lines.append(f"[!]there is no check to exclude by the name of {', '.join(unknown)}")
    if fine and not verbose:
        return True, "ok"
    lines.append(f"{name} check {'passed' if fine else 'failed'}")
    return fine, "\n".join(lines) + "\n"
