"""What the suites about machines share: who should leave, and what must hold in the end."""

from __future__ import annotations

from tests.e2e.cluster.policies import UPSTREAM, Args, policy
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.log_reader import Diary
from tests.e2e.processes.run import Account, Policy, settled
from tests.e2e.servers.eviction_webhook import Interceptor
from tools.control_plane.api import Api

OFTEN = ("--descheduling-interval", "100ms", "--client-connection-qps", "-1")
MANY = 12
"""Cycles in which a storm would show."""


def restless(*rooms: Room, limits: Args | None = None) -> Policy:
    """A policy by which pods that restart too often leave, as long as they run."""
    args = {"podRestartThreshold": 40, "states": ["Running"]}
    return policy(UPSTREAM, "RemovePodsHavingTooManyRestarts", args, *rooms, top=limits)


def machine(room: Room, name: str, node: int = 0) -> Machine:
    """A machine that should leave its node."""
    made = Machine(room, name, room.nodes[node])
    made.restarts()
    return made


def goes_on(run: Diary, cycles: int = MANY) -> None:
    """Lets some cycles pass."""
    run.awaits_more("cycle done", cycles)


def agreed(api: Api, account: Account, webhook: Interceptor, *runs: Diary) -> None:
    """Holds what must hold in the end: the audit log says what the webhook and the runs say."""
    refused = [it for it in account.asked_to_evict() if it["responseStatus"]["code"] == 429]
    assert len(refused) == len(webhook.asked)
    assert {it.who for it in webhook.asked} == {"sigs.k8s.io/descheduler"}
    settled(api, account, *runs)
