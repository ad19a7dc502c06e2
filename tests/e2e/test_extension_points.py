"""Extension points at work in a run: filters that must all agree, sorters that say who is first."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.cluster.policies import OURS, UPSTREAM, Plugins, policy
from tests.e2e.cluster.protected_pods import SCRATCH
from tests.e2e.cluster.workloads import (
    ALONE,
    old_enough,
    once,
    open_all,
    open_only,
    pods_of,
    workload,
)
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.run import Account, settled
from tests.examples.harness import install
from tools.control_plane.api import Api

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
COST = "controller.kubernetes.io/pod-deletion-cost"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example package is, which brings a filter and a sorter of its own."""
    return install(ROOT / "examples" / "moving-day", tmp_path_factory.mktemp("site"))


@pytest.fixture
def moving_day(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins of the package, in reach of runs."""
    monkeypatch.setenv("PYTHONPATH", str(installed))


# -- filters ---------------------------------------------------------------------------------------


def hours_from_now(hours: int) -> str:
    """Two hours of the day that begin so many hours from now, as MovingHours reads them."""
    begin = datetime.now(UTC).hour + hours
    return f"{begin % 24:02}-{(begin + 2) % 24:02}"


@pytest.fixture
def day_and_night(room: Room) -> dict[str, str]:
    """Apps by uid: two that MovingHours lets go and one that it keeps; DefaultEvictor keeps one."""
    workload(room, "day", 3)
    workload(room, "night", 3, labels={"move-hours": hours_from_now(6)})
    workload(room, "hoarding", 3, volumes=[SCRATCH])
    old_enough(room)
    return {it["metadata"]["uid"]: it["metadata"]["labels"]["app"] for it in room.running()}


@pytest.mark.usefixtures("moving_day")
@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_pod_leaves_only_if_every_filter_lets_it(
    api_version: str,
    account: Account,
    api: Api,
    room: Room,
    day_and_night: dict[str, str],
) -> None:
    both: Plugins = {"filter": {"MovingHours": {}}}

    run = once(account, policy(api_version, "PodLifeTime", TOO_OLD, room, plugins=both))

    assert {day_and_night[uid] for uid in run.evicted} == {"day"}
    refusals = run.told("cycle done")[0]["refusals"]
    assert (refusals["outside-hours"], refusals["local-storage"]) == (3, 3)
    kept = pods_of(room.running(), "night")[0]["metadata"]["name"]
    assert "MovingHours" in explained(account, run.policy, f"{room.name}/{kept}")
    settled(api, account, run)


def explained(account: Account, policy: Path, pod: str) -> str:
    """What `resettle explain` says of a pod, with the same policy and rights."""
    words = ["explain", "pod", pod, "--policy", str(policy)]
    words += ["--kubeconfig", str(account.kubeconfig)]
    done = subprocess.run(
        [RESETTLE, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("moving_day")
def test_the_default_filter_can_be_replaced(
    account: Account,
    api: Api,
    room: Room,
    day_and_night: dict[str, str],
) -> None:
    other = policy(OURS, "PodLifeTime", TOO_OLD, room, plugins={"filter": {"MovingHours": {}}})
    other["profiles"][0]["plugins"]["filter"]["disabled"] = ["DefaultEvictor"]

    run = once(account, other)

    assert {day_and_night[uid] for uid in run.evicted} == {"day", "hoarding"}
    settled(api, account, run)


# -- sorters ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("moving_day")
@pytest.mark.parametrize(
    ("api_version", "sort", "first"),
    [
        pytest.param(OURS, {}, "oldest", id="by its own order the oldest"),
        pytest.param(
            OURS, {"AgeSort": {"order": "YoungestFirst"}}, "many", id="the youngest, by AgeSort"
        ),
        pytest.param(OURS, {"UtilizationSort": {}}, "large", id="the largest, by UtilizationSort"),
        pytest.param(OURS, {"DeletionCostSort": {}}, "cheap", id="the cheapest, DeletionCostSort"),
        pytest.param(OURS, {"ReplicasSort": {}}, "many", id="one of many, by a sorter of others"),
        pytest.param(
            UPSTREAM, {"UtilizationSort": {}}, "oldest", id="in v1alpha2 whoever is sorted"
        ),
    ],
)
def test_a_sorter_decides_who_leaves_before_a_limit_ends_the_cycle(
    api_version: str,
    sort: dict[str, Any],
    first: str,
    account: Account,
    api: Api,
    room: Room,
) -> None:
    workload(room, "oldest", 3)
    old_enough(room, 1)
    workload(room, "large", 3, cpu="1")
    workload(room, "cheap", 3, annotations={COST: "-10"})
    old_enough(room, 1)
    workload(room, "many", 4)
    old_enough(room)
    apps = {it["metadata"]["uid"]: it["metadata"]["labels"]["app"] for it in room.running()}
    two, plugins = {"maxNoOfPodsToEvictTotal": 2}, {"sort": sort}
    chosen = policy(api_version, "PodLifeTime", TOO_OLD, room, plugins=plugins, top=two)

    run = once(account, chosen, *ALONE)

    assert [apps[uid] for uid in run.evicted] == [first, first], run.story
    warned = any("`sort` has no effect" in line["says"] for line in run.told("policy warning"))
    assert warned is (api_version == UPSTREAM)
    settled(api, account, run)


@pytest.mark.parametrize(
    "costs",
    [pytest.param("12345", id="the first by name"), pytest.param("54321", id="the last by name")],
)
def test_a_presorter_decides_which_copy_counts_as_the_original(
    costs: str, account: Account, api: Api, room: Room
) -> None:
    open_only(room, room.nodes[0])
    workload(room, "web", len(costs))
    open_all(room)
    names = sorted(it["metadata"]["name"] for it in room.running())
    for name, cost in zip(names, costs, strict=True):
        change = {"metadata": {"annotations": {COST: cost}}}
        room.api.patch(f"{room.pods}/{name}", change).granted()
    before = {it["metadata"]["uid"]: it["metadata"]["annotations"][COST] for it in room.running()}
    cheapest: Plugins = {"presort": {"DeletionCostSort": {}}}

    run = once(account, policy(OURS, "RemoveDuplicates", {}, room, plugins=cheapest))

    assert [cost for uid, cost in before.items() if uid not in run.evicted] == ["1"]
    settled(api, account, run)
