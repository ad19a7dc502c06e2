from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import LeaseLost
from resettle.kube.leader_election.election import new_identity
from resettle.testing import Fault
from tests.kube.leader_election.harness import (
    DEADLINE,
    DURATION,
    RETRY,
    THEIRS,
    arena,
    happens,
    run_with_timeout,
)


def test_identities_begin_with_the_host_and_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")

    first, second = new_identity(), new_identity()

    assert first.startswith("node-7_")
    assert first != second


# -- holding -------------------------------------------------------------------------------------


def test_the_first_to_ask_makes_the_lease() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            assert not a.lease.is_held()
            await a.lease.acquire()

            assert a.lease.is_held()
            assert election.spec == {
                "holderIdentity": "a",
                "leaseDurationSeconds": 137,
                "acquireTime": "2026-01-31T12:00:00.000000Z",
                "renewTime": "2026-01-31T12:00:00.000000Z",
                "leaseTransitions": 0,
            }
            assert a.log_lines == ["INFO lease acquired lease=kube-system/descheduler identity=a"]

    run_with_timeout(run_scenario())


def test_a_holder_renews_every_retry_period_and_keeps_what_others_wrote() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            labels = {"metadata": {"labels": {"team": "a"}}}
            election.server.store.merge("Lease", "descheduler", labels, "kube-system")
            keeping = asyncio.create_task(a.lease.keep())

            await election.passes(3 * RETRY, sleepers=1)

            assert a.lease.is_held()
            assert election.spec["acquireTime"] == "2026-01-31T12:00:00.000000Z"
            assert election.spec["renewTime"] == "2026-01-31T12:01:18.000000Z"
            assert election.spec["leaseTransitions"] == 0
            assert election.stored["metadata"]["labels"] == {"team": "a"}
            keeping.cancel()

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("passed", "held"),
    [
        pytest.param(0, True, id="at once"),
        pytest.param(DEADLINE - 0.001, True, id="just within the deadline"),
        pytest.param(DEADLINE, False, id="exactly at the deadline it is over"),
        pytest.param(10 * DURATION, False, id="after a long stop"),
    ],
)
def test_a_lease_is_held_until_the_renew_deadline_and_no_longer(passed: float, held: bool) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()

            election.wind(passed)

            # Nothing is awaited here: a process that was stopped knows it with its next breath.
            assert a.lease.is_held() == held
            if not held:
                with pytest.raises(LeaseLost, match="kube-system/descheduler is no longer ours"):
                    a.lease.raise_unless_held()
            else:
                a.lease.raise_unless_held()

    run_with_timeout(run_scenario())


def test_no_contender_acts_before_the_lease_was_ever_held() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            with pytest.raises(LeaseLost):
                a.lease.raise_unless_held()

    run_with_timeout(run_scenario())


def test_time_counts_from_before_the_request_left() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            await election.clock.wait_for_sleepers()
            a.line.meets = a.machine.stop
            election.wind(RETRY)
            await happens(lambda: a.machine.waiting > 0)
            election.wind(50)
            a.line.meets = lambda: None
            a.machine.resume()
            await election.clock.wait_for_sleepers()

            election.wind(DEADLINE - 50 - 0.001)
            assert a.lease.is_held()
            election.wind(0.001)
            assert not a.lease.is_held()
            await keeping

    run_with_timeout(run_scenario())


def test_a_renewal_that_comes_back_after_the_deadline_is_none() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            await election.clock.wait_for_sleepers()
            a.line.meets = a.machine.stop
            election.wind(RETRY)
            await happens(lambda: a.machine.waiting > 0)
            election.wind(DEADLINE - RETRY)
            a.line.meets = lambda: None
            a.machine.resume()

            # It was renewed on the server; but meanwhile we said no, and we stand by it.
            await keeping
            assert election.spec["renewTime"] == "2026-01-31T12:00:26.000000Z"
            assert not a.lease.is_held()

    run_with_timeout(run_scenario())


def test_a_paused_holder_gives_up_when_it_resumes_without_a_request() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            await election.clock.wait_for_sleepers()
            asked = len(election.server.requests)

            election.wind(DURATION)
            await keeping

            assert not a.lease.is_held()
            assert len(election.server.requests) == asked
            assert a.log_lines[-1] == (
                'ERROR lease lost lease=kube-system/descheduler reason="it was not renewed in time"'
            )

    run_with_timeout(run_scenario())


# -- two contenders ------------------------------------------------------------------------------


def test_a_second_contender_takes_over_when_the_first_gives_no_sign_of_life() -> None:
    async def run_scenario() -> None:
        async with (
            arena() as election,
            election.contender("a") as a,
            election.contender("b", booted=9e6) as b,
        ):
            await a.lease.acquire()
            acquiring = asyncio.create_task(b.lease.acquire())

            assert await election.passes_until(acquiring) == 6 * RETRY  # the first try after 137 s

            assert (a.lease.is_held(), b.lease.is_held()) == (False, True)
            assert election.spec["holderIdentity"] == "b"
            assert election.spec["acquireTime"] == "2026-01-31T12:02:36.000000Z"
            assert election.spec["leaseTransitions"] == 1
            assert b.log_lines == [
                "INFO waiting for the lease lease=kube-system/descheduler holder=a",
                "INFO lease acquired lease=kube-system/descheduler identity=b",
            ]

    run_with_timeout(run_scenario())


def test_a_second_contender_waits_as_long_as_the_first_renews() -> None:
    async def run_scenario() -> None:
        async with (
            arena() as election,
            election.contender("a") as a,
            election.contender("b", jitter=0.5) as b,
        ):
            await a.lease.acquire()
            keeping = asyncio.create_task(a.lease.keep())
            acquiring = asyncio.create_task(b.lease.acquire())

            await election.passes(5 * DURATION, sleepers=2)

            assert (a.lease.is_held(), b.lease.is_held()) == (True, False)
            keeping.cancel()
            acquiring.cancel()

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("jitter", "pause"),
    [
        pytest.param(0, RETRY, id="at the earliest"),
        pytest.param(1, 2.2 * RETRY, id="at the latest"),
    ],
)
def test_who_waits_asks_again_after_a_time_left_to_chance(jitter: float, pause: float) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("b", jitter=jitter) as b:
            election.server.store.put(THEIRS)
            acquiring = asyncio.create_task(b.lease.acquire())
            await election.clock.wait_for_sleepers()

            election.wind(pause - 0.001)
            assert election.clock.sleepers == 1
            election.wind(0.001)
            assert election.clock.sleepers == 0
            acquiring.cancel()

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        pytest.param(THEIRS["spec"], 156, id="whatever its own clock says"),
        pytest.param(
            {**THEIRS["spec"], "renewTime": "2099-01-01T00:00:00.000000Z"},
            156,
            id="also in the future",
        ),
        pytest.param(
            {**THEIRS["spec"], "leaseDurationSeconds": 15}, 26, id="shorter if it says so"
        ),
        pytest.param({**THEIRS["spec"], "leaseDurationSeconds": 300}, 312, id="longer if it asks"),
        pytest.param({"holderIdentity": "them"}, 156, id="ours if it does not say"),
        pytest.param(
            {"holderIdentity": "them", "leaseDurationSeconds": "x", "leaseTransitions": -1},
            156,
            id="or makes no sense",
        ),
        pytest.param({"holderIdentity": 5}, 156, id="for a holder that cannot be read, too"),
        pytest.param({"holderIdentity": ""}, 0, id="not at all without a holder"),
        pytest.param({}, 0, id="nor for an empty lease"),
        pytest.param("?", 0, id="nor for one that is no lease inside"),
    ],
)
def test_how_long_a_lease_that_never_changes_is_waited_for(spec: Any, waits: float) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("b") as b:
            election.server.store.put({**THEIRS, "spec": spec})

            assert await election.passes_until(asyncio.create_task(b.lease.acquire())) == waits

            assert election.spec["holderIdentity"] == "b"
            assert election.spec["leaseDurationSeconds"] == 137
            assert election.spec["renewTime"].startswith("2026-01-31T12:")
            was = spec.get("leaseTransitions", 0) if isinstance(spec, dict) else 0
            assert election.spec["leaseTransitions"] == max(was, 0) + 1

    run_with_timeout(run_scenario())


def test_a_renewal_is_seen_even_if_the_wall_clock_stood_still() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            version = election.stored["metadata"]["resourceVersion"]
            keeping = asyncio.create_task(a.lease.keep())
            await election.clock.wait_for_sleepers()
            a.machine.set_by -= timedelta(seconds=RETRY)

            election.wind(RETRY)
            await election.clock.wait_for_sleepers()

            assert election.stored["metadata"]["resourceVersion"] != version
            assert election.spec["renewTime"] == "2026-01-31T12:00:00.000001Z"
            keeping.cancel()

    run_with_timeout(run_scenario())


# -- handing over --------------------------------------------------------------------------------


def test_a_released_lease_is_free_at_once() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a, election.contender("b") as b:
            await a.lease.acquire()
            acquiring = asyncio.create_task(b.lease.acquire())
            await election.clock.wait_for_sleepers()

            await a.lease.release()
            assert not a.lease.is_held()
            assert (election.spec["holderIdentity"], election.spec["leaseDurationSeconds"]) == (
                "",
                1,
            )

            assert await election.passes_until(acquiring) == RETRY
            assert (election.spec["holderIdentity"], election.spec["leaseTransitions"]) == ("b", 1)
            assert a.log_lines[-1] == "INFO lease released lease=kube-system/descheduler"

    run_with_timeout(run_scenario())


def test_a_lease_of_another_is_not_released() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a, election.contender("b") as b:
            await a.lease.acquire()
            await election.passes_until(asyncio.create_task(b.lease.acquire()))

            await a.lease.release()

            assert election.spec["holderIdentity"] == "b"
            assert "released" not in " ".join(a.log_lines)

    run_with_timeout(run_scenario())


def test_a_process_that_never_held_the_lease_sends_no_release() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.release()

            assert election.server.requests == []

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("fault", "released"),
    [
        pytest.param(Fault(verbs=("update",), status=409), True, id="tried again after a conflict"),
        pytest.param(Fault(verbs=("update",), status=500, times=9), False, id="given up at last"),
        pytest.param(Fault(verbs=("get",), status=403, times=9), False, id="forbidden"),
    ],
)
def test_a_release_that_fails_is_logged_and_delays_nothing(fault: Fault, released: bool) -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.server.faults.add(fault)

            await a.lease.release()

            assert not a.lease.is_held()
            assert election.spec["holderIdentity"] == ("" if released else "a")
            unreleased = "WARNING lease not released lease=kube-system/descheduler others_wait=137"
            assert (a.log_lines[-1] == unreleased) == (not released)

    run_with_timeout(run_scenario())


def test_a_lease_can_be_acquired_again_after_it_was_lost() -> None:
    async def run_scenario() -> None:
        async with arena() as election, election.contender("a") as a:
            await a.lease.acquire()
            election.wind(DEADLINE)
            assert not a.lease.is_held()

            await a.lease.acquire()

            assert a.lease.is_held()
            assert election.spec["leaseTransitions"] == 0

    run_with_timeout(run_scenario())
