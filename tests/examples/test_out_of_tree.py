"""The example package, installed by pip and found by its entry points alone."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.docs.page import Page
from tests.examples.harness import install, python

EXAMPLE = ROOT / "examples" / "moving-day"
DOORS = (
    *("resettle.framework", "resettle.model", "resettle.testing"),
    "resettle.testing.strategies",
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(EXAMPLE, tmp_path_factory.mktemp("site"))


def drawn(package: Path, *, now: str, policy: Path = EXAMPLE / "policy.yaml") -> dict[str, Any]:
    """The plan for the example's cluster at this time of the day."""
    words = ("plan", "--cluster", str(EXAMPLE / "cluster.yaml"), "--policy", str(policy))
    at = f"2026-01-31T{now}:00Z"
    done = python(
        "-m", "resettle", *words, "--now", at, "-o", "json", cwd=EXAMPLE, reach=(package,)
    )
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def moved(plan: dict[str, Any]) -> list[str]:
    return [move["name"] for move in plan["moves"]]


def edited(folder: Path, old: str, new: str) -> Path:
    """The example's policy with one change."""
    text = (EXAMPLE / "policy.yaml").read_text()
    assert text.count(old) == 1
    path = folder / "policy.yaml"
    path.write_text(text.replace(old, new))
    return path


def test_the_strategy_proposes_and_gives_its_reason(package: Path) -> None:
    plan = drawn(package, now="12:00")

    assert {move["plugin"] for move in plan["moves"]} == {"RemovePodsFromRetiredPools"}
    assert {move["reason"] for move in plan["moves"]} == {
        "blue-1 belongs to the retired pool blue",
        "blue-2 belongs to the retired pool blue",
    }


def test_the_strategy_spares_a_pod_that_no_staying_node_would_take(
    package: Path, tmp_path: Path
) -> None:
    unlimited = edited(tmp_path, "maxNoOfPodsToEvictTotal: 3", "maxPercentOfPodsToEvict: 100")

    names = moved(drawn(package, now="23:00", policy=unlimited))

    assert set(names) < {"ledger-1", "mail-1", "mail-2", "search-1", "web-1", "web-2"}
    assert len(names) == 4, "two cores are free on green-1, and each of these asks for half a one"


@pytest.mark.parametrize(
    ("now", "mail_moves", "refused"),
    [
        pytest.param("12:00", False, {"limit-total": 1, "outside-hours": 2}, id="closed at noon"),
        pytest.param("21:59", False, {"limit-total": 1, "outside-hours": 2}, id="not yet open"),
        pytest.param("22:00", True, {"limit-total": 1}, id="open from ten in the evening"),
        pytest.param("05:00", False, {"limit-total": 1, "outside-hours": 2}, id="closed again"),
    ],
)
def test_the_guard_keeps_pods_outside_their_hours(
    package: Path, now: str, mail_moves: bool, refused: dict[str, int]
) -> None:
    plan = drawn(package, now=now)

    assert any(name.startswith("mail") for name in moved(plan)) is mail_moves
    assert plan["refused"] == refused


def test_the_sorter_decides_who_goes_before_the_limit_is_reached(package: Path) -> None:
    names = moved(drawn(package, now="12:00"))

    assert set(names[:2]) == {"web-1", "web-2"}, "three replicas and more go first"
    assert names[2:] == ["search-1"], "then two replicas; the single ledger stays"


def test_the_sorter_spares_small_workloads_when_the_limit_is_tight(
    package: Path, tmp_path: Path
) -> None:
    tight = edited(tmp_path, "maxNoOfPodsToEvictTotal: 3", "maxNoOfPodsToEvictTotal: 2")

    names = moved(drawn(package, now="12:00", policy=tight))

    assert set(names) == {"web-1", "web-2"}


def test_in_the_older_policy_the_sorter_is_read_and_without_effect(
    package: Path, tmp_path: Path
) -> None:
    policy = edited(tmp_path, "apiVersion: resettle/v1", "apiVersion: descheduler/v1alpha2")
    policy.write_text(policy.read_text().replace("maxPercentOfNodesToEvictFrom: 100\n", ""))

    done = python("-m", "resettle", "policy", "check", str(policy), cwd=tmp_path, reach=(package,))

    assert done.returncode == 0
    assert "`sort` has no effect in `descheduler/v1alpha2`" in done.stderr


def test_without_the_package_its_plugins_are_unknown(tmp_path: Path) -> None:
    policy = str(EXAMPLE / "policy.yaml")

    done = python("-m", "resettle", "policy", "check", policy, cwd=tmp_path)

    assert done.returncode == 1
    assert "no plugin is named `RemovePodsFromRetiredPools`" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param("retired: [blue]", "retired: []", "no pool is named", id="the strategy"),
        pytest.param(
            "label: move-hours", "default: nights", "`nights` are no hours of a day", id="the guard"
        ),
        pytest.param("enough: 3", "enough: 1", "all workloads count alike", id="the sorter"),
    ],
)
def test_each_plugin_names_what_is_wrong_with_its_arguments(
    package: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    policy = edited(tmp_path, old, new)

    done = python("-m", "resettle", "policy", "check", str(policy), cwd=tmp_path, reach=(package,))

    assert done.returncode == 1
    assert problem in done.stderr


def test_the_tests_of_the_package_pass_once_it_is_installed(package: Path) -> None:
    done = python("-m", "pytest", "-q", cwd=EXAMPLE, reach=(package,))

    assert done.returncode == 0, done.stdout


def test_the_readme_shows_what_its_command_prints(package: Path) -> None:
    (shown,) = [
        command for command in Page(EXAMPLE / "README.md").commands if "plan" in command.command
    ]
    _, *words = shown.command.split()

    done = python("-m", "resettle", *words, cwd=EXAMPLE, reach=(package,))

    assert done.stdout == shown.printed


def imported_from_resettle(source: Path) -> list[tuple[str, str]]:
    """Module and name of everything of resettle's that a file imports."""
    tree = ast.walk(ast.parse(source.read_text()))
    return [
        (statement.module, name.name)
        for statement in tree
        if isinstance(statement, ast.ImportFrom)
        and statement.module
        and statement.module.startswith("resettle")
        for name in statement.names
    ]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, id=path.name)
        for path in (*sorted(EXAMPLE.rglob("*.py")), EXAMPLE.parent / "own_descheduler.py")
        if path.name != "__init__.py"
    ],
)
def test_the_examples_enter_by_the_public_doors_only(source: Path) -> None:
    taken = imported_from_resettle(source)

    assert taken
    for module, name in taken:
        assert module in DOORS
        assert name in import_module(module).__all__
