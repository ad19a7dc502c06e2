"""`resettle explain` asked about a cluster that is there: the answers are those of its dump."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from resettle.testing import PocketServer

SHOP = Path(__file__).parents[2] / "examples" / "lopsided"
NOW = "2026-01-31T12:00:00Z"


def asked(*words: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-c", "from resettle.cli.main import main; main()", *words]
    policy = ["--policy", str(SHOP / "improved.yaml"), "--now", NOW]
    done = subprocess.run([*command, *policy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["explain", "pod", "shop/search-1"], id="a pod"),
        pytest.param(["explain", "node", "node-1"], id="a node"),
        pytest.param(["explain", "cycle"], id="the cycle"),
    ],
)
def test_a_live_cluster_is_explained_as_its_dump_is(words: list[str], tmp_path: Path) -> None:
    documents = yaml.safe_load_all((SHOP / "cluster.yaml").read_text())
    objects = [item for document in documents for item in document.get("items", [document])]

    with PocketServer(objects) as pocket:
        live = asked(*words, "--kubeconfig", str(pocket.kubeconfig(tmp_path / "config")))

    assert live == asked(*words, "--cluster", str(SHOP / "cluster.yaml"))
