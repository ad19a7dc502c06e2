"""The soak in short: change all around, and in the end nothing is missed and nothing is left over.

`python -m tests.e2e.soak.command` is the long form.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.processes.run import Account
from tests.e2e.soak.harness import WARM, soak
from tests.e2e.soak.workloads import Estate
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

PODS = 200
SECONDS = 20
STILL_WARMING_UP = 1.25
"""In so short a time memory is only judged to be of one size; the ten minutes judge it strictly."""


@pytest.fixture
def estate(plane: Access) -> Iterator[Estate]:
    with plane.api(QUIET) as api, Estate(api, PODS) as made:
        made.settle()
        yield made


def test_a_run_beside_constant_change_knows_it_all_and_does_not_grow(
    account: Account, estate: Estate
) -> None:
    figures = soak(account, estate, SECONDS, "500ms")

    assert figures.cycles > 2 * WARM
    assert figures.evictions > 0
    assert min(figures.ups, figures.downs, figures.deletions) > 0
    assert figures.known["Pod"] >= PODS
    assert figures.growth <= STILL_WARMING_UP
