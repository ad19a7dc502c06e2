"""Short lists in many pages, and a bounded wait for what a server was asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from resettle.model.kinds import KINDS
from resettle.testing import ApiServer, Fault

PATIENCE_SECONDS = 10
_ALWAYS = 1000


def in_pages(size: int) -> Fault:
    """Every list comes in pages of this size."""
    return Fault(verbs=("list",), largest_page=size, times=_ALWAYS)


def struck(kind: str, *, page: int = 1, **fault: Any) -> list[Fault]:
    """What goes wrong with this page of the kind's list; those before it hold two items each."""
    before = [Fault(path=KINDS[kind].path, largest_page=2) for _ in range(1, page)]
    return [*before, Fault(path=KINDS[kind].path, **fault)]


def paths_of(server: ApiServer) -> list[str]:
    """The paths asked for, in order, without what follows the question mark."""
    return [asked.path for asked in server.requests]


def continued(server: ApiServer) -> bool:
    """Whether the page after the first is asked for, before patience ends."""
    return any("continue" in asked.query for _ in _glances() for asked in server.requests)


def _glances() -> Iterator[None]:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(0.005)
