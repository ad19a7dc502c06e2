"""Carrying out a plan over a real socket: what the server is asked, and what became of each pod."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from resettle.eviction.in_flight import UNKNOWN_SECONDS
from resettle.framework import MoveResponse, MoveResult
from resettle.testing import Fault, budget, cluster, node, pod
from tests.eviction.builders import WILLING
from tests.eviction.harness import Rig, endings, rigged, run_with_timeout
from tests.kube.watch.harness import until

E = MoveResult
WEB = {"app": "web"}
WORLD = cluster(
    node("n1").holding(
        *(pod(f"web-{i}", labels=WEB) for i in (1, 2, 3)),
        *(pod(name) for name in "abc"),
        pod("vm", annotations=WILLING),
    ),
    budget("web", allowed=1, labels=WEB),
)
NO_MORE = "The disruption budget web needs 0 healthy pods and has 0 currently"


def evicting(name: str = "*") -> str:
    return f"*/{name}/eviction"


# -- answers --------------------------------------------------------------------------------------


def test_a_budget_lets_go_as_many_as_it_allows() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            outcomes = await rig.carried_out("web-1", "a", "web-2", "b", "web-3")

            assert outcomes == [
                MoveResponse(E.EVICTED),
                MoveResponse(E.EVICTED),
                MoveResponse(E.BUDGET, NO_MORE),
                MoveResponse(E.EVICTED),
                MoveResponse(E.BUDGET, NO_MORE),
            ]
            assert rig.leaving == {"web-1", "a", "b"}

    run_with_timeout(run_scenario())


def test_outcomes_stand_in_the_order_of_the_moves_however_late_an_answer_is() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(
                Fault(path=evicting("a"), delay_seconds=0.2),
                Fault(path=evicting("b"), status=403, message="not now"),
            )
            outcomes = await rig.carried_out("a", "b", "c")

            assert outcomes == [
                MoveResponse(E.EVICTED),
                MoveResponse(E.ERROR, "not now"),
                MoveResponse(E.EVICTED),
            ]

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("fault", "leaves", "line"),
    [
        pytest.param(
            Fault(path=evicting(), cut_after_bytes=0), True, "evicted after all", id="it was done"
        ),
        pytest.param(
            Fault(path=evicting(), hang_up=True), False, "not evicted after all", id="it was not"
        ),
        pytest.param(
            Fault(path=evicting(), status=504, message="Timeout"),
            False,
            "not evicted after all",
            id="the server gave up",
        ),
    ],
)
def test_a_lost_answer_is_unknown_until_the_pod_is_seen_to_leave_or_to_stay(
    fault: Fault, leaves: bool, line: str
) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(fault)
            outcomes = await rig.carried_out("a")

            assert endings(outcomes) == [E.UNKNOWN]
            assert rig.asked == ["a"], "the effect of a second request is unknown"
            assert (rig.leaving == {"a"}) is leaves
            if not leaves:
                assert rig.ledger.moving == {"uid-default-a"}
                rig.clock.advance(timedelta(seconds=UNKNOWN_SECONDS + 1))
                rig.ledger.drop_expired()
            await until(lambda: f"INFO {line} " in "".join(rig.log_lines))
            assert rig.ledger.moving == frozenset()

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("times", "ending", "tries"),
    [
        pytest.param(3, E.EVICTED, 4, id="it gets well in time"),
        pytest.param(99, E.ERROR, 6, id="it does not"),
    ],
)
def test_an_overloaded_server_is_asked_again_for_a_while(
    times: int, ending: MoveResult, tries: int
) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(
                Fault(path=evicting(), status=429, retry_after_seconds=1, times=times)
            )
            outcomes = await rig.carried_out("a")

            assert endings(outcomes) == [ending]
            assert rig.asked == ["a"] * tries
            assert (rig.leaving == {"a"}) is (ending is E.EVICTED)

    run_with_timeout(run_scenario())


DENIED = 'admission webhook "virt.example" denied the request: '


@pytest.mark.parametrize(
    ("name", "fault", "ending"),
    [
        pytest.param(
            "a", Fault(path=evicting(), status=403, message=f"{DENIED}no"), E.WEBHOOK, id="no"
        ),
        pytest.param(
            "a",
            Fault(path=evicting(), status=429, message=f"{DENIED}no", retry_after_seconds=1),
            E.WEBHOOK,
            id="no, with a time that is not the server's",
        ),
        pytest.param(
            "vm",
            Fault(path=evicting(), status=429, message=f"{DENIED}Eviction triggered evacuation"),
            E.BACKGROUND,
            id="yes, but it will take a while",
        ),
    ],
)
def test_a_webhook_is_asked_once(name: str, fault: Fault, ending: MoveResult) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(fault)
            outcomes = await rig.carried_out(name)

            assert endings(outcomes) == [ending]
            assert rig.asked == [name]
            assert rig.ledger.moving == ({"uid-default-vm"} if name == "vm" else set())

    run_with_timeout(run_scenario())


# -- a last look ----------------------------------------------------------------------------------

Meanwhile = Callable[[Rig], None]


def vanishes(rig: Rig) -> None:
    rig.server.store.delete("Pod", "a")


def is_leaving(rig: Rig) -> None:
    stamp = {"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}}
    rig.server.store.merge("Pod", "a", stamp)


def is_replaced(rig: Rig) -> None:
    vanishes(rig)
    (namesake,) = node("n1").holding(pod("a", metadata={"uid": "another"})).pods
    rig.server.store.put(namesake)


def is_relabelled(rig: Rig) -> None:
    rig.server.store.merge("Pod", "a", {"metadata": {"labels": {"tier": "gold"}}})


def is_finished(rig: Rig) -> None:
    rig.server.store.merge("Pod", "a", {"status": {"phase": "Succeeded"}})


def restarts(rig: Rig) -> None:
    status = {"containerStatuses": [{"name": "main", "restartCount": 7, "state": {}}]}
    rig.server.store.merge("Pod", "a", {"status": status})


@pytest.mark.parametrize(
    ("meanwhile", "ending", "asked"),
    [
        pytest.param(vanishes, E.GONE, [], id="it went by itself"),
        pytest.param(is_leaving, E.GONE, [], id="it is leaving"),
        pytest.param(is_replaced, E.GONE, [], id="a namesake is there instead"),
        pytest.param(is_relabelled, E.CHANGED, [], id="it bears other labels"),
        pytest.param(is_finished, E.CHANGED, [], id="it has run its course"),
        pytest.param(restarts, E.EVICTED, ["a"], id="it merely restarted"),
    ],
)
def test_what_changed_since_the_plan_is_looked_at_before_the_request(
    meanwhile: Meanwhile, ending: MoveResult, asked: list[str]
) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            outcomes = await rig.carried_out("a", meanwhile=lambda: meanwhile(rig))

            assert endings(outcomes) == [ending]
            assert rig.asked == asked

    run_with_timeout(run_scenario())


def test_a_namesake_that_the_watch_has_not_shown_yet_is_spared() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            planned = rig.cache.pod("default", "a")
            stale = rig.executor(look=lambda namespace, name: planned)

            outcomes = await rig.carried_out("a", by=stale, meanwhile=lambda: is_replaced(rig))

            assert endings(outcomes) == [E.GONE]
            assert (rig.asked, rig.leaving) == (["a"], set())

    run_with_timeout(run_scenario())
