"""The extension point `controller`: work that events start, beside the cycles of a run.

A controller is made like any plugin, from its arguments and a handle. The runtime starts it when
this process begins to lead and stops it when that ends; one that fails is started again after a
pause that grows. It runs on the event loop: long work belongs into a thread. In a dry run no
controller is made, since it could act; a run of a single cycle ends its controllers with the cycle.

What it reads, watches and writes is declared by its plugin (`controller_reads`, `kinds`,
`controller_permissions`), so that roles, `check-access` and the check before a run follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from resettle.framework.mover import ApiRequests, Evictor, OnMoveResponse
from resettle.model.pod import Pod


class ControllerClock(Protocol):
    """The time, and waits that a test can control."""

    def now(self) -> datetime:
        """The time of day, with its zone."""

    def steady(self) -> float:
        """Seconds by a clock that is never set back."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class ControllerLog(Protocol):
    """A log of constant events and their facts."""

    def info(self, event: str, /, **facts: Any) -> None:
        """Log what an operator wants to know."""

    def warning(self, event: str, /, **facts: Any) -> None:
        """Log what may need an operator's attention."""

    def error(self, event: str, /, **facts: Any) -> None:
        """Log what needs an operator's attention."""


class RequestsFor(Protocol):
    """Gives the requests for the move of one pod."""

    def __call__(
        self, pod: Pod, moving: frozenset[str] | None = None, *, place_held: bool = False
    ) -> ApiRequests:
        """Requests for this pod; `moving` are the pods that count as moving, if not all known.

        `place_held` says that a place is held for its replacement.
        """


@dataclass(frozen=True, kw_only=True)
class ControllerHandle:
    """What the runtime gives to a controller."""

    profile: str
    """The name of the profile that enables it."""
    evictor: Evictor
    """The filters of that profile over the cluster as it is now."""
    requests: ApiRequests
    """Sends requests, rate limited, and only while this process and this controller may act."""
    urgent_requests: ApiRequests
    """The same without the rate limiter, for the few requests that must follow each other at once.
    """
    requests_for: RequestsFor
    """Requests that move a pod, as a mover gets them.

    Until one has changed something, each that is no GET is sent only if the pod is still as given
    and the filters let it leave, which is checked after the rate limiter; else it raises
    `NotThisPod`.
    """
    report_move: OnMoveResponse
    """Has a move that the controller made logged, counted, followed and shown as an event."""
    set_figure: Callable[[str, float], None]
    """Sets a figure of the controller, by name, which is exposed as a metric."""
    wait_for_change: Callable[[float], Coroutine[Any, Any, None]]
    """Wait until a watched object has changed since the last wait, at most for so many seconds.

    The first wait ends at once. One object may have changed several times meanwhile.
    """
    delete_options: Mapping[str, Any]
    """How pods are deleted, as the policy says."""
    clock: ControllerClock
    log: ControllerLog


class Controller(Protocol):
    """Works until it is cancelled."""

    async def run(self) -> None:
        """Work until cancelled; an error, or an end, has it started again after a pause.

        A cancelled controller has some seconds to end; none of its requests is sent any more.
        """


MakeController = Callable[[Any, ControllerHandle], Controller]
"""A plugin's `controller`: makes the controller of one profile from `(args, handle)`."""
