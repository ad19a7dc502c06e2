"""The runner from its command line to its tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from bench.run import main, policy_text, repeatable


@pytest.mark.parametrize(("fit", "value"), [("on", True), ("off", False)])
def test_node_fit_is_turned_on_and_off_and_nothing_else(fit: str, value: bool) -> None:
    (profile,) = yaml.safe_load(policy_text(fit))["profiles"]
    evictor, *others = profile["pluginConfig"]

    assert evictor["args"]["nodeFit"] is value
    assert len(others) == 7


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        pytest.param(["--nodes", "100", "1000"], "--nodes 100 1000", id="as it was"),
        pytest.param(["--growth", "--write"], "--growth", id="without writing"),
        pytest.param(["--peer", "/x/y", "--alone"], "--alone", id="without this machine's files"),
        pytest.param(["--peer=/x/y", "--alone"], "--alone", id="written the other way"),
    ],
)
def test_the_command_that_is_shown_can_be_repeated_elsewhere(
    words: Sequence[str], shown: str
) -> None:
    assert repeatable(words) == f"python -m bench.run {shown}"


def test_a_small_cluster_is_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--nodes", "12", "--pods", "15", "--node-fit", "on", "--alone"])

    out = capsys.readouterr().out
    assert code == 0
    assert "| 12 nodes, 180 pods | on      | resettle |" in out
    assert "| LowNodeUtilization " in out
    assert "`python -m bench.run --nodes 12 --pods 15 --node-fit on --alone`" in out
