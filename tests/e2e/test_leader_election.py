"""Leader election between real processes, with a real API server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from resettle.clock import SYSTEM
from resettle.errors import ClusterError
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.leader_election.election import LeaderElector
from resettle.kube.transport.client import Client
from resettle.log import QUIET
from tests import ROOT
from tests.e2e.cluster.workspace import eventually
from tests.e2e.processes.lease_contender import NAME, lease_settings
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access


class Contender:
    """A contender process, and what it has printed so far."""

    def __init__(self, identity: str, process: subprocess.Popen[bytes], file: Path) -> None:
        self.identity = identity
        self.process = process
        self._file = file

    @property
    def lines(self) -> list[str]:
        return self._file.read_text().splitlines()

    @property
    def acts(self) -> list[float]:
        """The times at which it was the holder."""
        return [float(line.split()[1]) for line in self.lines if line.startswith("acts")]


class ContendedLease:
    """A namespace with a lease, and the processes that contend for it."""

    def __init__(self, plane: Access, api: Api, folder: Path, stack: ExitStack) -> None:
        self.kubeconfig = str(plane.papers.kubeconfig(ADMIN))
        self.namespace = f"lease-{os.getpid()}-{folder.name.replace('_', '-')}"[:60].strip("-")
        self._api = api
        self._folder = folder
        self._stack = stack

    @property
    def path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{NAME}"

    @property
    def spec(self) -> Object:
        """The spec of the lease."""
        spec: Object = self._api.get(self.path).granted()["spec"]
        return spec

    def start_contender(self, identity: str) -> Contender:
        """Starts a contender with this identity, killed at the end of the test."""
        return self._stack.enter_context(self._run_contender(identity))

    @contextmanager
    def _run_contender(self, identity: str) -> Iterator[Contender]:
        file = self._folder / identity
        command = [sys.executable, "-m", "tests.e2e.processes.lease_contender"]
        with file.open("wb") as out:
            process = subprocess.Popen(
                [*command, self.kubeconfig, self.namespace, identity], stdout=out, cwd=ROOT
            )
        try:
            yield Contender(identity, process, file)
        finally:
            process.kill()
            process.wait(30)


@pytest.fixture
def lease(plane: Access, api: Api, tmp_path: Path) -> Iterator[ContendedLease]:
    with ExitStack() as stack:
        created = ContendedLease(plane, api, tmp_path, stack)
        api.post("/api/v1/namespaces", {"metadata": {"name": created.namespace}}).granted()
        yield created
        stack.close()
        api.delete(f"/api/v1/namespaces/{created.namespace}")


def test_a_holder_stopped_past_its_lease_never_acts_beside_its_successor(
    lease: ContendedLease,
) -> None:
    first = lease.start_contender("first")
    eventually("the first to act", lambda: first.acts)
    second = lease.start_contender("second")

    first.process.send_signal(signal.SIGSTOP)
    eventually("the second to act", lambda: second.acts)
    first.process.send_signal(signal.SIGCONT)

    eventually("the first to end", lambda: first.process.poll() is not None)
    assert first.lines[-1] == "lost"
    assert max(first.acts) < min(second.acts)
    assert (lease.spec["holderIdentity"], lease.spec["leaseTransitions"]) == ("second", 1)


def test_a_holder_that_stops_releases_the_lease_at_once(lease: ContendedLease) -> None:
    first = lease.start_contender("first")
    eventually("the first to act", lambda: first.acts)
    second = lease.start_contender("second")

    first.process.send_signal(signal.SIGTERM)
    eventually("the first to end", lambda: first.process.poll() == 0)
    eventually("the second to act", lambda: second.acts)

    assert first.lines[-1] == "stops"
    assert max(first.acts) < min(second.acts)
    # Sooner than the four seconds after which the lease of a silent holder expires; only the first
    # can have released it.
    assert lease.spec["leaseTransitions"] == 1
    assert second.process.poll() is None


def test_the_last_holder_leaves_a_lease_without_holder(lease: ContendedLease) -> None:
    only = lease.start_contender("only")
    eventually("it to act", lambda: only.acts)

    only.process.send_signal(signal.SIGTERM)
    eventually("it to end", lambda: only.process.poll() == 0)

    assert lease.spec["holderIdentity"] == ""
    assert lease.spec["leaseDurationSeconds"] == 1


def test_a_lease_that_is_deleted_is_created_again_by_its_holder(
    lease: ContendedLease, api: Api
) -> None:
    holder = lease.start_contender("holder")
    eventually("it to act", lambda: holder.acts)
    uid = api.get(lease.path).granted()["metadata"]["uid"]

    api.delete(lease.path)
    eventually("another lease", lambda: api.get(lease.path).fine)

    assert api.get(lease.path).granted()["metadata"]["uid"] != uid
    assert lease.spec["holderIdentity"] == "holder"
    assert holder.process.poll() is None


def test_a_missing_namespace_is_named(lease: ContendedLease) -> None:
    async def acquire() -> None:
        async with Client(read_kubeconfig(lease.kubeconfig)) as client:
            await LeaderElector(
                client, lease_settings("no-such-namespace"), "a", SYSTEM, QUIET
            ).acquire()

    with pytest.raises(ClusterError, match="there is no namespace no-such-namespace"):
        asyncio.run(asyncio.wait_for(acquire(), 30))
