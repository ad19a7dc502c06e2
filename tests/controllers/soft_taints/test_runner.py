"""Round after round: which nodes are tainted, what changes between rounds, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from resettle.controllers.soft_taints.reconcile import Mode
from resettle.errors import Forbidden, PolicyError
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.telemetry.routes import ALIVE, READY, run_checks
from resettle.testing import ApiServer, DeniedPermission, Fault
from tests.controllers.soft_taints.harness import INTERVAL, KEY, MARK, SOFT, full, policy, tainting

GPU = {"key": "gpu", "effect": "NoSchedule"}
LEASE = LeaseSettings(name="soft-tainter", namespace="kube-system")


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_node_is_tainted_while_it_is_too_full_and_no_longer() -> None:
    async def scenario() -> None:
        async with tainting([*full("hot", 90, GPU), *full("cool", 10)]) as stage:
            await stage.rounds(1)
            assert stage.taints("hot") == ["gpu:NoSchedule", MARK]
            assert stage.taints("cool") == []

            stage.fill("hot", 30)
            await stage.comes_to(lambda: stage.taints("hot") == ["gpu:NoSchedule"])

            lines = [*stage.log_lines("tainted"), *stage.log_lines("untainted")]
            assert lines == [
                f'INFO tainted node=hot set="{MARK}" reason="hot is at 90% cpu (target 50%)"',
                f'INFO untainted node=hot removed="{MARK}" reason="hot is at 30% cpu (target 50%)"',
            ]

    play(scenario())


def test_what_is_right_is_not_written_again() -> None:
    async def scenario() -> None:
        async with tainting([*full("hot", 90), *full("cool", 10)]) as stage:
            await stage.rounds(1)
            await stage.next_round()
            await stage.next_round()
            assert stage.patched == ["hot"]
            assert "marked=1 written=0" in stage.ends[-1]

    play(scenario())


def test_a_single_round_and_the_end_if_there_is_no_interval() -> None:
    async def scenario() -> None:
        async with tainting([*full("hot", 90)], interval=0) as stage:
            assert await stage.working == 0
            assert stage.marked == ["hot"]
            assert len(stage.ends) == 1

    play(scenario())


def test_more_levels_mean_more_taints() -> None:
    async def scenario() -> None:
        graded = policy(softTaints={"levels": 3, "prefix": "example.com"})
        async with tainting([*full("hot", 90), *full("warm", 55)], graded, interval=0) as stage:
            await stage.working
            assert [taint.partition(":")[0] for taint in stage.taints("hot")] == [
                "example.com/overutilized=level1",
                "example.com/overutilized-2=level2",
                "example.com/overutilized-3=level3",
            ]
            assert len(stage.taints("warm")) == 1
            assert stage.patched.count("hot") == 1

    play(scenario())


@pytest.mark.parametrize("version", ["descheduler/v1alpha2", "resettle/v1"])
def test_policies_of_the_descheduler_do_as_well(version: str) -> None:
    async def scenario() -> None:
        async with tainting([*full("hot", 90)], policy(version=version), interval=0) as stage:
            await stage.working
            assert stage.marked == ["hot"]

    play(scenario())


# -- what is ours to remove ----------------------------------------------------------------------


def test_a_node_that_leaves_the_selector_is_cleaned() -> None:
    async def scenario() -> None:
        selecting = policy(nodeSelector="pool=vm")
        worlds = [*full("hot", 90, labels={"pool": "vm"}), *full("other", 95, SOFT)]
        async with tainting(worlds, selecting) as stage:
            await stage.rounds(1)
            assert stage.marked == ["hot"]

            stage.server.store.merge("Node", "hot", {"metadata": {"labels": {"pool": None}}})
            await stage.comes_to(lambda: stage.marked == [])

    play(scenario())


def test_a_policy_that_balances_nothing_has_all_removed() -> None:
    async def scenario() -> None:
        async with tainting([*full("hot", 90)]) as stage:
            await stage.rounds(1)
            stage.write(policy(profiles=()))
            await stage.next_round()
            assert stage.taints("hot") == []

    play(scenario())


def test_taints_under_the_prefix_of_before_go_with_the_policy_that_had_it() -> None:
    async def scenario() -> None:
        async with tainting(
            [*full("hot", 90)], policy(softTaints={"prefix": "a.example"})
        ) as stage:
            await stage.rounds(1)
            stage.write(policy(softTaints={"prefix": "b.example"}))
            await stage.next_round()
            assert stage.taints("hot") == ["b.example/overutilized=level1:PreferNoSchedule"]

    play(scenario())


@pytest.mark.parametrize("with_policy", [True, False], ids=["with its policy", "without any"])
def test_remove_only_removes_ours_everywhere_and_nothing_else(with_policy: bool) -> None:
    openshift = {
        "key": "nodeutilization.descheduler.openshift.io/appropriate",
        "value": "true",
        "effect": "PreferNoSchedule",
    }
    hard = {"key": KEY, "value": "level1", "effect": "NoSchedule"}
    worlds = [*full("hot", 90, SOFT, GPU), *full("b", 10, openshift), *full("c", 10, hard)]

    async def scenario() -> None:
        removing = tainting(worlds, interval=0, with_policy=with_policy, mode=Mode.REMOVE_ONLY)
        async with removing as stage:
            assert await stage.working == 0
            assert stage.taints("hot") == ["gpu:NoSchedule"]
            assert stage.taints("b") == []
            assert stage.taints("c") == [f"{KEY}=level1:NoSchedule"]

    play(scenario())


def test_remove_only_knows_the_prefixes_it_is_given() -> None:
    async def scenario() -> None:
        ours = {"key": "a.example/overutilized", "value": "level1", "effect": "PreferNoSchedule"}
        async with tainting(
            full("hot", 90, ours),
            interval=0,
            with_policy=False,
            mode=Mode.REMOVE_ONLY,
            prefixes=("a.example",),
        ) as stage:
            await stage.working
            assert stage.taints("hot") == []

    play(scenario())


def test_a_dry_run_sets_nothing_removes_what_is_there_and_says_what_it_would_set() -> None:
    async def scenario() -> None:
        worlds = [*full("hot", 90), *full("hotter", 95, SOFT, GPU)]
        async with tainting(worlds, interval=0, mode=Mode.DRY_RUN) as stage:
            assert await stage.working == 0
            assert stage.marked == []
            assert stage.patched == ["hotter"]
            assert [line.split()[3] for line in stage.log_lines("would taint")] == [
                "node=hot",
                "node=hotter",
            ]

    play(scenario())


# -- doubt and failure ---------------------------------------------------------------------------


def test_a_node_that_is_not_ready_keeps_its_taints_and_stops_no_other() -> None:
    async def scenario() -> None:
        lost = full("lost", 10, SOFT)
        lost[0]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        async with tainting([*full("hot", 90), *lost]) as stage:
            await stage.rounds(1)
            assert stage.marked == ["hot", "lost"]
            assert stage.patched == ["hot"]
            (line,) = stage.log_lines("taints kept as they are")
            assert "nodes=lost reason=not-ready" in line

            await stage.next_round()
            assert len(stage.log_lines("taints kept as they are")) == 1, "logged once"
            assert "in_doubt=1" in stage.ends[-1]

    play(scenario())


def test_one_node_that_is_refused_stops_no_other_and_is_tried_again_soon() -> None:
    async def scenario() -> None:
        worlds = [*full("a", 90), *full("b", 90), *full("c", 90)]
        refusals = Fault(verbs=("patch",), path="*/b", status=500, times=2)
        server = ApiServer(worlds, faults=[refusals])
        async with tainting([], server=server) as stage:
            await stage.rounds(1)
            assert stage.marked == ["a", "c"]
            (line,) = stage.log_lines("not tainted")
            assert line.startswith("WARNING not tainted node=b reason=")
            assert "failed=1" in stage.ends[-1]

            await stage.next_round(after=1.0)
            assert stage.marked == ["a", "c"]
            await stage.next_round(after=2.0)
            assert stage.marked == ["a", "b", "c"]

    play(scenario())


def test_a_round_that_keeps_failing_is_tried_less_and_less_often() -> None:
    async def scenario() -> None:
        async with tainting(full("hot", 90)) as stage:
            stage.server.faults.add(Fault(verbs=("patch",), status=500, times=99))
            await stage.rounds(1)
            for pause in (1, 2, 4, 8, 16, INTERVAL, INTERVAL):
                before = len(stage.ends)
                stage.clock.advance(timedelta(seconds=pause - 0.01))
                await asyncio.sleep(0.02)
                assert len(stage.ends) == before
                await stage.next_round(after=0.01)

    play(scenario())


def test_a_single_round_that_failed_is_an_exit_code() -> None:
    async def scenario() -> None:
        banned = [Fault(verbs=("patch",), status=500, times=9)]
        server = ApiServer(full("hot", 90), faults=banned)
        async with tainting([], server=server, interval=0) as stage:
            assert await stage.working == 1

    play(scenario())


def test_a_missing_permission_is_reported_before_anything_is_done() -> None:
    async def scenario() -> None:
        server = ApiServer(
            full("hot", 90), denied=[DeniedPermission(verb="patch", resource="nodes")]
        )
        async with tainting([], server=server) as stage:
            with pytest.raises(Forbidden, match="may not patch nodes"):
                await stage.working
            assert stage.ends == []

    play(scenario())


# -- policies ------------------------------------------------------------------------------------


def test_a_policy_that_turns_bad_changes_nothing() -> None:
    async def scenario() -> None:
        async with tainting(full("hot", 90)) as stage:
            await stage.rounds(1)
            stage.write("apiVersion: nonsense")
            await stage.next_round()
            assert len(stage.log_lines("policy not loaded")) == 1
            assert stage.marked == ["hot"]

    play(scenario())


def test_thresholds_of_two_profiles_are_one_too_many() -> None:
    async def scenario() -> None:
        two = policy(profiles=("relieve", "other"))
        async with tainting(full("hot", 90), two) as stage:
            with pytest.raises(PolicyError, match=r"name it as `softTaints\.profile`"):
                await stage.working

    play(scenario())


def test_of_two_profiles_one_can_be_named() -> None:
    async def scenario() -> None:
        two = policy(profiles=("relieve", "other"), softTaints={"profile": "other"})
        async with tainting(full("hot", 90), two, interval=0) as stage:
            assert await stage.working == 0
            assert stage.marked == ["hot"]

    play(scenario())


def test_pods_are_read_only_where_they_count() -> None:
    async def scenario() -> None:
        async with tainting(full("hot", 90), policy(profiles=())) as stage:
            await stage.rounds(1)
            assert "/api/v1/pods" not in {request.path for request in stage.server.requests}

            stage.write(policy())
            await stage.next_round()
            assert "/api/v1/pods" in {request.path for request in stage.server.requests}
            assert stage.marked == ["hot"]

    play(scenario())


# -- how it is doing -----------------------------------------------------------------------------


def test_it_is_ready_once_it_knows_the_nodes_and_alive_all_along() -> None:
    async def scenario() -> None:
        slow = Fault(verbs=("list",), path="/api/v1/nodes", delay_seconds=9)
        server = ApiServer(full("hot", 90), faults=[slow])
        async with tainting([], server=server) as stage:
            await stage.until(lambda: bool(stage.log_lines("starting")))
            assert run_checks("readyz", READY, stage.runner.status())[0] is False
            assert run_checks("livez", ALIVE, stage.runner.status())[0] is True

        async with tainting(full("hot", 90)) as stage:
            await stage.rounds(1)
            assert run_checks("readyz", READY, stage.runner.status()) == (True, "ok")

            stage.runner.stop()
            assert "shutdown" in run_checks("readyz", READY, stage.runner.status())[1]

    play(scenario())


# -- the lease -----------------------------------------------------------------------------------


def test_nothing_is_done_while_another_holds_the_lease() -> None:
    held = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE.name, "namespace": LEASE.namespace},
        "spec": {
            "holderIdentity": "another",
            "leaseDurationSeconds": 137,
            "renewTime": "2026-01-31T11:59:00.000000Z",
            "acquireTime": "2026-01-31T11:59:00.000000Z",
            "leaseTransitions": 0,
        },
    }

    async def scenario() -> None:
        async with tainting([*full("hot", 90), held], lease=LEASE) as stage:
            await stage.until(lambda: bool(stage.log_lines("waiting for the lease")))
            assert stage.patched == []

    play(scenario())


def test_the_lease_is_taken_even_for_a_dry_run_since_that_removes() -> None:
    async def scenario() -> None:
        async with tainting(full("hot", 90, SOFT), lease=LEASE, mode=Mode.DRY_RUN) as stage:
            await stage.rounds(1)
            assert stage.log_lines("lease acquired")
            assert stage.marked == []

    play(scenario())
