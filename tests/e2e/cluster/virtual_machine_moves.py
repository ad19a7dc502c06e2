"""Shared by the suites about virtual machines: policies, machines and the final comparison."""

from __future__ import annotations

from tests.e2e.cluster.policies import UPSTREAM, Args, policy
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.log_reader import LogReader
from tests.e2e.processes.run import Account, Policy, assert_audit_agrees
from tests.e2e.servers.eviction_webhook import EvictionWebhook
from tools.control_plane.api import Api

SHORT_INTERVAL = ("--descheduling-interval", "100ms", "--client-connection-qps", "-1")
MANY_CYCLES = 12
"""Cycles in which repeated requests would show."""


def restarts_policy(*workspaces: Workspace, limits: Args | None = None) -> Policy:
    """A policy that evicts running pods with too many restarts."""
    args = {"podRestartThreshold": 40, "states": ["Running"]}
    return policy(UPSTREAM, "RemovePodsHavingTooManyRestarts", args, *workspaces, top=limits)


def create_machine(workspace: Workspace, name: str, node: int = 0) -> Machine:
    """Creates a machine that the policy evicts."""
    machine = Machine(workspace, name, workspace.nodes[node])
    machine.report_restarts()
    return machine


def wait_for_cycles(run: LogReader, cycles: int = MANY_CYCLES) -> None:
    """Returns after so many more cycles."""
    run.wait_for_more("cycle done", cycles)


def assert_webhook_agrees(
    api: Api, account: Account, webhook: EvictionWebhook, *runs: LogReader
) -> None:
    """Asserts that the audit log, the webhook and the logs of the runs agree."""
    refused = [
        request
        for request in account.eviction_requests()
        if request["responseStatus"]["code"] == 429
    ]
    assert len(refused) == len(webhook.requests)
    assert {request.requested_by for request in webhook.requests} == {"sigs.k8s.io/descheduler"}
    assert_audit_agrees(api, account, *runs)
