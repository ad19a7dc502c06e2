"""One mistake is reported once: what a plugin says because of it is kept back, the rest is not."""

from __future__ import annotations

import pytest

from tests.policy.harness import errors, with_args


def places(plugin: str, args: str, point: str = "deschedule") -> list[str]:
    """The paths inside `args` at which something is wrong."""
    problems = errors(with_args(plugin, args, point))
    return [
        problem.split(" ")[1].removeprefix("profiles[0].pluginConfig[0].args")
        for problem in problems
    ]


@pytest.mark.parametrize(
    ("args", "reported_at"),
    [
        pytest.param("maxPodLifeTimeSecond: 5", [".maxPodLifeTimeSecond"], id="a misspelt key"),
        pytest.param("maxPodLifeTimeSeconds: five", [".maxPodLifeTimeSeconds"], id="a wrong type"),
        pytest.param("{}", [""], id="nothing at all"),
        pytest.param(
            "maxPodLifeTimeSeconds: -1\nnamespaces: {include: [a], exclude: [b]}",
            [".maxPodLifeTimeSeconds", ".namespaces"],
            id="an independent mistake is reported as well",
        ),
        pytest.param(
            "states: [Sleeping, 5]",
            [".states[1]"],
            id="nothing more about a key with a mistake",
        ),
        pytest.param(
            "states: [Sleeping, Sleeping]",
            [".states[0]", ".states[1]"],
            id="two remarks of the plugin about one key",
        ),
        pytest.param("- a", [""], id="a list for a mapping"),
    ],
)
def test_the_echo_of_a_mistake_is_not_reported(args: str, reported_at: list[str]) -> None:
    assert places("PodLifeTime", args) == reported_at


def test_a_remark_that_names_a_key_with_a_mistake_is_an_echo() -> None:
    args = "thresholds: {cpu: 120, memory: 5}\ntargetThresholds: {cpu: 5, memory: 5}"

    assert places("LowNodeUtilization", args, "balance") == [".thresholds.cpu"]
