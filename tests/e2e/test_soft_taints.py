"""Which nodes `resettle soft-tainter` taints, before a real API server and under its own guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Room
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import (
    BOTH,
    CALM,
    KUBERNETES,
    MARK,
    OPENSHIFT,
    fill,
    give,
    marked,
    marks,
    once,
    policy,
    soft,
    written,
)
from tools.control_plane.api import Object

GPU = {"key": "gpu", "effect": "NoSchedule"}
LOST = {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-31T11:00:00Z"}
TEN_OFF = {"low": 10, "high": 10, "from_mean": True}
UP_ONLY = {"low": 0, "high": 10, "from_mean": True}
MEDIUM = {"low": 20, "high": 50}


def choose(room: Room, use: list[int], cordoned: tuple[int, ...] = ()) -> list[str]:
    """As many nodes as there are figures, each of them that full."""
    chosen = room.nodes[: len(use)]
    for i, (name, percent) in enumerate(zip(chosen, use, strict=True)):
        parts = {
            "metadata": {"labels": {"of": room.name}},
            "spec": {"unschedulable": i in cordoned},
        }
        room.api.patch(f"/api/v1/nodes/{name}", parts).granted()
        fill(room, name, percent)
    return chosen


@pytest.mark.parametrize(
    ("use", "cordoned", "lines", "expected"),
    [
        pytest.param([10, 50, 90], (), TEN_OFF, [[], [CALM], BOTH], id="ten off the mean"),
        pytest.param([10, 50, 90], (), UP_ONLY, [[], [], BOTH], id="under up to the mean"),
        pytest.param([10, 50, 90], (), MEDIUM, [[], [CALM], BOTH], id="at percentages"),
        pytest.param([10, 50, 90], (0,), TEN_OFF, [[], [], BOTH], id="nobody is under"),
        pytest.param([10, 10, 10], (), TEN_OFF, [[], [], []], id="all alike and empty"),
        pytest.param([90, 90, 90], (), TEN_OFF, [[], [], []], id="all alike and full"),
        pytest.param([95, 97, 99], (), TEN_OFF, [[], [], []], id="no line above 100"),
        pytest.param(
            [0, 0, 30],
            (),
            {"low": 20, "high": 20, "from_mean": True},
            [[], [], [CALM]],
            id="nor below 0",
        ),
        pytest.param([90], (), MEDIUM, [BOTH], id="the only node"),
        pytest.param([36, 35, 0], (), UP_ONLY, [BOTH, BOTH, []], id="two above"),
    ],
)
@pytest.mark.parametrize("style", ["OpenShift", "Levels"])
def test_each_node_is_marked_by_its_band_whatever_it_was_marked_with(
    use: list[int],
    cordoned: tuple[int, ...],
    lines: Object,
    expected: list[list[str]],
    style: str,
    tainter: TainterAccount,
    room: Room,
) -> None:
    prefix = OPENSHIFT if style == "OpenShift" else KUBERNETES
    chosen = choose(room, use, cordoned)
    for name in chosen:
        give(room.api, name, GPU, soft(f"{prefix}/overutilized-3=level9"), LOST)
    document = policy(room, selector=f"of={room.name}", softTaints={"style": style}, **lines)

    once(tainter, document)

    if style == "Levels":
        expected = [[MARK] if it == BOTH else [] for it in expected]
    for name, wanted in zip(chosen, expected, strict=True):
        assert marks(room.api, name) == wanted
        others = [it for it in written(room.api, name) if not it["key"].startswith(prefix)]
        assert others == [GPU, LOST], "as and where they were"
    assert sorted(tainter.patched()) == chosen, "one patch a node"


def test_what_is_right_is_not_written_again(tainter: TainterAccount, room: Room) -> None:
    chosen = choose(room, [90, 10])

    once(tainter, policy(room))
    once(tainter, policy(room))

    assert tainter.patched() == chosen[:1]


@pytest.mark.parametrize(
    ("scale", "levels"),
    [("Linear", [0, 1, 2, 3, 3, 3]), ("Exponential", [0, 1, 2, 2, 3, 3])],
)
def test_the_fuller_a_node_the_more_taints_of_different_keys(
    scale: str, levels: list[int], tainter: TainterAccount, room: Room
) -> None:
    chosen = choose(room, [50, 51, 75, 84, 88, 100])
    graded = policy(room, softTaints={"levels": 3, "scale": scale})

    once(tainter, graded)

    assert [len(marks(room.api, name)) for name in chosen] == levels
    assert marks(room.api, chosen[-1]) == [
        f"{KUBERNETES}/overutilized=level1",
        f"{KUBERNETES}/overutilized-2=level2",
        f"{KUBERNETES}/overutilized-3=level3",
    ]
    assert len(tainter.patched()) == sum(map(bool, levels)), "all levels of a node at once"


def test_a_cap_lets_the_fullest_have_the_taints_and_a_margin_keeps_them(
    tainter: TainterAccount, room: Room
) -> None:
    chosen = choose(room, [90, 80, 70, 60, 10, 10])
    held = policy(room, softTaints={"maxPercentOfNodes": 30, "releaseMargin": 10})

    once(tainter, held)
    assert marked(room.api, chosen) == chosen[:2]

    fill(room, chosen[2], 85)
    fill(room, chosen[0], 45)
    once(tainter, held)
    assert marked(room.api, chosen) == chosen[1:3], "fuller by more than the margin goes first"


def test_a_hard_taint_under_our_key_stays_and_is_no_obstacle(
    tainter: TainterAccount, room: Room
) -> None:
    (name,) = choose(room, [90])
    hard = {"key": f"{KUBERNETES}/overutilized", "value": "by-hand", "effect": "NoSchedule"}
    give(room.api, name, hard)
    document = policy(room, selector=f"of={room.name}")

    once(tainter, document)
    assert written(room.api, name) == [hard, soft(MARK)]

    once(tainter, document, "--remove-only")
    assert written(room.api, name) == [hard]


def test_a_dry_run_from_the_start_writes_nothing(tainter: TainterAccount, room: Room) -> None:
    chosen = choose(room, [90, 10])

    lines = once(tainter, policy(room), "--dry-run")

    assert marked(room.api, room.nodes) == []
    assert [it["node"] for it in lines if it["msg"] == "would taint"] == chosen[:1]
    assert list(tainter.audited("patch", "update")) == []


def test_what_a_dry_run_finds_tainted_it_cleans(tainter: TainterAccount, room: Room) -> None:
    chosen = choose(room, [90, 10])
    once(tainter, policy(room))
    assert marked(room.api, chosen) == chosen[:1]

    once(tainter, policy(room), "--dry-run")

    assert marked(room.api, chosen) == []


def test_a_policy_without_thresholds_has_all_of_ours_removed_and_nothing_else(
    tainter: TainterAccount, room: Room
) -> None:
    chosen = choose(room, [90, 10])
    give(room.api, chosen[0], GPU, soft(MARK))
    give(room.api, chosen[1], soft(f"{KUBERNETES}/overutilized-2=level2"), LOST)

    once(tainter, {**policy(room), "profiles": []})

    assert [written(room.api, name) for name in chosen] == [[GPU], [LOST]]


def test_after_an_uninstall_both_styles_are_removed_without_a_policy(
    tainter: TainterAccount, room: Room, tmp_path: Path
) -> None:
    nodes = room.nodes[:2]
    give(room.api, nodes[0], GPU, soft(MARK))
    give(room.api, nodes[1], *map(soft, BOTH), LOST)

    done = tainter.command("--remove-only", "--once")

    assert done.code == 0, done.err
    assert [written(room.api, name) for name in nodes] == [[GPU], [LOST]]


def test_the_account_needs_no_more_than_check_access_asks_for(
    tainter: TainterAccount, room: Room
) -> None:
    done = tainter.checked(policy(room))

    assert (done.code, "NO" in done.out) == (0, False), done.out
