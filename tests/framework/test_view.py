"""A view: the nodes a cycle works on, the pods that arguments select, and when it is freed."""

from __future__ import annotations

import gc
import weakref
from dataclasses import fields
from typing import Any

import pytest

from resettle.framework import (
    Descheduler,
    Draft,
    Instance,
    Plugin,
    PreparedFilter,
    Profile,
    SelectingArgs,
    View,
)
from resettle.model import IMPROVED, PARITY, Pod, Semantics, Snapshot
from resettle.model.selectors import parse_selector
from resettle.policy.args import Args, ExtensionPoint, Namespaces
from resettle.testing import cluster, node, pod

NODES = [
    node("n1", labels={"pool": "blue"}),
    node("n2", labels={"pool": "red"}),
    node("n3", labels={"pool": "blue"}, ready=False),
    node("n4", labels={"pool": "blue"}, ready=None),
    node("n5", labels={"pool": "blue"}, cordoned=True),
]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("", ["n1", "n2", "n4", "n5"], id="every ready node, cordoned or not"),
        pytest.param("pool=blue", ["n1", "n4", "n5"], id="selected"),
        pytest.param("pool!=blue", ["n2"], id="not selected"),
        pytest.param("pool=green", [], id="none"),
    ],
)
def test_a_cycle_works_on_ready_nodes_that_are_selected(selector: str, names: list[str]) -> None:
    view = View(cluster(*NODES).snapshot(), PARITY, parse_selector(selector))

    assert [node.name for node in view.nodes] == names
    assert view.names_in_scope == set(names)


def test_a_snapshot_knows_neither_policy_nor_plan() -> None:
    names = {field.name for field in fields(Snapshot)} | set(vars(Snapshot))

    assert names.isdisjoint(
        {"semantics", "node_selector", "in_scope", "nodes", "fit", "outlook", "prepared"}
    )


def test_what_plugins_read_of_the_snapshot_is_at_hand() -> None:
    world = cluster(node("n1").holding(pod("a"), pod("b", phase="Failed")), node("n2"))
    snapshot = world.snapshot()
    view = View(snapshot)

    shared = [field.name for field in fields(Snapshot)]
    assert all(getattr(view, name) is getattr(snapshot, name) for name in shared)
    assert view.pods == snapshot.pods
    assert view.replicas == snapshot.replicas
    assert view.pod("default", "a") is snapshot.pod("default", "a")
    (first, _) = view.nodes
    assert view.pods_on(first) == snapshot.pods_on(first)
    assert view.active_on(first) == snapshot.active_on(first)
    assert view.requests_on(first) == snapshot.requests_on(first)


def names(pods: list[Pod]) -> set[str]:
    return {pod.name for pod in pods}


def test_arguments_select_pods_by_namespace_and_labels() -> None:
    world = cluster(
        node("n1").holding(
            pod("web", labels={"app": "web"}),
            pod("db", labels={"app": "db"}),
            pod("far", namespace="shop", labels={"app": "web"}),
        ),
        node("down", ready=False).holding(pod("unseen", labels={"app": "web"})),
    )
    view = world.view()
    everything = SelectingArgs()
    here = SelectingArgs(namespaces=Namespaces(include=("default",)))

    assert names(view.pods_selected_by(everything)) == {"web", "db", "far"}
    assert names(view.pods_selected_by(here)) == {"web", "db"}
    assert names(view.pods_selected_by(here, view.pods)) == {"web", "db", "unseen"}
    for each in view.pods:
        is_selected = each.namespace == "default"
        assert (each.template in view.templates_selected_by(here)) == is_selected
        active = view.active_of(each.template)
        assert view.active_of_selected(here, each.template) == (active if is_selected else [])


def test_pods_come_node_by_node_in_canonical_order() -> None:
    world = cluster(
        node("n2").holding(pod("c"), pod("d")),
        node("n1").holding(pod("a"), pod("b")),
        node("n3", ready=False).holding(pod("e")),
    )
    view = world.view()

    in_turn = [(on.name, pods) for on, pods in view.pods_by_node(reversed(view.pods))]

    assert [name for name, _ in in_turn] == ["n1", "n2"]
    assert all(pods == view.pod_index.on(name) for name, pods in in_turn)


@pytest.mark.parametrize("semantics", [PARITY, IMPROVED], ids=["parity", "improved"])
def test_a_move_takes_a_place_in_the_projection_unless_moves_take_none(
    semantics: Semantics,
) -> None:
    moving = pod("moving", cpu="1")
    view = cluster(node("n1").holding(moving), node("n2")).view(semantics)
    subject = view.pod("default", "moving")
    assert subject is not None

    view.projection.move(subject, "n2")

    after = "n1" if semantics.moves_take_no_place else "n2"
    assert view.projection.pod_locations.current_node(subject) == after
    assert view.active_on(view.nodes[0]) == [subject], "the snapshot stays as it is"


def test_an_answer_is_prepared_once_for_the_same_arguments() -> None:
    made: list[Args] = []

    def make(args: Args, view: View) -> object:
        made.append(args)
        return object()

    view, first, second = cluster().view(), Args(), Args()

    assert view.prepare_once(first, make) is view.prepare_once(first, make)
    assert view.prepare_once(second, make) is not view.prepare_once(first, make)
    assert len(made) == 2


class Remembering:
    """A prepared answer that refers back to its view."""

    def __init__(self, args: Any, view: View) -> None:
        self.view = view


@pytest.mark.parametrize("fails", [False, True], ids=["drawn", "the policy asks for what is not"])
def test_a_view_is_freed_as_soon_as_its_plan_is_drawn(*, fails: bool) -> None:
    views: list[weakref.ref[View]] = []

    def deschedule(args: Any, view: View, draft: Draft) -> None:
        views.append(weakref.ref(view))
        for each_pod in view.pods:
            draft.propose(each_pod, because="was asked")

    def needs(args: Any, view: View) -> list[str]:
        views.append(weakref.ref(view))
        view.prepare_once(args, Remembering)
        return ["something is missing"] if fails else []

    guard = Plugin(name="Guard", filter=PreparedFilter(Remembering, lambda made, pod: None))
    taker = Plugin(name="Taker", deschedule=deschedule, needs=needs)  # type: ignore[arg-type]
    profile = Profile(
        name="p",
        deschedule=(Instance(taker, Args(), ExtensionPoint.DESCHEDULE),),
        filters=(Instance(guard, Args(), ExtensionPoint.FILTER),),
    )
    planner = Descheduler(profiles=(profile,), semantics=IMPROVED)
    snapshot = cluster(node("n1").holding(pod("a")), node("n2")).snapshot()
    gc.collect()
    gc.disable()
    try:
        if fails:
            with pytest.raises(Exception, match="something is missing"):
                planner.draw_plan(snapshot)
        else:
            assert planner.draw_plan(snapshot).moves
        assert views
        assert {view() for view in views} == {None}
    finally:
        gc.enable()
