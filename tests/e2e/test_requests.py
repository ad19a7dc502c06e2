"""What a run asks of the API server and leaves behind: grace, events, and nothing when dry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.workloads import old_enough, once, uids, workload
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, settled
from tests.e2e.random_clusters.valid_objects import HOLD
from tools.control_plane.api import Api, Object

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.mark.parametrize(
    ("grace", "seen"),
    [
        pytest.param({}, 30, id="the pod's own, if the policy says nothing"),
        pytest.param({"gracePeriodSeconds": 7}, 7, id="that of the policy"),
        pytest.param({"gracePeriodSeconds": 0}, 0, id="none"),
    ],
)
def test_pods_are_given_the_grace_period_of_the_policy(
    grace: dict[str, int], seen: int, account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 2)
    before = room.running()
    old_enough(room)

    with kept_in_sight(room, before):
        run = once(account, policy(UPSTREAM, "PodLifeTime", TOO_OLD, room, top=grace))
        leaving = [it["metadata"] for it in room.running() if "deletionTimestamp" in it["metadata"]]

    assert {it["uid"] for it in leaving} == run.evicted == uids(before)
    assert {it["deletionGracePeriodSeconds"] for it in leaving} == {seen}
    settled(api, account, run)


@contextmanager
def kept_in_sight(room: Room, pods: list[Object]) -> Iterator[None]:
    """Finalizers keep the pods from vanishing while the block lasts."""
    paths = [f"{room.pods}/{it['metadata']['name']}" for it in pods]
    try:
        for path in paths:
            room.api.patch(path, {"metadata": {"finalizers": [HOLD]}}).granted()
        yield
    finally:
        for path in paths:
            room.api.patch(path, {"metadata": {"finalizers": None}})


@contextmanager
def evictions_denied(api: Api, room: Room) -> Iterator[None]:
    """The API server denies every eviction of the room's pods while the block lasts."""
    asked = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    rule = {**asked, "resources": ["pods/eviction"]}
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": room.name}}}
    denial = {
        "matchConstraints": {"resourceRules": [rule], **only},
        "validations": [{"expression": "false", "message": "nobody leaves today"}],
    }
    kinds = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    binding = {"policyName": room.name, "validationActions": ["Deny"]}
    try:
        for kind, spec in zip(kinds, (denial, binding), strict=True):
            made = {"metadata": {"name": room.name}, "spec": spec}
            api.post(f"{ADMISSION}/{kind}", made).granted()
        eventually("evictions denied", lambda: not _would_evict(api, room))
        yield
    finally:
        for kind in kinds:
            api.delete(f"{ADMISSION}/{kind}/{room.name}")


def _would_evict(api: Api, room: Room) -> bool:
    name = room.running()[0]["metadata"]["name"]
    meta = {"metadata": {"name": name}, "deleteOptions": {"dryRun": ["All"]}}
    kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
    return api.post(f"{room.pods}/{name}/eviction", {**kind, **meta}).fine


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param({"evictionFailureEventNotification": True}, True, id="if they are wanted"),
        pytest.param({}, False, id="not otherwise"),
    ],
)
@pytest.mark.parametrize("api_version", VERSIONS)
def test_events_tell_of_pods_that_were_asked_to_leave_and_stay(
    wanted: dict[str, bool], told: bool, api_version: str, account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 3)
    before = uids(room.running())
    old_enough(room)

    with evictions_denied(api, room):
        run = once(account, policy(api_version, "PodLifeTime", TOO_OLD, room, top=wanted))

    assert run.evicted == set()
    assert uids(room.running()) == before
    events = api.items(f"/apis/events.k8s.io/v1/namespaces/{room.name}/events")
    ours = [it for it in events if it.get("reportingController") == "sigs.k8s.io.descheduler"]
    assert {it["regarding"]["uid"] for it in ours} == (before if told else set())
    assert all((it["type"], it["reason"]) == ("Warning", "EvictionFailed") for it in ours)
    assert all("nobody leaves today" in it["note"] for it in ours)
    settled(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_dry_run_writes_nothing_cycle_after_cycle(
    api_version: str, account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 3)
    before = uids(room.running())
    old_enough(room)
    every_second = ("--dry-run", "--descheduling-interval", "1s")

    with account.run(policy(api_version, "PodLifeTime", TOO_OLD, room), *every_second) as run:
        run.awaits("cycle done", 3)
        assert run.stop() == 0, run.story

    would = {line["pod"] for line in run.told("would evict")}
    assert would <= {f"{room.name}/{it['metadata']['name']}" for it in room.running()}
    assert len(run.told("would evict")) >= 2 * len(would) > 0
    assert uids(room.running()) == before
    asked = {(it["verb"], it["objectRef"]["resource"]) for it in account.audited()}
    may_it = ("create", "selfsubjectaccessreviews")
    assert {verb for verb, _ in asked - {may_it}} == {"list", "watch"}
    settled(api, account, run)
