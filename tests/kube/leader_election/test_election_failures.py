"""A lease among failing servers, lost answers, meddlers and missing rights."""

from __future__ import annotations

import asyncio

import pytest

from resettle.errors import ClusterError, Forbidden, Unauthorized
from resettle.kube.auth.access import Access
from resettle.kube.leader_election.election import LeaderElector
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Client
from resettle.log import QUIET
from resettle.testing import ApiServer, DeniedPermission, Fault, ManualClock
from tests.kube.leader_election.harness import (
    DEADLINE,
    LEASES,
    RETRY,
    SETTINGS,
    THEIRS,
    a_lease,
    arena,
    happens,
    run_with_timeout,
)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(status=500)], id="a failing server"),
        pytest.param([Fault(hang_up=True, times=4)], id="one that hangs up"),
        pytest.param([Fault(verbs=("update",), status=409)], id="a conflict about nothing"),
        pytest.param([Fault(verbs=("update",), status=403)], id="a right that is there no more"),
        pytest.param([Fault(verbs=("update",), status=401)], id="a token that is unknown for once"),
        pytest.param([Fault(status=503, times=3)], id="a server that starts, three times over"),
    ],
)
def test_a_holder_lives_through_passing_trouble(faults: list[Fault]) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            await election.passes(RETRY)
            election.server.faults.add(*faults)

            await election.passes(3 * RETRY)

            assert election.server.faults.pending == 0
            assert a.lease.is_held()
            assert not keeping.done()
            keeping.cancel()

    run_with_timeout(run_scenario())


def test_credentials_that_were_known_a_moment_ago_are_tried_again() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.server.faults.add(Fault(status=401, times=2))
            keeping = asyncio.create_task(a.lease.keep())

            await election.passes(2 * RETRY)

            assert a.lease.is_held()
            assert election.spec["renewTime"] == "2026-01-31T12:00:52.000000Z"
            assert "does not accept the credentials" in " ".join(a.log_lines)
            keeping.cancel()

    run_with_timeout(run_scenario())


def test_a_holder_who_may_not_renew_ends_with_an_error() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.server.denied.append(DeniedPermission(verb="update", resource="leases"))

            with pytest.raises(Forbidden, match="may not update leases"):
                await election.passes_until(asyncio.create_task(a.lease.keep()))

    run_with_timeout(run_scenario())


def test_a_holder_whose_answers_get_lost_finds_that_it_has_renewed() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            a.line.loses = 1

            await election.passes(3 * RETRY)

            assert a.lease.is_held()
            assert election.spec["renewTime"] == "2026-01-31T12:01:18.000000Z"
            assert 'reason="the answer was lost on purpose"' in " ".join(a.log_lines)
            keeping.cancel()

    run_with_timeout(run_scenario())


def test_a_holder_gives_up_when_nothing_gets_through_until_the_deadline() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.server.faults.add(Fault(status=500, times=1000))

            assert await election.passes_until(asyncio.create_task(a.lease.keep())) == DEADLINE

            assert not a.lease.is_held()
            troubles = [line for line in a.log_lines if "lease trouble" in line]
            assert len(troubles) == 2  # one for writing and one for reading, not one a try
            assert "answered 500" in troubles[0]

    run_with_timeout(run_scenario())


def test_a_holder_gives_up_at_once_when_another_has_the_lease() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.server.store.put(THEIRS)

            assert await election.passes_until(asyncio.create_task(a.lease.keep())) == RETRY

            assert not a.lease.is_held()
            assert a.log_lines[-1] == (
                'ERROR lease lost lease=kube-system/descheduler reason="them has taken it"'
            )

    run_with_timeout(run_scenario())


def test_a_holder_whose_lease_was_deleted_creates_it_again() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            await election.clock.wait_for_sleepers()
            election.server.store.delete("Lease", "descheduler", "kube-system")

            await election.passes(RETRY)

            assert a.lease.is_held()
            assert election.spec["holderIdentity"] == "a"
            keeping.cancel()

    run_with_timeout(run_scenario())


def test_who_saw_a_lease_before_it_was_deleted_does_not_trust_the_silence() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a, election.contender("b") as b:
            await a.lease.acquire()
            acquiring = asyncio.create_task(b.lease.acquire())
            await election.clock.wait_for_sleepers()
            election.server.store.delete("Lease", "descheduler", "kube-system")

            await election.passes(DEADLINE - 1)
            assert (a.lease.is_held(), b.lease.is_held()) == (True, False)
            await election.passes_until(acquiring)

            assert (a.lease.is_held(), b.lease.is_held()) == (False, True)
            assert election.clock.steady() == 6 * RETRY

    run_with_timeout(run_scenario())


def test_of_two_who_make_the_lease_at_the_same_time_one_has_it() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a, election.contender("b") as b:
            tasks = [asyncio.create_task(each.lease.acquire()) for each in (a, b)]
            await happens(
                lambda: election.clock.sleepers == 1 and any(task.done() for task in tasks)
            )

            assert sorted([a.lease.is_held(), b.lease.is_held()]) == [False, True]
            assert election.spec["holderIdentity"] == ("a" if a.lease.is_held() else "b")
            for task in tasks:
                task.cancel()

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("verb", "there"),
    [
        pytest.param("get", True, id="reading"),
        pytest.param("create", False, id="creating"),
        pytest.param("update", True, id="updating"),
    ],
)
def test_a_right_that_was_never_granted_is_an_error_at_once(verb: str, there: bool) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            if there:
                election.server.store.put(a_lease(holderIdentity=""))
            election.server.denied.append(DeniedPermission(verb=verb, resource="leases"))

            with pytest.raises(Forbidden) as met:
                await a.lease.acquire()

            assert f"may not {verb} leases of coordination.k8s.io" in str(met.value)
            assert "in namespace kube-system" in str(met.value)
            rule = 'apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["'
            assert f'{rule}{verb}"]' in str(met.value)
            assert not a.lease.is_held()

    run_with_timeout(run_scenario())


def test_unknown_credentials_are_an_error_at_once() -> None:
    async def run_scenario() -> None:
        async with (
            ApiServer(token="right") as server,
            Client(Access(server=server.url, token="wrong")) as client,
        ):
            with pytest.raises(Unauthorized, match="does not accept the credentials"):
                await LeaderElector(client, SETTINGS, "a", ManualClock(), QUIET).acquire()

    run_with_timeout(run_scenario())


def test_a_namespace_that_is_not_there_is_an_error_that_names_it() -> None:
    async def run_scenario() -> None:
        async with ApiServer() as server, Client(Access(server=server.url)) as client:
            settings = LeaseSettings(namespace="nowhere")

            with pytest.raises(ClusterError, match="there is no namespace nowhere"):
                await LeaderElector(client, settings, "a", ManualClock(), QUIET).acquire()

    run_with_timeout(run_scenario())


def test_who_waits_outlasts_a_server_that_cannot_be_reached() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            election.server.faults.add(Fault(path=f"{LEASES}*", status=500, times=3))

            assert await election.passes_until(asyncio.create_task(a.lease.acquire())) > RETRY

            assert a.lease.is_held()
            assert [line.split()[0] for line in a.log_lines] == ["WARNING", "INFO"]

    run_with_timeout(run_scenario())


def test_what_is_no_lease_is_no_answer() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            election.server.faults.add(Fault(verbs=("get",), status=200, message="welcome"))

            assert await election.passes_until(asyncio.create_task(a.lease.acquire())) == RETRY

            assert "sent something that is no lease" in a.log_lines[0]

    run_with_timeout(run_scenario())
