"""A short soak: pods change all the time, and at the end the cache equals a fresh list.

`python -m tests.e2e.soak.command` is the long form.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.processes.run import Account
from tests.e2e.soak.harness import WARM, soak
from tests.e2e.soak.workloads import SoakCluster
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

PODS = 200
SECONDS = 20
MOST_GROWTH = 1.25
"""The limit of growth; the long form is stricter."""


@pytest.fixture
def soak_cluster(plane: Access) -> Iterator[SoakCluster]:
    with plane.api(QUIET) as api, SoakCluster(api, PODS) as created:
        created.create_deployments()
        yield created


def test_during_constant_change_the_cache_stays_right_and_memory_does_not_grow(
    account: Account, soak_cluster: SoakCluster
) -> None:
    result = soak(account, soak_cluster, SECONDS, "500ms")

    assert result.cycles > 2 * WARM
    assert result.evictions > 0
    assert min(result.ups, result.downs, result.deletions) > 0
    assert result.known["Pod"] >= PODS
    assert result.growth <= MOST_GROWTH
