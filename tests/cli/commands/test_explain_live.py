"""`resettle explain` asked about a cluster that is there: the answers are those of its dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from resettle.testing import ApiServer
from tests.cli.harness import LOPSIDED, NOW, lopsided_objects, resettle


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("pod", "shop/search-1"), id="a pod"),
        pytest.param(("node", "node-1"), id="a node"),
        pytest.param(("cycle",), id="the cycle"),
    ],
)
def test_a_live_cluster_is_explained_as_its_dump_is(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("explain", *words, "--policy", str(LOPSIDED / "improved.yaml"), "--now", NOW)
    dump = resettle(*asked, "--cluster", str(LOPSIDED / "cluster.yaml"), cwd=tmp_path)

    with ApiServer(lopsided_objects()) as server:
        config = server.kubeconfig(tmp_path / "config")
        live = resettle(*asked, "--kubeconfig", str(config), cwd=tmp_path)

    assert (live.code, live.out) == (0, dump.out)
    assert dump.out
