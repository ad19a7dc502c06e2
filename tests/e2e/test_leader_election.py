"""Leader election as real processes do it, before a real API server."""

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
from tests.e2e.processes.lease_contender import NAME, timed
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access


class Process:
    """A contender, and what it has written so far."""

    def __init__(self, identity: str, running: subprocess.Popen[bytes], file: Path) -> None:
        self.identity = identity
        self.running = running
        self._file = file

    @property
    def lines(self) -> list[str]:
        return self._file.read_text().splitlines()

    @property
    def acts(self) -> list[float]:
        """When it took itself for the holder."""
        return [float(line.split()[1]) for line in self.lines if line.startswith("acts")]


class Ring:
    """Where contenders meet: a namespace with a lease in it."""

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
        """What the lease says."""
        found: Object = self._api.get(self.path).granted()["spec"]
        return found

    def starts(self, identity: str) -> Process:
        """A contender of that name, ended with the test."""
        return self._stack.enter_context(self._started(identity))

    @contextmanager
    def _started(self, identity: str) -> Iterator[Process]:
        file = self._folder / identity
        command = [sys.executable, "-m", "tests.e2e.processes.lease_contender"]
        with file.open("wb") as out:
            running = subprocess.Popen(
                [*command, self.kubeconfig, self.namespace, identity], stdout=out, cwd=ROOT
            )
        try:
            yield Process(identity, running, file)
        finally:
            running.kill()
            running.wait(30)


@pytest.fixture
def ring(plane: Access, api: Api, tmp_path: Path) -> Iterator[Ring]:
    with ExitStack() as stack:
        made = Ring(plane, api, tmp_path, stack)
        api.post("/api/v1/namespaces", {"metadata": {"name": made.namespace}}).granted()
        yield made
        stack.close()
        api.delete(f"/api/v1/namespaces/{made.namespace}")


def test_a_holder_stopped_past_its_lease_never_acts_beside_its_successor(ring: Ring) -> None:
    first = ring.starts("first")
    eventually("the first to act", lambda: first.acts)
    second = ring.starts("second")

    first.running.send_signal(signal.SIGSTOP)
    eventually("the second to act", lambda: second.acts)
    first.running.send_signal(signal.SIGCONT)

    eventually("the first to end", lambda: first.running.poll() is not None)
    assert first.lines[-1] == "lost"
    assert max(first.acts) < min(second.acts)
    assert (ring.spec["holderIdentity"], ring.spec["leaseTransitions"]) == ("second", 1)


def test_a_holder_that_is_told_to_stop_hands_over_at_once(ring: Ring) -> None:
    first = ring.starts("first")
    eventually("the first to act", lambda: first.acts)
    second = ring.starts("second")

    first.running.send_signal(signal.SIGTERM)
    eventually("the first to end", lambda: first.running.poll() == 0)
    eventually("the second to act", lambda: second.acts)

    assert first.lines[-1] == "stops"
    assert max(first.acts) < min(second.acts)
    # Sooner than the four seconds that a holder is waited for who says nothing; and nobody but
    # the first can have made the lease free.
    assert ring.spec["leaseTransitions"] == 1
    assert second.running.poll() is None


def test_the_last_one_leaves_the_lease_to_nobody(ring: Ring) -> None:
    only = ring.starts("only")
    eventually("it to act", lambda: only.acts)

    only.running.send_signal(signal.SIGTERM)
    eventually("it to end", lambda: only.running.poll() == 0)

    assert ring.spec["holderIdentity"] == ""
    assert ring.spec["leaseDurationSeconds"] == 1


def test_a_lease_that_is_deleted_is_made_anew_by_its_holder(ring: Ring, api: Api) -> None:
    holder = ring.starts("holder")
    eventually("it to act", lambda: holder.acts)
    uid = api.get(ring.path).granted()["metadata"]["uid"]

    api.delete(ring.path)
    eventually("another lease", lambda: api.get(ring.path).fine)

    assert api.get(ring.path).granted()["metadata"]["uid"] != uid
    assert ring.spec["holderIdentity"] == "holder"
    assert holder.running.poll() is None


def test_a_namespace_that_is_not_there_is_named(ring: Ring) -> None:
    async def told() -> None:
        async with Client(read_kubeconfig(ring.kubeconfig)) as client:
            await LeaderElector(client, timed("nowhere-at-all"), "a", SYSTEM, QUIET).acquire()

    with pytest.raises(ClusterError, match="there is no namespace nowhere-at-all"):
        asyncio.run(asyncio.wait_for(told(), 30))
