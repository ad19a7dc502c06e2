"""The installed `descheduler`: what upstream's manifests call, with what they call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resettle import __version__
from resettle.testing import ApiServer, cluster, node, pod
from tests.cli.harness import LIFETIME, Done, surroundings, write

COMMAND = Path(sys.executable).with_name("descheduler")


def descheduler(*words: str, cwd: Path) -> Done:
    done = subprocess.run(
        [COMMAND, *words], cwd=cwd, env=surroundings(), capture_output=True, check=False
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--policy-config-file", "policy.yaml", "--v", "3"], id="as its Job has them"),
        pytest.param(["--policy-config-file=policy.yaml", "--v=3"], id="as its chart writes them"),
        pytest.param(["-policy_config_file=policy.yaml", "-v=3"], id="as Go takes them too"),
    ],
)
def test_a_manifest_of_upstream_gets_its_run(words: list[str], tmp_path: Path) -> None:
    world = cluster(node("n1").holding(pod("old", age="2h")), node("n2"))
    write(tmp_path, {"policy.yaml": LIFETIME})
    with ApiServer(world.objects) as server:
        server.kubeconfig(tmp_path / "config")
        done = descheduler(*words, "--kubeconfig=config", cwd=tmp_path)
        evicted = [
            request.path for request in server.requests if request.path.endswith("/eviction")
        ]

    assert (done.code, done.out) == (0, ""), done.err
    assert evicted == ["/api/v1/namespaces/default/pods/old/eviction"]
    assert " INFO evicted pod=default/old " in done.err


def test_it_prints_its_version(tmp_path: Path) -> None:
    done = descheduler("version", cwd=tmp_path)

    assert done.code == 0
    assert done.out == f"resettle {__version__}, in place of kubernetes-sigs/descheduler\n"


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_its_help_is_that_of_run(word: str, tmp_path: Path) -> None:
    done = descheduler(word, cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: descheduler --policy-config-file FILE [flags]\n")
    assert "--leader-elect-renew-deadline" in done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--polcy=x"], "descheduler: error: there is no flag --polcy; did you mean --policy?"),
        (
            ["--policy-config-file=x", "--dry-run", "false"],
            "descheduler: error: `false` after --dry-run is not its value; write --dry-run=false",
        ),
        (
            [],
            "descheduler: error: the following arguments are required: "
            "--policy/--policy-config-file",
        ),
        (["--policy-config-file=x"], "error: there is no file `x`; check the path"),
    ],
)
def test_every_usage_error_exits_with_one_as_upstream_does(
    words: list[str], says: str, tmp_path: Path
) -> None:
    done = descheduler(*words, cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(says + "\n")
