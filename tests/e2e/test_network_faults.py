"""Between a run and the API server things get lost, late or turned away; a run lives through it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from resettle.eviction.executor import AT_ONCE
from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, settled
from tests.e2e.servers.faulty_proxy import Between, Fault, to_evictions, to_the_first_of_each
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

EVERY_SECOND = ("--descheduling-interval", "1s")
PACED = (*EVERY_SECOND, "--client-connection-qps", "10", "--client-connection-burst", "1")


@pytest.fixture
def way(plane: Access, account: Account) -> Iterator[Between]:
    """The way that runs of the account take."""
    with Between(plane, account) as laid:
        yield laid


@contextmanager
def cut_every_second(way: Between) -> Iterator[None]:
    """Cuts all connections each second in which the run has asked for an eviction.

    On a slow machine the first lists take longer than a second; they are let through.
    """
    asked, over = threading.Event(), threading.Event()

    def judge(method: str, path: str) -> Fault | None:
        if path.endswith("/eviction"):
            asked.set()
        return None

    def work() -> None:
        while not over.wait(1):
            if asked.is_set():
                asked.clear()
                way.cut()

    way.fault = judge
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_answers_that_are_lost_are_found_out_by_watching(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 24)
    way.fault = to_evictions(Fault.LOST, every=3)

    with account.run(too_old(room), *PACED) as run:
        eventually("an empty room", lambda: not left_on_nodes(room))
        eventually("no doubt", lambda: not run.unknown)
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert len(run.told("answer lost")) == len(run.told("evicted after all")) == 8


def test_a_request_that_is_lost_leaves_its_pod_alone_for_a_while(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 12)
    way.fault = to_evictions(Fault.TORN, at_most=2)

    with account.run(too_old(room), *PACED) as run:
        eventually("two in doubt", lambda: left_on_nodes(room) == run.unknown)
        run.awaits_more("cycle done", 2)
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert len(account.asked_to_evict()) == len(run.evicted) == 10
    assert run.evicted | run.unknown == everybody


def test_connections_that_are_cut_every_second_stop_nobody(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 40)

    with cut_every_second(way), account.run(too_old(room), *PACED) as run:
        eventually("nobody but those in doubt", lambda: left_on_nodes(room) <= run.unknown)
        run.awaits_more("cycle done", 2)
        eventually("all found out", lambda: run.unknown <= left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted | run.unknown == everybody


def test_a_server_with_too_much_to_do_is_asked_again_later(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 24)
    way.fault = to_the_first_of_each(Fault.BUSY)

    with account.run(too_old(room), *PACED) as run:
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert run.told("not evicted") == []


def test_a_storm_that_outlasts_our_patience_ends_the_tries_and_not_the_run(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 6)
    way.fault = to_evictions(Fault.BUSY)

    with account.run(too_old(room), *PACED) as run:
        run.awaits("not evicted", 6)
        assert left_on_nodes(room) == everybody
        way.fault = lambda method, path: None
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert "Too many requests" in run.told("not evicted")[0]["said"]


def test_no_more_requests_are_under_way_than_there_are_hands(
    way: Between, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, AT_ONCE + 8)
    way.fault = to_evictions(Fault.LATE)

    with account.run(too_old(room), "--client-connection-qps", "-1") as run:
        eventually("all hands full", lambda: way.waiting == AT_ONCE)
        assert account.asked_to_evict() == []
        way.clear.set()
        assert run.ended() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
