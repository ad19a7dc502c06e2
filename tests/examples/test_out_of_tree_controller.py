"""The example of a controller, installed by pip, and finished pods that it deletes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from resettle.testing import ApiServer, DeniedPermission, cluster, node, pod
from tests import ROOT
from tests.docs.page import Page
from tests.examples.harness import install, python

from .test_out_of_tree import DOORS, imported_from_resettle

EXAMPLE = ROOT / "examples" / "tidy-finished"
POLICY = EXAMPLE / "policy.yaml"
WORLD = cluster(
    node("n1").holding(pod("done", phase="Succeeded", age="9h"), pod("running", age="9h")),
    node("n2"),
)
PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(EXAMPLE, tmp_path_factory.mktemp("site"))


def names(server: ApiServer) -> set[str]:
    return {item["metadata"]["name"] for item in server.store.list("Pod")}


def words_to_run(server: ApiServer, folder: Path, *flags: str) -> list[str]:
    config = server.kubeconfig(folder / "config")
    return ["-m", "resettle", "run", "--policy", str(POLICY), "--kubeconfig", str(config), *flags]


def test_a_run_has_the_controller_work_until_it_is_stopped(package: Path, tmp_path: Path) -> None:
    with ApiServer(WORLD.objects) as server:
        words = words_to_run(
            server, tmp_path, "--descheduling-interval", "5m", "--secure-port", "0"
        )
        run = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": str(package), "NO_COLOR": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while names(server) != {"running"} and time.monotonic() < deadline:
                time.sleep(0.05)
            assert names(server) == {"running"}
        finally:
            run.send_signal(signal.SIGTERM)
            _, log = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 0, log
    for event in ("controller started", "finished pod deleted", "controller stopped"):
        assert f"INFO {event} " in log


def test_in_a_dry_run_nothing_is_deleted(package: Path, tmp_path: Path) -> None:
    with ApiServer(WORLD.objects) as server:
        words = words_to_run(server, tmp_path, "--dry-run")
        done = python(*words, cwd=tmp_path, reach=(package,))

        assert done.returncode == 0, done.stderr
        assert names(server) == {"done", "running"}
    assert "controller started" not in done.stderr


def test_a_run_that_may_not_delete_pods_does_not_begin(package: Path, tmp_path: Path) -> None:
    denied = [DeniedPermission(verb="delete", resource="pods")]
    with ApiServer(WORLD.objects, denied=denied) as server:
        done = python(*words_to_run(server, tmp_path), cwd=tmp_path, reach=(package,))

    assert done.returncode == 1
    assert "delete" in done.stderr
    assert "controller started" not in done.stderr


def test_its_role_follows_from_what_it_declares(package: Path, tmp_path: Path) -> None:
    words = ("-m", "resettle", "rbac", "--policy", str(POLICY))
    done = python(*words, cwd=tmp_path, reach=(package,))

    assert done.returncode == 0, done.stderr
    rules = [
        rule
        for document in yaml.safe_load_all(done.stdout)
        if document and document["kind"] == "ClusterRole"
        for rule in document["rules"]
    ]
    assert any("delete" in rule["verbs"] and "pods" in rule["resources"] for rule in rules)


def test_in_the_older_policy_no_controller_can_be_enabled(package: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.read_text().replace("resettle/v1\n", "descheduler/v1alpha2\n"))

    done = python("-m", "resettle", "policy", "check", str(policy), cwd=tmp_path, reach=(package,))

    assert done.returncode == 1
    assert "`controller` belongs to `apiVersion: resettle/v1`" in done.stderr


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
