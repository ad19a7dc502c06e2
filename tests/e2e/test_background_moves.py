"""Pods that move in the background: their eviction is requested once while they move.

The webhook and the migration of machines are simulated by the test, everything else is real. The
webhook counts how often an eviction was requested, and the API server's audit log must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.virtual_machine_moves import (
    SHORT_INTERVAL,
    assert_webhook_agrees,
    create_machine,
    restarts_policy,
    wait_for_cycles,
)
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.in_process_run import InProcessRun
from tests.e2e.processes.run import Account
from tests.e2e.servers.eviction_webhook import EvictionWebhook
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOTAL = "maxNoOfPodsToEvictTotal"
OFF = "--feature-gates=EvictionsInBackground=false"


@pytest.fixture
def webhook(plane: Access, workspace: Workspace, tmp_path: Path) -> Iterator[EvictionWebhook]:
    with EvictionWebhook(plane, tmp_path, workspace) as created:
        yield created


def test_the_eviction_of_a_machine_is_requested_once_however_long_it_takes(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    done, taken_away = (
        create_machine(workspace, "done"),
        create_machine(workspace, "taken-away", node=1),
    )
    unmarked = create_machine(workspace, "unmarked", node=2)

    with account.run(restarts_policy(workspace), *SHORT_INTERVAL) as run:
        run.wait_for("moving in background", 3)
        wait_for_cycles(run)
        unmarked.complete_migration()
        run.wait_for("moved in background")
        done.begin_migration()
        taken_away.begin_migration()
        wait_for_cycles(run)
        done.complete_migration()
        taken_away.delete()
        run.wait_for("moved in background", 3)
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text

    assert [webhook.request_count(machine.uid) for machine in (done, taken_away, unmarked)] == [
        1,
        1,
        1,
    ]
    assert not run.lines_of("not moved in background")
    assert account.evictions() == []
    assert_webhook_agrees(api, account, webhook, run)


def test_without_the_gate_the_eviction_is_requested_in_every_cycle(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    """The comparison for the other tests here: without it they prove nothing."""
    requested_often = create_machine(workspace, "requested-often")
    requested_often.begin_migration()

    with account.run(restarts_policy(workspace), *SHORT_INTERVAL, OFF) as run:
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text

    times, cycles = webhook.request_count(requested_often.uid), len(run.lines_of("cycle done"))
    assert times == len(run.lines_of("refused by webhook"))
    assert times in (cycles - 1, cycles), (
        "one for each cycle, except perhaps the one that was stopped"
    )
    assert not run.lines_of("moving in background")
    assert_webhook_agrees(api, account, webhook, run)


def test_a_migration_that_fails_is_requested_again(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    failing = create_machine(workspace, "fails-three-times")

    with account.run(restarts_policy(workspace), *SHORT_INTERVAL) as run:
        for attempt in (1, 2, 3):
            run.wait_for("moving in background", attempt)
            failing.begin_migration()
            wait_for_cycles(run)
            assert webhook.request_count(failing.uid) == attempt
            failing.cancel_migration()
            run.wait_for("not moved in background", attempt)
        run.wait_for("moving in background", 4)
        wait_for_cycles(run)
        failing.begin_migration()
        failing.complete_migration()
        run.wait_for("moved in background")
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text

    assert webhook.request_count(failing.uid) == 4
    assert_webhook_agrees(api, account, webhook, run)


def test_a_machine_without_the_annotation_is_evicted_like_any_other_pod(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    not_on_request = create_machine(workspace, "not-on-request")

    with account.run(restarts_policy(workspace), *SHORT_INTERVAL) as run:
        run.wait_for("moving in background")
        not_on_request.remove_on_request()
        run.wait_for("evicted")
        assert run.stop() == 0, run.log_text

    assert run.lines_of("not moved in background")[0]["uid"] == not_on_request.uid
    assert run.evicted == {not_on_request.uid}
    assert webhook.request_count(not_on_request.uid) == 1
    assert_webhook_agrees(api, account, webhook, run)


def test_a_new_process_sees_from_the_pods_which_migrations_have_begun(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    """The eviction of a pod without the annotation is requested once more."""
    marked = [create_machine(workspace, "marked-0"), create_machine(workspace, "marked-1", node=1)]
    unmarked = create_machine(workspace, "unmarked", node=2)
    chosen = restarts_policy(workspace, limits={TOTAL: 3})
    with account.run(chosen, *SHORT_INTERVAL) as killed:
        killed.wait_for("moving in background", 3)
        for machine in marked:
            machine.begin_migration()
        wait_for_cycles(killed)
    new_machine = create_machine(workspace, "new", node=3)

    with account.run(chosen, *SHORT_INTERVAL) as run:
        run.wait_for("moving in background")
        wait_for_cycles(run)
        assert [
            webhook.request_count(machine.uid) for machine in (*marked, unmarked, new_machine)
        ] in (
            [1, 1, 2, 0],
            [1, 1, 1, 1],
        ), "two count towards the limit, and one of the others is the third"
        for machine in marked:
            machine.complete_migration()
        run.wait_for("moved in background", 2)
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text

    assert [webhook.request_count(machine.uid) for machine in (*marked, unmarked, new_machine)] == [
        1,
        1,
        2,
        1,
    ]
    assert_webhook_agrees(api, account, webhook, killed, run)


def test_a_machine_that_is_never_annotated_is_requested_again_after_ten_minutes(
    account: Account, api: Api, workspace: Workspace, webhook: EvictionWebhook
) -> None:
    unannotated, slow = (
        create_machine(workspace, "unannotated"),
        create_machine(workspace, "slow", node=1),
    )

    def step_clock(seconds: float) -> None:
        """Steps the clock, and changes an object of each kind, so that no watch is too old."""
        run.clock.steady_ahead += seconds
        change = {"metadata": {"generateName": "step-", "labels": {"stepped": str(seconds)}}}
        api.patch(f"/api/v1/nodes/{workspace.nodes[0]}", change).granted()
        budgets = f"/apis/policy/v1/namespaces/{workspace.name}/poddisruptionbudgets"
        no_pods = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "none"}}}
        api.post(budgets, {**change, "spec": no_pods}).granted()
        unannotated.touch()
        wait_for_cycles(run)

    with InProcessRun(account, restarts_policy(workspace), interval=0.1, qps=-1) as run:
        run.wait_for("moving in background", 2)
        slow.begin_migration()
        step_clock(500)
        assert webhook.request_count(unannotated.uid) == 1, "not timed out yet"
        step_clock(101)
        assert webhook.request_count(unannotated.uid) == 2
        step_clock(7200)
        assert webhook.request_count(unannotated.uid) == 3
        assert run.stop() == 0, run.log_text

    timed_out = run.lines_of("not moved in background")
    assert [line["uid"] for line in timed_out] == [unannotated.uid] * 2
    assert webhook.request_count(slow.uid) == 1, "an annotated machine may take any time"
    assert_webhook_agrees(api, account, webhook, run)


def test_a_finished_machine_does_not_count_as_moving(
    plane: Access, account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    """Whatever the webhook answers: it does not count towards a limit."""
    done, failed, live = (
        Machine(workspace, name, workspace.nodes[0]) for name in ("done", "failed", "live")
    )
    done.complete_migration()
    failed.fail()
    for machine, times in ((done, 60), (failed, 50), (live, 40)):
        machine.report_restarts(times)
    all_states = restarts_policy(workspace, limits={TOTAL: 1})
    del all_states["profiles"][0]["pluginConfig"][0]["args"]["states"]

    with (
        EvictionWebhook(plane, tmp_path, workspace, ignore_phase=True) as webhook,
        account.run(all_states, *SHORT_INTERVAL) as run,
    ):
        run.wait_for("moving in background", uid=live.uid)
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text
        assert_webhook_agrees(api, account, webhook, run)

    assert [line["uid"] for line in run.lines_of("moving in background")] == [live.uid]
    assert [request.uid for request in webhook.requests] == [done.uid, failed.uid, live.uid], (
        "most restarts first"
    )
