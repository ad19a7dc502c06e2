"""Which nodes `resettle soft-tainter` taints, with a real API server and its admission policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Workspace
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import (
    APPROPRIATE,
    BOTH,
    KUBERNETES,
    OPENSHIFT,
    OVERUTILIZED,
    fill_node,
    policy,
    run_once,
    set_taints,
    soft_taint,
    soft_taints_of,
    tainted_nodes,
    taints_of,
)
from tools.control_plane.api import Object

GPU = {"key": "gpu", "effect": "NoSchedule"}
LOST = {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-31T11:00:00Z"}
TEN_OFF = {"low": 10, "high": 10, "from_mean": True}
UP_ONLY = {"low": 0, "high": 10, "from_mean": True}
MEDIUM = {"low": 20, "high": 50}


def fill_nodes(workspace: Workspace, use: list[int], cordoned: tuple[int, ...] = ()) -> list[str]:
    """Fills as many nodes as there are percentages; returns their names."""
    chosen = workspace.nodes[: len(use)]
    for i, (name, percent) in enumerate(zip(chosen, use, strict=True)):
        parts = {
            "metadata": {"labels": {"of": workspace.name}},
            "spec": {"unschedulable": i in cordoned},
        }
        workspace.api.patch(f"/api/v1/nodes/{name}", parts).granted()
        fill_node(workspace, name, percent)
    return chosen


@pytest.mark.parametrize(
    ("use", "cordoned", "lines", "expected"),
    [
        pytest.param([10, 50, 90], (), TEN_OFF, [[], [APPROPRIATE], BOTH], id="ten off the mean"),
        pytest.param([10, 50, 90], (), UP_ONLY, [[], [], BOTH], id="under up to the mean"),
        pytest.param([10, 50, 90], (), MEDIUM, [[], [APPROPRIATE], BOTH], id="at percentages"),
        pytest.param([10, 50, 90], (0,), TEN_OFF, [[], [], BOTH], id="none under"),
        pytest.param([10, 10, 10], (), TEN_OFF, [[], [], []], id="all alike and empty"),
        pytest.param([90, 90, 90], (), TEN_OFF, [[], [], []], id="all alike and full"),
        pytest.param([95, 97, 99], (), TEN_OFF, [[], [], []], id="no line above 100"),
        pytest.param(
            [0, 0, 30],
            (),
            {"low": 20, "high": 20, "from_mean": True},
            [[], [], [APPROPRIATE]],
            id="nor below 0",
        ),
        pytest.param([90], (), MEDIUM, [BOTH], id="the only node"),
        pytest.param([36, 35, 0], (), UP_ONLY, [BOTH, BOTH, []], id="two over"),
    ],
)
@pytest.mark.parametrize("style", ["OpenShift", "Levels"])
def test_each_node_is_tainted_by_its_band_whatever_taints_it_had(
    use: list[int],
    cordoned: tuple[int, ...],
    lines: Object,
    expected: list[list[str]],
    style: str,
    tainter: TainterAccount,
    workspace: Workspace,
) -> None:
    prefix = OPENSHIFT if style == "OpenShift" else KUBERNETES
    chosen = fill_nodes(workspace, use, cordoned)
    for name in chosen:
        set_taints(workspace.api, name, GPU, soft_taint(f"{prefix}/overutilized-3=level9"), LOST)
    document = policy(
        workspace, selector=f"of={workspace.name}", softTaints={"style": style}, **lines
    )

    run_once(tainter, document)

    if style == "Levels":
        expected = [[OVERUTILIZED] if taints == BOTH else [] for taints in expected]
    for name, wanted in zip(chosen, expected, strict=True):
        assert soft_taints_of(workspace.api, name) == wanted
        others = [
            taint for taint in taints_of(workspace.api, name) if not taint["key"].startswith(prefix)
        ]
        assert others == [GPU, LOST], "unchanged"
    assert sorted(tainter.patched_nodes()) == chosen, "one patch a node"


def test_correct_taints_are_not_written_again(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    chosen = fill_nodes(workspace, [90, 10])

    run_once(tainter, policy(workspace))
    run_once(tainter, policy(workspace))

    assert tainter.patched_nodes() == chosen[:1]


@pytest.mark.parametrize(
    ("scale", "levels"),
    [("Linear", [0, 1, 2, 3, 3, 3]), ("Exponential", [0, 1, 2, 2, 3, 3])],
)
def test_a_fuller_node_gets_more_levels(
    scale: str, levels: list[int], tainter: TainterAccount, workspace: Workspace
) -> None:
    chosen = fill_nodes(workspace, [50, 51, 75, 84, 88, 100])
    graded = policy(workspace, softTaints={"levels": 3, "scale": scale})

    run_once(tainter, graded)

    assert [len(soft_taints_of(workspace.api, name)) for name in chosen] == levels
    assert soft_taints_of(workspace.api, chosen[-1]) == [
        f"{KUBERNETES}/overutilized=level1",
        f"{KUBERNETES}/overutilized-2=level2",
        f"{KUBERNETES}/overutilized-3=level3",
    ]
    assert len(tainter.patched_nodes()) == sum(map(bool, levels)), (
        "all levels of a node in one patch"
    )


def test_a_cap_selects_the_fullest_nodes_and_a_margin_keeps_their_taints(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    chosen = fill_nodes(workspace, [90, 80, 70, 60, 10, 10])
    held = policy(workspace, softTaints={"maxPercentOfNodes": 30, "releaseMargin": 10})

    run_once(tainter, held)
    assert tainted_nodes(workspace.api, chosen) == chosen[:2]

    fill_node(workspace, chosen[2], 85)
    fill_node(workspace, chosen[0], 45)
    run_once(tainter, held)
    assert tainted_nodes(workspace.api, chosen) == chosen[1:3], (
        "a node that is fuller by more than the margin"
    )


def test_a_hard_taint_with_our_key_stays(tainter: TainterAccount, workspace: Workspace) -> None:
    (name,) = fill_nodes(workspace, [90])
    hard = {"key": f"{KUBERNETES}/overutilized", "value": "by-hand", "effect": "NoSchedule"}
    set_taints(workspace.api, name, hard)
    document = policy(workspace, selector=f"of={workspace.name}")

    run_once(tainter, document)
    assert taints_of(workspace.api, name) == [hard, soft_taint(OVERUTILIZED)]

    run_once(tainter, document, "--remove-only")
    assert taints_of(workspace.api, name) == [hard]


def test_a_dry_run_from_the_start_writes_nothing(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    chosen = fill_nodes(workspace, [90, 10])

    lines = run_once(tainter, policy(workspace), "--dry-run")

    assert tainted_nodes(workspace.api, workspace.nodes) == []
    assert [line["node"] for line in lines if line["msg"] == "would taint"] == chosen[:1]
    assert list(tainter.requests("patch", "update")) == []


def test_a_dry_run_removes_existing_taints(tainter: TainterAccount, workspace: Workspace) -> None:
    chosen = fill_nodes(workspace, [90, 10])
    run_once(tainter, policy(workspace))
    assert tainted_nodes(workspace.api, chosen) == chosen[:1]

    run_once(tainter, policy(workspace), "--dry-run")

    assert tainted_nodes(workspace.api, chosen) == []


def test_a_policy_without_thresholds_removes_only_our_taints(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    chosen = fill_nodes(workspace, [90, 10])
    set_taints(workspace.api, chosen[0], GPU, soft_taint(OVERUTILIZED))
    set_taints(workspace.api, chosen[1], soft_taint(f"{KUBERNETES}/overutilized-2=level2"), LOST)

    run_once(tainter, {**policy(workspace), "profiles": []})

    assert [taints_of(workspace.api, name) for name in chosen] == [[GPU], [LOST]]


def test_after_an_uninstall_both_styles_are_removed_without_a_policy(
    tainter: TainterAccount, workspace: Workspace, tmp_path: Path
) -> None:
    nodes = workspace.nodes[:2]
    set_taints(workspace.api, nodes[0], GPU, soft_taint(OVERUTILIZED))
    set_taints(workspace.api, nodes[1], *map(soft_taint, BOTH), LOST)

    done = tainter.run_command("--remove-only", "--once")

    assert done.code == 0, done.err
    assert [taints_of(workspace.api, name) for name in nodes] == [[GPU], [LOST]]


def test_the_account_has_all_that_check_access_requires(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    done = tainter.check_access(policy(workspace))

    assert (done.code, "NO" in done.out) == (0, False), done.out
