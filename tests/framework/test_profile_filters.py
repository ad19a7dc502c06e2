"""Guards that know beforehand which pods they let go answer without being asked."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import Plugin, PreparedFilter, Refusal
from resettle.model.pod import Pod, Template
from resettle.testing import cluster, node, pod
from tests.framework.harness import drawn, keeper, proposing


def guard(asked: list[str], lets_go: Any) -> Plugin:
    """A guard that notes which pods it was asked about and refuses all of them."""

    def ask(made: object, pod: Pod) -> Refusal | None:
        asked.append(pod.name)
        return Refusal("kept", "is kept")

    return Plugin(name="Noting", filter=PreparedFilter(lambda args, view: {}, ask, lets_go))


def frontends(made: object, template: Template) -> bool:
    return template.labels.get("app") == "frontend"


WORLD = cluster(
    node("n1").holding(
        pod("f1", labels={"app": "frontend"}),
        pod("f2", labels={"app": "frontend"}, terminating=True),
        pod("b1", labels={"app": "backend"}),
    ),
    node("n2"),
)


def test_pods_of_a_template_that_is_let_go_are_not_asked_about_unless_they_terminate() -> None:
    asked: list[str] = []

    plan = drawn(WORLD, proposing("f1", "f2", "b1"), guards=[guard(asked, frontends)])

    assert [move.pod.name for move in plan.moves] == ["f1"]
    assert asked == ["f2", "b1"]
    assert plan.refused == {"kept": 2}


def test_all_guards_must_let_a_template_go_before_its_pods_are_not_asked_about() -> None:
    asked: list[str] = []
    guards = [guard(asked, lambda made, template: True), keeper("f1")]

    plan = drawn(WORLD, proposing("f1"), guards=guards)

    assert asked == ["f1"]
    assert plan.moves == ()


@pytest.mark.parametrize("lets_go", [None, lambda made, template: template.no_such_thing])
def test_a_guard_that_cannot_know_beforehand_is_asked_about_each_pod(lets_go: Any) -> None:
    asked: list[str] = []

    plan = drawn(WORLD, proposing("f1", "b1"), guards=[guard(asked, lets_go)])

    assert asked == ["f1", "b1"]
    assert plan.moves == ()
