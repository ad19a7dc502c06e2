"""Requests and answers are lost, delayed or rejected, and the run continues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from resettle.eviction.executor import AT_ONCE
from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.e2e.servers.faulty_proxy import (
    Fault,
    FaultyProxy,
    fault_for_evictions,
    fault_for_first_evictions,
)
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

EVERY_SECOND = ("--descheduling-interval", "1s")
RATE_LIMITED = (*EVERY_SECOND, "--client-connection-qps", "10", "--client-connection-burst", "1")


@pytest.fixture
def proxy(plane: Access, account: Account) -> Iterator[FaultyProxy]:
    """A proxy between runs of the account and the API server."""
    with FaultyProxy(plane, account) as created:
        yield created


@contextmanager
def connections_cut_every_second(proxy: FaultyProxy) -> Iterator[None]:
    """Closes all connections in each second in which the run requested an eviction.

    On a slow machine the first lists take longer than a second; they are not interrupted.
    """
    requested, stopped = threading.Event(), threading.Event()

    def note_evictions(method: str, path: str) -> Fault | None:
        if path.endswith("/eviction"):
            requested.set()
        return None

    def cut_connections_each_second() -> None:
        while not stopped.wait(1):
            if requested.is_set():
                requested.clear()
                proxy.cut_connections()

    proxy.fault = note_evictions
    thread = threading.Thread(target=cut_connections_each_second)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def test_results_of_lost_answers_are_learned_from_the_watch(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 24)
    proxy.fault = fault_for_evictions(Fault.ANSWER_LOST, every=3)

    with account.run(old_pods_policy(workspace), *RATE_LIMITED) as run:
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        eventually("no unknown results", lambda: not run.unknown)
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert len(run.lines_of("answer lost")) == len(run.lines_of("evicted after all")) == 8


def test_a_pod_whose_request_was_lost_is_not_evicted_again_for_a_while(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 12)
    proxy.fault = fault_for_evictions(Fault.DROPPED, at_most=2)

    with account.run(old_pods_policy(workspace), *RATE_LIMITED) as run:
        eventually("two unknown results", lambda: uids_on_nodes(workspace) == run.unknown)
        run.wait_for_more("cycle done", 2)
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert len(account.eviction_requests()) == len(run.evicted) == 10
    assert run.evicted | run.unknown == all_uids


def test_connections_that_are_closed_every_second_do_not_stop_the_run(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 40)

    with (
        connections_cut_every_second(proxy),
        account.run(old_pods_policy(workspace), *RATE_LIMITED) as run,
    ):
        eventually(
            "only pods with an unknown result left", lambda: uids_on_nodes(workspace) <= run.unknown
        )
        run.wait_for_more("cycle done", 2)
        eventually("all results known", lambda: run.unknown <= uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted | run.unknown == all_uids


def test_requests_to_an_overloaded_server_are_sent_again_later(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 24)
    proxy.fault = fault_for_first_evictions(Fault.BUSY)

    with account.run(old_pods_policy(workspace), *RATE_LIMITED) as run:
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert run.lines_of("not evicted") == []


def test_a_server_that_stays_overloaded_ends_the_retries_and_not_the_run(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 6)
    proxy.fault = fault_for_evictions(Fault.BUSY)

    with account.run(old_pods_policy(workspace), *RATE_LIMITED) as run:
        run.wait_for("not evicted", 6)
        assert uids_on_nodes(workspace) == all_uids
        proxy.fault = lambda method, path: None
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert "Too many requests" in run.lines_of("not evicted")[0]["said"]


def test_the_number_of_concurrent_requests_is_limited(
    proxy: FaultyProxy, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, AT_ONCE + 8)
    proxy.fault = fault_for_evictions(Fault.DELAYED)

    with account.run(old_pods_policy(workspace), "--client-connection-qps", "-1") as run:
        eventually("the most concurrent requests", lambda: proxy.waiting == AT_ONCE)
        assert account.eviction_requests() == []
        proxy.release.set()
        assert run.wait_for_exit() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
