"""The example of a mover, installed by pip, and pods that are asked instead of evicted."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from resettle.testing import ApiServer, cluster, node, pod
from tests import ROOT
from tests.docs.page import Page
from tests.examples.harness import install, python

from .test_out_of_tree import DOORS, imported_from_resettle

EXAMPLE = ROOT / "examples" / "please-leave"
POLICY = EXAMPLE / "policy.yaml"
LABEL = "games.example/please-leave"
WORLD = cluster(
    node("n1").holding(
        *(pod(f"old-{i}", namespace="games", age=f"{40 - i}h") for i in (1, 2, 3)),
        pod("elsewhere", age="99h"),
    ),
    node("n2"),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(EXAMPLE, tmp_path_factory.mktemp("site"))


def metas(server: ApiServer) -> dict[str, dict[str, Any]]:
    return {obj["metadata"]["name"]: obj["metadata"] for obj in server.store.list("Pod")}


@pytest.mark.parametrize(
    ("flags", "asked", "line"),
    [
        pytest.param((), {"old-1", "old-2"}, "INFO moving in background", id="a run"),
        pytest.param(("--dry-run",), set(), "INFO would evict", id="a dry run"),
    ],
)
def test_a_run_asks_by_label_and_evicts_no_pod(
    flags: tuple[str, ...], asked: set[str], line: str, package: Path, tmp_path: Path
) -> None:
    with ApiServer(WORLD.objects, clock=lambda: WORLD.now) as server:
        config = server.kubeconfig(tmp_path / "config")
        words = ("run", "--policy", str(POLICY), "--kubeconfig", str(config), *flags)
        done = python("-m", "resettle", *words, cwd=tmp_path, reach=(package,))

        assert done.returncode == 0, done.stderr
        assert {name for name, meta in metas(server).items() if LABEL in meta["labels"]} == asked
        assert not any("deletionTimestamp" in meta for meta in metas(server).values())
        assert not any(request.path.endswith("/eviction") for request in server.requests)
    for name in ("old-1", "old-2"):
        assert f"{line} pod=games/{name} " in done.stderr


def test_without_the_package_the_mover_is_unknown(tmp_path: Path) -> None:
    done = python("-m", "resettle", "policy", "check", str(POLICY), cwd=tmp_path)

    assert done.returncode == 1
    assert "no plugin is named `PleaseLeave`" in done.stderr


def test_in_the_older_policy_no_mover_can_be_chosen(package: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.read_text().replace("resettle/v1\n", "descheduler/v1alpha2\n"))

    done = python("-m", "resettle", "policy", "check", str(policy), cwd=tmp_path, reach=(package,))

    assert done.returncode == 1
    assert "`evict` belongs to `apiVersion: resettle/v1`" in done.stderr


def test_a_label_that_cannot_be_is_named_with_its_place(package: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.read_text().replace(LABEL, "'please leave'"))

    done = python("-m", "resettle", "policy", "check", str(policy), cwd=tmp_path, reach=(package,))

    assert done.returncode == 1
    assert "pluginConfig[2].args.label\n    `please leave` cannot be a label" in done.stderr


def test_the_tests_of_the_package_pass_once_it_is_installed(package: Path) -> None:
    done = python("-m", "pytest", "-q", cwd=EXAMPLE, reach=(package,))

    assert done.returncode == 0, done.stdout


def test_the_readme_shows_what_its_command_prints(package: Path) -> None:
    (shown,) = [
        command for command in Page(EXAMPLE / "README.md").commands if "check" in command.command
    ]
    _, *words = shown.command.split()

    done = python("-m", "resettle", *words, cwd=EXAMPLE, reach=(package,))

    assert done.stdout == shown.printed


@pytest.mark.parametrize(
    "source", [pytest.param(path, id=path.name) for path in sorted(EXAMPLE.rglob("*.py"))]
)
def test_the_example_enters_by_the_public_doors_only(source: Path) -> None:
    taken = imported_from_resettle(source)

    assert taken
    for module, name in taken:
        assert module in DOORS
        assert name in import_module(module).__all__
