"""A process that contends for a lease and prints a line whenever it would act.

    python -m tests.e2e.processes.lease_contender KUBECONFIG NAMESPACE IDENTITY

Times are those of the monotonic clock, which all processes share. The time of an `acts` is taken
before the lease is checked, so that a pause in between does not make it too late.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from resettle.clock import SYSTEM
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.leader_election.election import LeaderElector
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Client
from resettle.log import Log

NAME = "contended"
DURATION_SECONDS = 4.0
BETWEEN_ACTS_SECONDS = 0.01


def lease_settings(namespace: str) -> LeaseSettings:
    """Lease settings with times short enough for a test."""
    return LeaseSettings(
        duration_seconds=DURATION_SECONDS,
        renew_deadline_seconds=3,
        retry_period_seconds=0.5,
        name=NAME,
        namespace=namespace,
    )


async def contend(kubeconfig: str, namespace: str, identity: str) -> None:
    stop_requested = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop_requested.set)
    async with Client(read_kubeconfig(kubeconfig)) as client:
        lease = LeaderElector(
            client, lease_settings(namespace), identity, SYSTEM, Log.on(sys.stderr, SYSTEM)
        )
        await lease.acquire()
        renewal = asyncio.create_task(lease.keep())
        while not renewal.done() and not stop_requested.is_set():
            at = time.monotonic()
            if lease.is_held():
                print(f"acts {at:.6f}", flush=True)
            await asyncio.sleep(BETWEEN_ACTS_SECONDS)
        print("stops" if stop_requested.is_set() else "lost", flush=True)
        renewal.cancel()
        await lease.release()


if __name__ == "__main__":
    asyncio.run(contend(*sys.argv[1:]))
