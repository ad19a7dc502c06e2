"""Stops the writes of a controller before or after one request, so that it can be killed there.

    with FaultyProxy(plane, account) as proxy:
        freeze = freeze_writes(proxy, Request("POST", "/eviction"), after=True)
        ...
        freeze.wait(run)

From that request on every write of the process is dropped, as if the network were gone; it still
reads. A process that is started later writes once `thaw` was called.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from tests.e2e.cluster.workspace import eventually
from tests.e2e.processes.log_reader import LogReader
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy

READS = ("GET", "HEAD", "OPTIONS")
EVENTS = "/events"


class Request(NamedTuple):
    """A request by its method, a part of its path, and the end of its path."""

    method: str
    part: str
    end: str = ""

    def matches(self, method: str, path: str) -> bool:
        """Whether this is such a request; dry runs are none."""
        return (
            method == self.method
            and self.part in path
            and path.endswith(self.end)
            and "dryRun" not in path
        )


class Freeze:
    """A rule of a proxy: writes are dropped from one request on."""

    def __init__(self, request: Request, *, after: bool) -> None:
        self._request, self._after = request, after
        self._lock = threading.Lock()
        self.is_frozen = False
        """Whether the request has come, and nothing is written any more."""

    def wait(self, run: LogReader) -> None:
        """Waits until the request has come."""
        try:
            eventually(f"the request {self._request}", lambda: self.is_frozen)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{run.log_text}") from None

    def __call__(self, method: str, path: str) -> Fault | None:
        if method in READS or path.endswith(EVENTS):
            return None
        with self._lock:
            if self.is_frozen:
                return Fault.DROPPED
            if not self._request.matches(method, path):
                return None
            self.is_frozen = True
            return Fault.ANSWER_LOST if self._after else Fault.DROPPED


def freeze_writes(proxy: FaultyProxy, request: Request, *, after: bool) -> Freeze:
    """Drops all writes from this request on, itself included or `after` it."""
    freeze = Freeze(request, after=after)
    proxy.fault = freeze
    return freeze


def thaw(proxy: FaultyProxy) -> None:
    """Forwards all requests again."""
    proxy.fault = lambda method, path: None
