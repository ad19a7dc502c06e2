"""The mover of a profile in a run: one brought by others at work, and one that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.cluster.policies import OURS, Plugins, policy
from tests.e2e.cluster.workloads import old_enough, uids, workload
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import RULES, Account, settled
from tests.examples.harness import install
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
ASKED = "resettle.example/please-leave"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example package is, which brings a mover that asks pods to leave by a label."""
    return install(ROOT / "examples" / "please-leave", tmp_path_factory.mktemp("site"))


@pytest.fixture
def please_leave(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mover, in reach of runs."""
    monkeypatch.setenv("PYTHONPATH", str(installed))


@pytest.fixture
def patching_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """An account that may label pods, and evict none."""
    may_patch = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    others = [rule for rule in RULES if rule["resources"] != ["pods/eviction"]]
    with Account(plane, api, tmp_path, [*others, may_patch]) as made:
        yield made


def asked_to_leave(room: Room) -> list[Object]:
    """The pods that bear the label of the mover."""
    return [it for it in room.running() if ASKED in it["metadata"]["labels"]]


@pytest.mark.usefixtures("please_leave")
def test_pods_leave_by_the_mover_of_their_profile(
    patching_account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 6)
    old_enough(room)
    mover: Plugins = {"evict": {"PleaseLeave": {}}}
    two = {"maxNoOfPodsToEvictPerNamespace": 2}
    replaced = policy(OURS, "PodLifeTime", TOO_OLD, room, plugins=mover, top=two)

    with patching_account.run(replaced, "--descheduling-interval", "500ms") as run:
        run.awaits("moving in background", 2)
        run.awaits_more("cycle done", 2)
        asked = asked_to_leave(room)
        assert len(asked) == 2, "two are on their way, and the limit counts them"
        assert {it["metadata"]["labels"][ASKED] for it in asked} == {"PodLifeTime"}
        because = [it["metadata"]["annotations"][f"{ASKED}-because"] for it in asked]
        assert all(" old, longer than 1s" in reason for reason in because), because

        for pod in asked:
            room.api.delete(f"{room.pods}/{pod['metadata']['name']}").granted()
        run.awaits("moving in background", 4)
        assert run.stop() == 0, run.story

    assert {line["uid"] for line in run.told("moved in background")} == uids(asked)
    patched = [it for it in patching_account.audited() if it["verb"] == "patch"]
    assert {it["responseStatus"]["code"] for it in patched} == {200}
    assert patching_account.asked_to_evict() == []
    settled(api, patching_account, run)


@pytest.mark.usefixtures("please_leave")
@pytest.mark.parametrize(
    ("plugins", "path", "problem"),
    [
        pytest.param(
            {"evict": {"enabled": ["EvictionAPI", "PleaseLeave"]}},
            "profiles[0].plugins.evict.enabled",
            "2 movers are enabled",
            id="two movers",
        ),
        pytest.param(
            {"evict": {"disabled": ["EvictionAPI"]}},
            "profiles[0].plugins.evict.disabled",
            "`EvictionAPI` is disabled",
            id="no mover",
        ),
        pytest.param(
            {"evict": {"enabled": ["DefaultEvictor"]}},
            "profiles[0].plugins.evict.enabled[0]",
            "`DefaultEvictor` cannot be enabled under `evict`",
            id="a filter as mover",
        ),
        pytest.param(
            {"sort": {"enabled": ["PleaseLeave"]}},
            "profiles[0].plugins.sort.enabled[0]",
            "`PleaseLeave` cannot be enabled under `sort`",
            id="a mover as sorter",
        ),
    ],
)
def test_a_policy_that_does_not_say_how_pods_leave_starts_nothing(
    plugins: dict[str, Any],
    path: str,
    problem: str,
    room: Room,
    account: Account,
) -> None:
    wrong = policy(OURS, "PodLifeTime", TOO_OLD, room)
    wrong["profiles"][0]["plugins"] |= plugins

    with account.run(wrong) as run:
        assert run.ended() == 1

    (it,) = run.told("could not run")
    told = it["reason"]
    assert path in told
    assert problem in told
    assert list(account.audited()) == [], "nothing was asked of the API server"
