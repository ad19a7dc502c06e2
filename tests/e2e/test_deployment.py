"""Every strategy as it is deployed: manifests applied, pods run as they say, no right to spare.

The roles are those that `resettle rbac` prints for the one policy. Nothing that a run asks for may
be forbidden, and what it was granted is what it told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cluster.packing_scheduler import packing_scheduler
from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.violation_scenarios import nodes_are_left_with_little
from tests.e2e.cluster.violations import hardly_used
from tests.e2e.cluster.workloads import at_rest, look
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.installing.installations import (
    NAMESPACE,
    SELECTOR,
    USER,
    by_helm,
    by_kustomize,
    home,
    overlay,
    values,
)
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import Noted, Policy, settled
from tests.e2e.test_strategies import CASES, Case
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


class Site(NamedTuple):
    """A room, a place for resettle beside it, and what is needed to install it there."""

    plane: Access
    api: Api
    room: Room
    terminal: Terminal
    folder: Path
    at: dict[str, str]


Deployed = Callable[[Site, Policy], None]


@pytest.fixture
def site(plane: Access, api: Api, room: Room, terminal: Terminal, tmp_path: Path) -> Iterator[Site]:
    with home(room) as at:
        yield Site(plane, api, room, terminal, tmp_path, at)


def as_a_job(site: Site, policy: Policy) -> None:
    """A single cycle, by kustomize, carried out to its end."""
    noted = Noted(site.plane, USER)
    folder = overlay(site.terminal, site.folder, "job", policy, at=site.at)
    with Kubelet(site.plane, SELECTOR) as kubelet, by_kustomize(site.terminal, folder):
        done = kubelet.container()
        assert done.ended() == 0, done.story
        kubelet.check()
    settled(site.api, noted, done)
    assert done.evicted, done.story


def as_a_cron_job(site: Site, policy: Policy) -> None:
    """The same, by Helm and ahead of schedule."""
    noted = Noted(site.plane, USER)
    file = values(
        site.terminal, site.folder, policy, kind="CronJob", suspend=True, nodeSelector=site.at
    )
    with Kubelet(site.plane, SELECTOR) as kubelet, by_helm(site.terminal, "-f", file):
        site.terminal.does(
            "kubectl", "-n", NAMESPACE, "create", "job", "--from=cronjob/resettle", "first-look"
        )
        done = kubelet.container()
        assert done.ended() == 0, done.story
        kubelet.check()
    settled(site.api, noted, done)
    assert done.evicted, done.story


FORMS = [
    pytest.param(as_a_job, OURS, id="Job, kustomize, v1"),
    pytest.param(as_a_cron_job, UPSTREAM, id="CronJob, Helm, v1alpha2"),
]


@pytest.mark.parametrize(("deployed", "api_version"), FORMS)
@pytest.mark.parametrize("case", CASES)
def test_a_strategy_does_its_work_with_no_right_to_spare(
    case: Case, deployed: Deployed, api_version: str, site: Site
) -> None:
    case.arrange(site.room)
    eventually("a cluster at rest", partial(at_rest, site.room))
    assert case.wrongs(look(site.room)), "the world is not as it should be for this test"

    deployed(site, policy(api_version, case.strategy, case.args, site.room))


@pytest.mark.parametrize(("deployed", "api_version"), FORMS)
def test_a_strategy_that_packs_does_so_too(
    deployed: Deployed, api_version: str, site: Site, tmp_path: Path
) -> None:
    with packing_scheduler(site.plane, tmp_path) as packing:
        nodes_are_left_with_little(site.room, packing)
        assert hardly_used(20)(look(site.room))

        strategy, args = "HighNodeUtilization", {"thresholds": {"cpu": 20}}
        deployed(site, policy(api_version, strategy, args, site.room))
