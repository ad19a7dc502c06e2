"""Every strategy deployed: manifests are applied, and pods run with only the permissions they need.

The roles are those that `resettle rbac` prints for the policy. No request of a run may be
forbidden, and the evictions that were granted are those that it logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cluster.packing_scheduler import packing_scheduler
from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.violation_scenarios import leave_nodes_underused
from tests.e2e.cluster.violations import underused_nodes
from tests.e2e.cluster.workloads import is_stable, read_cluster
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.installing.installations import (
    NAMESPACE,
    SELECTOR,
    USER,
    helm_install,
    kustomize_install,
    node_for_resettle,
    write_overlay,
    write_values,
)
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import AuditedUser, Policy, assert_audit_agrees
from tests.e2e.test_strategies import CASES, Case
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


class Site(NamedTuple):
    """A workspace, a node for resettle, and what is needed to install it there."""

    plane: Access
    api: Api
    workspace: Workspace
    terminal: Terminal
    folder: Path
    node_selector: dict[str, str]


Deploy = Callable[[Site, Policy], None]


@pytest.fixture
def site(
    plane: Access, api: Api, workspace: Workspace, terminal: Terminal, tmp_path: Path
) -> Iterator[Site]:
    with node_for_resettle(workspace) as node_selector:
        yield Site(plane, api, workspace, terminal, tmp_path, node_selector)


def run_as_job(site: Site, policy: Policy) -> None:
    """Runs a single cycle as a Job, installed with kustomize."""
    audited = AuditedUser(site.plane, USER)
    folder = write_overlay(
        site.terminal, site.folder, "job", policy, node_selector=site.node_selector
    )
    with Kubelet(site.plane, SELECTOR) as kubelet, kustomize_install(site.terminal, folder):
        done = kubelet.container()
        assert done.wait_for_exit() == 0, done.log_text
        kubelet.check()
    assert_audit_agrees(site.api, audited, done)
    assert done.evicted, done.log_text


def run_as_cron_job(site: Site, policy: Policy) -> None:
    """Runs a single cycle as a Job of a CronJob, installed with Helm."""
    audited = AuditedUser(site.plane, USER)
    file = write_values(
        site.terminal,
        site.folder,
        policy,
        kind="CronJob",
        suspend=True,
        nodeSelector=site.node_selector,
    )
    with Kubelet(site.plane, SELECTOR) as kubelet, helm_install(site.terminal, "-f", file):
        site.terminal.output_of(
            "kubectl", "-n", NAMESPACE, "create", "job", "--from=cronjob/resettle", "first-run"
        )
        done = kubelet.container()
        assert done.wait_for_exit() == 0, done.log_text
        kubelet.check()
    assert_audit_agrees(site.api, audited, done)
    assert done.evicted, done.log_text


FORMS = [
    pytest.param(run_as_job, OURS, id="Job, kustomize, v1"),
    pytest.param(run_as_cron_job, UPSTREAM, id="CronJob, Helm, v1alpha2"),
]


@pytest.mark.parametrize(("deploy", "api_version"), FORMS)
@pytest.mark.parametrize("case", CASES)
def test_a_strategy_works_with_the_printed_permissions(
    case: Case, deploy: Deploy, api_version: str, site: Site
) -> None:
    case.set_up(site.workspace)
    eventually("a stable cluster", partial(is_stable, site.workspace))
    assert case.find_violations(read_cluster(site.workspace)), "there is no violation to correct"

    deploy(site, policy(api_version, case.strategy, case.args, site.workspace))


@pytest.mark.parametrize(("deploy", "api_version"), FORMS)
def test_high_node_utilization_works_with_the_printed_permissions(
    deploy: Deploy, api_version: str, site: Site, tmp_path: Path
) -> None:
    with packing_scheduler(site.plane, tmp_path) as packing:
        leave_nodes_underused(site.workspace, packing)
        assert underused_nodes(20)(read_cluster(site.workspace))

        strategy, args = "HighNodeUtilization", {"thresholds": {"cpu": 20}}
        deploy(site, policy(api_version, strategy, args, site.workspace))
