"""`resettle soft-tainter` while the cluster lives: loads change, others write, leaders die."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from resettle.controllers.soft_taints.apply import AT_ONCE
from resettle.testing import node as built
from tests.e2e.cluster.workspace import Room, eventually, pauses
from tests.e2e.servers.faulty_proxy import Between, Fault
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import (
    MARK,
    balancing,
    fill,
    give,
    marked,
    marks,
    policy,
    soft,
    written,
)
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

OFTEN = ("--interval", "300ms")
GPU = {"key": "gpu", "effect": "NoSchedule"}
MANY = 500
SHORT_LEASE = (
    "--leader-elect",
    *("--leader-elect-lease-duration", "4s"),
    *("--leader-elect-renew-deadline", "3s"),
    *("--leader-elect-retry-period", "500ms"),
)


# -- loads change --------------------------------------------------------------------------------


def test_a_node_is_tainted_when_it_fills_and_clean_when_it_empties(
    tainter: TainterAccount, room: Room
) -> None:
    hot = room.nodes[0]
    with tainter.run(policy(room), *OFTEN) as run:
        run.awaits("round done")
        assert marked(room.api, room.nodes) == []

        fill(room, hot, 90)
        eventually("a taint", lambda: marks(room.api, hot) == [MARK])
        fill(room, hot, 10)
        eventually("none", lambda: marks(room.api, hot) == [])

        run.awaits_more("round done", 3)
        assert tainter.patched() == [hot, hot], "written when it changes, and only then"
        assert run.stop() == 0


def test_a_node_that_leaves_the_selector_is_cleaned_and_one_that_joins_is_tainted(
    tainter: TainterAccount, room: Room
) -> None:
    one, other = room.nodes[:2]
    for name in (one, other):
        fill(room, name, 90)
    _label(room, one, "yes")
    with tainter.run(policy(room, selector=f"of={room.name}-yes"), *OFTEN):
        eventually("the one tainted", lambda: marked(room.api, [one, other]) == [one])

        _label(room, one, "no")
        _label(room, other, "yes")
        eventually("the other tainted", lambda: marked(room.api, [one, other]) == [other])


def _label(room: Room, name: str, word: str) -> None:
    labels = {"metadata": {"labels": {"of": f"{room.name}-{word}"}}}
    room.api.patch(f"/api/v1/nodes/{name}", labels).granted()


def test_a_policy_that_no_longer_balances_and_then_does_again_is_followed(
    tainter: TainterAccount, room: Room
) -> None:
    hot = room.nodes[0]
    fill(room, hot, 90)
    with tainter.run(policy(room), *OFTEN) as run:
        eventually("a taint", lambda: marks(room.api, hot))
        run.policy.write_text(json.dumps({**policy(room), "profiles": []}))
        eventually("none", lambda: not marks(room.api, hot))
        run.policy.write_text("no policy at all")
        run.awaits("policy not loaded; the last good one stays in force")
        run.policy.write_text(json.dumps(policy(room)))
        eventually("a taint again", lambda: marks(room.api, hot))
        assert run.stop() == 0


def test_a_node_that_is_not_ready_keeps_its_taint_and_stops_no_other(
    tainter: TainterAccount, room: Room
) -> None:
    lost, hot = room.nodes[:2]
    fill(room, lost, 90)
    with tainter.run(policy(room), *OFTEN) as run:
        eventually("a taint", lambda: marks(room.api, lost) == [MARK])

        _ready(room, lost, "Unknown")
        fill(room, lost, 10)
        run.awaits("taints kept as they are", nodes=[lost], reason=["not-ready"])
        fill(room, hot, 90)
        eventually("another taint", lambda: marks(room.api, hot) == [MARK])
        assert marks(room.api, lost) == [MARK]

        _ready(room, lost, "True")
        eventually("the first gone", lambda: marks(room.api, lost) == [])


def _ready(room: Room, name: str, word: str) -> None:
    conditions = [{"type": "Ready", "status": word, "reason": "test"}]
    path = f"/api/v1/nodes/{name}/status"
    room.api.patch(path, {"status": {"conditions": conditions}}).granted()


def test_a_policy_that_names_a_priority_class_is_no_obstacle(
    tainter: TainterAccount, room: Room
) -> None:
    hot = room.nodes[0]
    fill(room, hot, 90)
    document = policy(room, version="descheduler/v1alpha2")
    careful = {"name": "DefaultEvictor", "args": {"priorityThreshold": {"name": "no-such-class"}}}
    document["profiles"][0]["pluginConfig"].append(careful)

    with tainter.run(document, "--once") as run:
        assert run.ended() == 0, run.story

    assert marks(room.api, hot) == [MARK]


# -- others write too ----------------------------------------------------------------------------


def test_what_another_wrote_between_reading_and_writing_stays(
    plane: Access, tainter: TainterAccount, room: Room
) -> None:
    hot = room.nodes[0]
    fill(room, hot, 90)
    with Between(plane, tainter) as way:
        way.fault = lambda method, path: Fault.LATE if method == "PATCH" else None
        with tainter.run(policy(room), "--once") as run:
            eventually("a patch under way", lambda: way.waiting == 1)
            give(room.api, hot, GPU)
            way.fault = lambda method, path: None
            way.clear.set()
            assert run.ended() == 0, run.story

    assert written(room.api, hot) == [GPU, soft(MARK)]
    codes = [it["responseStatus"]["code"] for it in tainter.audited("patch")]
    assert codes == [409, 200]


@contextmanager
def crowd(api: Api, room: Room) -> Iterator[list[str]]:
    """Many more nodes, all of them unheard of until now."""
    names = [f"{room.name}-many-{i:03}" for i in range(MANY)]

    def make(name: str) -> None:
        made = built(name, cpu="1", labels={"room": room.name, "many": room.name}).node
        api.post("/api/v1/nodes", made).granted()

    with ThreadPoolExecutor(8) as hands:
        try:
            list(hands.map(make, names))
            yield names
        finally:
            list(hands.map(lambda name: api.delete(f"/api/v1/nodes/{name}"), names))


@contextmanager
def untouchable(api: Api, tainter: TainterAccount, name: str) -> Iterator[None]:
    """Has the API server refuse the tainter this one node."""
    meta = {"metadata": {"name": f"untouchable-{name}"}}
    home = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rules = [
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["nodes"]}
    ]
    who = f"request.userInfo.username == '{tainter.user}' && request.name == '{name}'"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "it", "expression": who}],
        "validations": [{"expression": "false", "message": "hands off"}],
    }
    binding = {"policyName": meta["metadata"]["name"], "validationActions": ["Deny"]}
    api.post(f"{home}ies", {**meta, "spec": spec}).granted()
    api.post(f"{home}ybindings", {**meta, "spec": binding}).granted()

    def in_force() -> bool:
        with tainter.api() as mine:
            path = f"/api/v1/nodes/{name}?dryRun=All"
            return mine.patch(path, {"spec": {"taints": [soft(MARK)]}}).status >= 400

    try:
        eventually("the refusal in force", in_force)
        yield
    finally:
        api.delete(f"{home}ybindings/{meta['metadata']['name']}")
        api.delete(f"{home}ies/{meta['metadata']['name']}")


def test_of_many_nodes_at_once_twenty_are_written_at_a_time_and_one_refusal_stops_no_other(
    plane: Access, tainter: TainterAccount, api: Api, room: Room
) -> None:
    """All 500 are to be cleaned at once, in place of being filled by 500 pods."""
    document = {**policy(room), "profiles": []}
    with crowd(api, room) as names, untouchable(api, tainter, names[123]):
        with ThreadPoolExecutor(8) as hands:
            list(hands.map(lambda name: give(api, name, GPU, soft(MARK)), names))
        with Between(plane, tainter) as way:
            way.fault = lambda method, path: Fault.LATE if method == "PATCH" else None
            with tainter.run(document, "--once") as run:
                eventually("as many as may be", lambda: way.waiting >= AT_ONCE)
                most = max(way.waiting for _ in pauses(1))
                way.clear.set()
                assert run.ended() == 1, run.story

        assert most == AT_ONCE == 20
        still = [it["metadata"]["name"] for it in _of(api, room) if len(it["spec"]["taints"]) == 2]
        assert still == [names[123]]
        (told,) = run.told("not tainted")
        assert (told["node"], "hands off" in told["reason"]) == (names[123], True)
        assert len(run.told("untainted")) == MANY - 1
    # The refusal was asked for; what the guard itself refuses is another matter.
    tainter.pardon(names[123])


def _of(api: Api, room: Room) -> list[Object]:
    return api.items(f"/api/v1/nodes?labelSelector=many%3D{room.name}")


# -- several copies ------------------------------------------------------------------------------


def test_of_two_copies_one_writes_and_the_other_takes_over_when_it_dies(
    tainter: TainterAccount, room: Room
) -> None:
    hot, later = room.nodes[:2]
    fill(room, hot, 90)
    lease = (
        *SHORT_LEASE,
        *("--leader-elect-resource-name", tainter.name),
        *("--leader-elect-resource-namespace", tainter.namespace),
    )
    with tainter.run(policy(room), *OFTEN, *lease) as first:
        first.awaits("round done")
        with tainter.run(policy(room), *OFTEN, *lease) as second:
            second.awaits("waiting for the lease")
            first.signal(signal.SIGKILL)
            fill(room, later, 90)
            second.awaits("lease acquired")
            eventually("the other taint", partial(marks, room.api, later))

            second.awaits_more("round done", 3)
            assert marked(room.api, room.nodes) == [hot, later]
            assert tainter.patched() == [hot, later], "nobody wrote what was right already"
            assert [it["node"] for it in second.told("tainted")] == [later]
            assert second.stop() == 0
    spec = room.api.get(
        f"/apis/coordination.k8s.io/v1/namespaces/{tainter.namespace}/leases/{tainter.name}"
    ).granted()["spec"]
    assert (spec["leaseTransitions"], spec["holderIdentity"]) == (1, "")


def test_thresholds_of_two_profiles_are_refused_until_one_is_named(
    tainter: TainterAccount, room: Room
) -> None:
    fill(room, room.nodes[0], 90)
    args = {"thresholds": {"cpu": 5}, "targetThresholds": {"cpu": 95}}
    document = policy(room)
    document["profiles"].append(balancing(args, "other"))

    with tainter.run(document, "--once") as run:
        assert run.ended() == 1
    (told,) = run.told("could not run")
    assert "name it as `softTaints.profile`" in told["reason"]

    with tainter.run({**document, "softTaints": {"profile": "other"}}, "--once") as run:
        assert run.ended() == 0, run.story
    assert marked(room.api, room.nodes) == [], "90% is no more than the other allows"
