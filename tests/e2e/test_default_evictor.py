"""DefaultEvictor on real objects: each protection keeps its pods, and without it they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, Args, policy
from tests.e2e.cluster.protected_pods import IMPORTANT, aged, zoo
from tests.e2e.cluster.workloads import old_enough, once, workload
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
STRICT: Args = {
    "podProtections": {"extraEnabled": ["PodsWithPVC"]},
    "labelSelector": {"matchExpressions": [{"key": "stays", "operator": "DoesNotExist"}]},
    "priorityThreshold": {"value": IMPORTANT},
    "noEvictionPolicy": "Mandatory",
    "minReplicas": 2,
    "minPodAge": "1h",
    "nodeFit": True,
}
PROTECTED = ["PodsWithLocalStorage", "DaemonSetPods", "SystemCriticalPods", "FailedBarePods"]
LENIENT: Args = {
    "podProtections": {"defaultDisabled": PROTECTED},
    "minReplicas": 0,
    "nodeFit": False,
}

VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


class Seen(NamedTuple):
    """What a run with everything protected did, and then one with as little as can be."""

    api_version: str
    left: set[str]
    """Apps of which pods left all the same."""
    refusals: Counter[str]
    left_then: set[str]
    refusals_then: Counter[str]


@pytest.fixture(scope="module", params=VERSIONS)
def seen(
    request: pytest.FixtureRequest, plane: Access, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    """One of every kind, and two runs past them."""
    version, folder = request.param, tmp_path_factory.mktemp("zoo")
    with plane.api() as api, Room(api) as room, Account(plane, api, folder) as account, zoo(room):
        yield visited(version, api, room, account)


def visited(version: str, api: Api, room: Room, account: Account) -> Seen:
    """What becomes of the pods under either policy."""
    aged(room)
    old_enough(room)
    apps = apps_by_uid(room)
    strict = once(account, policy(version, "PodLifeTime", TOO_OLD, room, evictor=STRICT))
    old_enough(room)
    apps |= apps_by_uid(room)
    free = policy(version, "PodLifeTime", TOO_OLD, room, evictor=LENIENT)
    lenient = once(account, free, "--client-connection-qps", "100")
    settled(api, account, strict, lenient)
    return Seen(
        version,
        {apps[uid] for uid in strict.evicted},
        Counter(strict.told("cycle done")[0]["refusals"]),
        {apps[uid] for uid in lenient.evicted},
        Counter(lenient.told("cycle done")[0].get("refusals")),
    )


def apps_by_uid(room: Room) -> dict[str, str]:
    return {it["metadata"]["uid"]: it["metadata"]["labels"]["app"] for it in room.running()}


@pytest.mark.parametrize(
    ("app", "code"),
    [
        pytest.param("alone", "min-replicas", id="fewer pods of an owner than minReplicas"),
        pytest.param("young", "min-age", id="pods that started less than minPodAge ago"),
        pytest.param("critical", "system-critical", id="pods that the system needs"),
        pytest.param("important", "priority", id="pods at the priority threshold"),
        pytest.param("hoarding", "local-storage", id="pods with local storage"),
        pytest.param("claiming", "volume-claim", id="pods with a volume claim"),
        pytest.param("unselected", "not-selected", id="pods that the label selector leaves out"),
        pytest.param("pinned", "no-node-fits", id="pods that fit no other node"),
        pytest.param("reluctant", "prefers-no-eviction", id="pods that would rather stay"),
        pytest.param("daemon", "daemon-set", id="pods of a DaemonSet"),
        pytest.param("bare-and-failed", "no-owner", id="failed pods without an owner"),
    ],
)
def test_a_protection_keeps_pods_that_would_go_without_it(seen: Seen, app: str, code: str) -> None:
    assert app not in seen.left
    assert seen.refusals[code]
    assert app in seen.left_then


@pytest.mark.parametrize(
    ("app", "code"),
    [
        pytest.param("bare", "no-owner", id="pods that nobody would make anew"),
        pytest.param("mirror", "mirror-pod", id="pods that a kubelet mirrors"),
    ],
)
def test_some_pods_stay_whatever_the_policy_says(seen: Seen, app: str, code: str) -> None:
    assert app not in seen.left | seen.left_then
    assert seen.refusals_then[code] == 1


def test_pods_that_nothing_keeps_go(seen: Seen) -> None:
    assert "plain" in seen.left
    assert seen.left - {"declining"} == {"plain", "called"}


def test_the_evict_annotation_overrides_a_protection(seen: Seen) -> None:
    assert "hoarding" not in seen.left, "its volume is reason enough to stay"
    assert "called" in seen.left, "the same volume, and the annotation"


def test_the_value_of_the_evict_annotation_counts_in_our_own_policies(seen: Seen) -> None:
    assert ("declining" in seen.left) is (seen.api_version == UPSTREAM)
    assert seen.refusals["opted-out"] == (0 if seen.api_version == UPSTREAM else 3)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_priority_threshold_may_be_the_name_of_a_class(
    api_version: str, account: Account, api: Api, room: Room
) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": room.name}, "value": IMPORTANT}).granted()
    try:
        workload(room, "plain", 3)
        workload(room, "important", 3, priorityClassName=room.name)
        apps = apps_by_uid(room)
        old_enough(room)
        named = {"priorityThreshold": {"name": room.name}}

        run = once(account, policy(api_version, "PodLifeTime", TOO_OLD, room, evictor=named))

        assert {apps[uid] for uid in run.evicted} == {"plain"}
        settled(api, account, run)
    finally:
        api.delete(f"{classes}/{room.name}")


@pytest.mark.parametrize("api_version", VERSIONS)
def test_pods_without_a_budget_are_kept_where_that_is_asked_for(
    api_version: str, account: Account, api: Api, room: Room
) -> None:
    workload(room, "covered", 3)
    workload(room, "uncovered", 3)
    room.budget("covered", at_most_away=1)
    apps = apps_by_uid(room)
    old_enough(room)
    only_covered = {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}

    run = once(account, policy(api_version, "PodLifeTime", TOO_OLD, room, evictor=only_covered))

    assert [apps[uid] for uid in run.evicted] == ["covered"]
    assert run.told("cycle done")[0]["refusals"] == {"budget": 2, "no-budget": 3}
    settled(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_pods_leave_only_namespaces_that_are_selected(
    api_version: str, account: Account, api: Api, room: Room
) -> None:
    with Room(api) as other:
        for home in (room, other):
            workload(home, "web", 2)
        old_enough(room)
        old_enough(other)
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": room.name}}
        evictor = {"namespaceLabelSelector": chosen}

        run = once(
            account, policy(api_version, "PodLifeTime", TOO_OLD, room, other, evictor=evictor)
        )

        left = {line["pod"].partition("/")[0] for line in run.told("evicted")}
        assert left == {room.name}
        assert run.told("cycle done")[0]["refusals"]["namespace-not-selected"] == 2
        settled(api, account, run)
