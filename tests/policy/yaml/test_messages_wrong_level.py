"""A selector at the wrong level would widen a policy in silence; it is an error that leads home."""

from __future__ import annotations

from textwrap import indent

import pytest

from resettle.framework import default_registry
from tests.policy.harness import HEAD, IMPROVED_HEAD, errors

SELECTORS = ["labelSelector: {matchLabels: {app: web}}", "namespaces: {include: [shop]}"]
PLACES = {
    "at the top level": ("", ""),
    "beside the plugins of a profile": ("profiles[0].", "  "),
    "beside args": ("profiles[0].pluginConfig[0].", "    "),
    "among the plugins of a profile": ("profiles[0].plugins.", "    "),
    "beside enabled": ("profiles[0].plugins.deschedule.", "      "),
}


def policy(head: str, place: str, selector: str) -> str:
    """A policy that evicts pods by age, with a line at one of the places where it means nothing."""
    lines = {
        "at the top level": "profiles:",
        "beside the plugins of a profile": "- name: tidy",
        "beside args": "  - name: PodLifeTime",
        "among the plugins of a profile": "  plugins:",
        "beside enabled": "    deschedule:",
    }
    _, margin = PLACES[place]
    body = [
        "profiles:",
        "- name: tidy",
        "  pluginConfig:",
        "  - name: PodLifeTime",
        "    args: {maxPodLifeTimeSeconds: 60}",
        "  plugins:",
        "    deschedule:",
        "      enabled: [PodLifeTime]",
    ]
    at = body.index(lines[place]) + (place != "at the top level")
    body.insert(at, indent(selector, margin))
    return head + "\n".join(body)


@pytest.mark.parametrize("head", [HEAD, IMPROVED_HEAD], ids=["v1alpha2", "resettle"])
@pytest.mark.parametrize("selector", SELECTORS, ids=["labelSelector", "namespaces"])
@pytest.mark.parametrize("place", PLACES)
def test_a_selector_at_the_wrong_level_is_an_error_that_names_the_right_one(
    head: str, place: str, selector: str
) -> None:
    key = selector.split(":")[0]
    (problem,) = errors(policy(head, place, selector), default_registry())

    assert f": {PLACES[place][0]}{key} " in problem
    assert f"`{key}` belongs under `pluginConfig[].args`, not here" in problem


@pytest.mark.parametrize("head", [HEAD, IMPROVED_HEAD], ids=["v1alpha2", "resettle"])
@pytest.mark.parametrize("selector", SELECTORS, ids=["labelSelector", "namespaces"])
def test_within_args_it_is_at_home(head: str, selector: str) -> None:
    text = policy(head, "beside args", selector)
    (line,) = [line for line in text.splitlines() if selector in line]
    at_home = text.replace(line + "\n", "").replace("60}", f"60, {selector}}}")

    assert errors(at_home, default_registry()) == []
