"""The clients of a run: which of them are held back, and by how much."""

from __future__ import annotations

import asyncio
import math

import pytest

from resettle.kube.auth.access import Access
from resettle.runtime.leadership import Stop
from resettle.runtime.runner import ComponentSettings, open_clients
from resettle.testing import ManualClock


@pytest.mark.parametrize(
    ("qps", "burst", "at_once"),
    [
        pytest.param(-1, 3, math.inf, id="no limit"),
        pytest.param(0, 0, 10, id="the limit of Kubernetes clients"),
        pytest.param(2, 5, 5, id="a limit of one's own"),
    ],
)
def test_evictions_and_events_are_held_back_and_watches_never(
    qps: float, burst: int, at_once: float
) -> None:
    async def rates() -> tuple[float, float, float]:
        settings = ComponentSettings(qps=qps, burst=burst)
        access = Access(server="http://127.0.0.1:9")
        async with open_clients(access, settings, ManualClock(), Stop()) as clients:
            return (
                clients.unlimited.at_once(),
                clients.paced.at_once(),
                clients.for_events.at_once(),
            )

    assert asyncio.run(rates()) == (math.inf, at_once, at_once)


@pytest.mark.parametrize(
    ("qps", "burst", "at_once"),
    [
        pytest.param(0, 0, 100, id="the default"),
        pytest.param(200, 300, 300, id="a limit of their own"),
        pytest.param(-1, 0, math.inf, id="no limit"),
    ],
)
def test_controllers_have_a_rate_of_their_own(qps: float, burst: int, at_once: float) -> None:
    async def rate() -> float:
        settings = ComponentSettings(qps=1, burst=1, controller_qps=qps, controller_burst=burst)
        access = Access(server="http://127.0.0.1:9")
        async with open_clients(access, settings, ManualClock(), Stop()) as clients:
            return clients.for_controllers.at_once()

    assert asyncio.run(rate()) == at_once
