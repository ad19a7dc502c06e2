"""Deschedulers put together in code, and kinds of object that plugins bring themselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from resettle.errors import InputError, PolicyError
from resettle.framework import (
    Args,
    Descheduler,
    Draft,
    Instance,
    Kind,
    Limits,
    Plugin,
    Profile,
    Registry,
    Stopped,
    build_descheduler,
)
from resettle.framework.view import View
from resettle.model.selectors import parse_selector
from resettle.model.semantics import IMPROVED
from resettle.policy.args import ExtensionPoint
from resettle.policy.load import load_policy
from resettle.testing import World, cluster, node, plan_policy, pod
from tests.framework.harness import EVICTOR, guarding


class PickArgs(Args, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()


def pick(args: PickArgs, view: View, draft: Draft) -> Stopped | None:
    for each_node in view.nodes:
        for each in view.active_on(each_node):
            if each.name in args.names:
                draft.propose(each, because="was picked")
    return None


PICK = Plugin(name="Pick", args=PickArgs, deschedule=pick)


def a_and_b() -> World:
    return cluster(node("n1").holding(pod("a"), pod("b")), node("n2").holding(pod("c", owner=None)))


def test_a_descheduler_needs_neither_policy_nor_registry() -> None:
    picking = Instance(PICK, PickArgs(names=("a", "b", "c")), ExtensionPoint.DESCHEDULE)
    bare = Descheduler(profiles=(Profile(name="mine", deschedule=(picking,)),))
    guarded = Descheduler(
        profiles=(
            Profile(
                name="mine",
                deschedule=(picking,),
                filters=(guarding(EVICTOR, "filter"),),
            ),
        ),
        limits=Limits(total=1),
        semantics=IMPROVED,
    )
    world = a_and_b()

    assert {move.pod.name for move in bare.draw_plan(world.snapshot()).moves} == {"a", "b", "c"}
    assert len(guarded.draw_plan(world.snapshot()).moves) == 1
    assert guarded.draw_plan(world.snapshot()).refused == {"limit-total": 1, "no-owner": 1}


def test_a_descheduler_in_code_selects_its_nodes() -> None:
    picking = Instance(PICK, PickArgs(names=("a", "c")), ExtensionPoint.DESCHEDULE)
    descheduler = Descheduler(
        profiles=(Profile(name="mine", deschedule=(picking,)),),
        node_selector=parse_selector("kubernetes.io/hostname=n1"),
    )

    assert descheduler.draw_plan(a_and_b().snapshot()).skipped is not None


POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 5
profiles:
- name: own
  pluginConfig: [{name: Pick, args: {names: [a, c]}}]
  plugins: {deschedule: {enabled: [Pick]}}
"""


def test_a_registry_of_one_s_own_serves_a_policy() -> None:
    registry = Registry([PICK, EVICTOR])
    descheduler = build_descheduler(load_policy(POLICY, name="own", plugins=registry), registry)

    assert descheduler.limits == Limits(total=5)
    assert [instance.name for instance in descheduler.profiles[0].instances] == [
        "DefaultEvictor",
        "DefaultEvictor",
        "Pick",
    ]
    assert [move.pod.name for move in descheduler.draw_plan(a_and_b().snapshot()).moves] == ["a"]


def test_a_policy_may_only_name_what_the_registry_holds() -> None:
    with pytest.raises(PolicyError, match="no plugin is named `Pick`"):
        load_policy(POLICY, name="own", plugins=Registry([EVICTOR]))


# -- kinds of a plugin's own ----------------------------------------------------------------------


class Wish(Struct, frozen=True):
    """A wish that a pod leave."""

    pod: str


def grant(args: Any, view: View, draft: Draft) -> Stopped | None:
    wishes: tuple[Wish, ...] = view.others["Wish"]
    for wish in wishes:
        if wanted := view.pod("default", wish.pod):
            draft.propose(wanted, because="was asked")
    return None if wishes else Stopped("no-wish", "there is nothing to do")


GRANT = Plugin(
    name="Grant",
    deschedule=grant,
    kinds=(Kind("Wish", Wish),),
    reads=lambda args: frozenset({"Wish"}),
)
GRANTING = {
    "profiles": [
        {
            "name": "it",
            "pluginConfig": [{"name": "Grant"}],
            "plugins": {"deschedule": {"enabled": ["Grant"]}},
        }
    ]
}


def wish(name: str) -> dict[str, Any]:
    return {"apiVersion": "example/v1", "kind": "Wish", "metadata": {"name": name}, "pod": name}


def with_objects(*objects: dict[str, Any]) -> World:
    return cluster(node("n1").holding(pod("a"), pod("b")), node("n2"), *objects)


@pytest.mark.parametrize(
    ("objects", "evicts", "stopped"),
    [
        pytest.param([], [], ["no-wish"], id="none"),
        pytest.param([wish("b")], ["b"], [], id="one"),
        pytest.param([wish("b"), wish("a"), wish("gone")], ["a", "b"], [], id="several"),
    ],
)
def test_a_plugin_reads_kinds_of_its_own(
    objects: list[dict[str, Any]], evicts: list[str], stopped: list[str]
) -> None:
    planned = plan_policy(GRANTING, with_objects(*objects), registry=Registry([GRANT, EVICTOR]))

    assert sorted(planned.evicts) == evicts
    assert planned.stopped == stopped


def test_a_kind_that_no_plugin_brings_is_unknown() -> None:
    with pytest.raises(InputError, match="unknown kind `Wish`"):
        with_objects(wish("a")).snapshot()


def test_an_object_that_is_not_of_its_kind_s_shape_is_reported() -> None:
    odd = {**wish("a"), "pod": 5}

    with pytest.raises(InputError, match=r"items\[4\] is not a Wish"):
        with_objects(odd).snapshot(kinds=GRANT.kinds)
