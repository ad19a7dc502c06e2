"""Captures: what is in them, what is not, and that a plan of them equals a plan of the cluster."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from resettle.cli.text.plan import plan_json
from resettle.dumps.anonymize import trimmed_struct
from resettle.dumps.collection import list_cluster
from resettle.errors import ClusterError, InputError, PluginError
from resettle.framework import Kind, build_descheduler, default_registry
from resettle.kube.auth.access import Access
from resettle.model.kinds import KINDS, kinds_to_list
from resettle.policy.load import load_policy
from resettle.testing import NOW, ApiServer, Fault, definition, node, pod
from resettle.testing.builders import Object
from tests.builders import Case, cases
from tests.dumps.harness import copied

THOROUGH = settings(max_examples=60, deadline=None, derandomize=True, database=None)
EVERYTHING = frozenset(KINDS)


# -- the plan is the same ------------------------------------------------------------------------


def with_unread_fields(objects: list[Object], dice: Random) -> list[Object]:
    """The objects, each with different values in fields that no decision depends on."""
    objects = deepcopy(objects)
    for item in objects:
        if item["kind"] == "Pod":
            for owner in item["metadata"]["ownerReferences"]:
                owner["blockOwnerDeletion"] = dice.choice([True, False])
            for toleration in item["spec"]["tolerations"]:
                toleration["tolerationSeconds"] = dice.choice([60, 300])
            item["spec"]["containers"][0]["env"] = [{"name": "MOOD", "value": dice.choice("ab")}]
    return objects


@THOROUGH
@given(cases(), st.randoms(use_true_random=False))
def test_the_plan_from_a_capture_is_the_plan_from_the_live_list(case: Case, dice: Random) -> None:
    registry = default_registry()
    policy = load_policy(json.dumps(case.document), name="policy", plugins=registry)
    planner = build_descheduler(policy, registry)
    with ApiServer(with_unread_fields(case.objects, dice)) as server:
        live = list_cluster(Access(server=server.url), EVERYTHING).snapshot(NOW)
        copy = copied(server)
        narrow = copied(server, reads=planner.reads)

    plan = planner.draw_plan(replace(live, moving=case.moving))
    for other in (copy, narrow):
        drawn = planner.draw_plan(replace(other.snapshot(), moving=case.moving))
        assert plan_json(drawn) == plan_json(plan)
    assert "MOOD" not in copy.text.decode()


# -- what is kept --------------------------------------------------------------------------------

_CONTAINER = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("more", "secret"),
    [
        pytest.param(
            {"spec": {"containers": [{**_CONTAINER, "env": [{"name": "A", "value": "hush"}]}]}},
            "hush",
            id="the environment",
        ),
        pytest.param(
            {"spec": {"containers": [{**_CONTAINER, "command": ["run", "--key=hush"]}]}},
            "hush",
            id="a command",
        ),
        pytest.param(
            {"spec": {"containers": [{**_CONTAINER, "args": ["hush"]}]}}, "hush", id="arguments"
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "hush"}}]}},
            "hush",
            id="the name of a secret",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/hush"}}]}},
            "hush",
            id="a path of the node",
        ),
        pytest.param({"metadata": {"annotations": {"note": "hush"}}}, "hush", id="an annotation"),
        pytest.param(
            {"metadata": {"managedFields": [{"manager": "hush"}]}}, "hush", id="who wrote a field"
        ),
        pytest.param({"status": {"podIP": "192.0.2.7"}}, "192.0.2.7", id="an address"),
        pytest.param({"status": {"message": "hush"}}, "hush", id="a message"),
    ],
)
def test_what_no_plan_reads_is_left_out(more: Object, secret: str) -> None:
    with ApiServer([pod("web-1", **more)]) as server:
        copy = copied(server)

    assert [item["metadata"]["name"] for item in copy.of("Pod")] == ["web-1"]
    assert secret not in copy.text.decode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelled_out", [False, True])
def test_every_field_that_the_model_reads_is_kept(kind: str, spelled_out: bool) -> None:
    def names(struct: Any) -> list[str]:
        return [field.encode_name for field in msgspec.structs.fields(struct)]

    assert names(trimmed_struct(KINDS[kind].struct, spelled_out=spelled_out)) == names(
        KINDS[kind].struct
    )


def test_objects_say_what_they_are_and_defaults_go_without_saying() -> None:
    with ApiServer([node("n1").node]) as server:
        (written_node,) = copied(server).of("Node")

    offer = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert written_node == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
        "spec": {"taints": []},
        "status": {
            "allocatable": offer,
            "capacity": offer,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


# -- kinds ---------------------------------------------------------------------------------------


class Meta(Struct, frozen=True):
    name: str


class Widget(Struct, frozen=True):
    metadata: Meta
    kind: str = ""
    size: int = 1


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


@pytest.mark.parametrize(
    ("kinds", "reads", "listed"),
    [
        pytest.param((), None, sorted(KINDS), id="all that resettle knows"),
        pytest.param((WIDGET,), None, sorted([*KINDS, "Widget"]), id="and those of plugins"),
        pytest.param(
            (Kind("Widget", Widget),), None, sorted(KINDS), id="unless their path is unknown"
        ),
        pytest.param((), frozenset(), ["Node", "Pod"], id="nodes and pods always"),
        pytest.param(
            (WIDGET,),
            frozenset({"Namespace", "usage"}),
            ["Namespace", "Node", "Pod"],
            id="what a policy reads",
        ),
        pytest.param(
            (WIDGET,),
            frozenset({"Widget"}),
            ["Node", "Pod", "Widget"],
            id="also a kind of a plugin",
        ),
    ],
)
def test_kinds_are_listed_as_they_are_read(
    kinds: tuple[Kind, ...], reads: frozenset[str] | None, listed: list[str]
) -> None:
    assert sorted(kind.name for kind in kinds_to_list(kinds, reads)) == listed


def test_a_kind_that_is_read_and_listed_nowhere_is_an_error() -> None:
    with pytest.raises(InputError, match="reads Widget declares no path to list it"):
        kinds_to_list([Kind("Widget", Widget)], frozenset({"Widget"}))


def test_two_structs_for_one_kind_are_an_error() -> None:
    with pytest.raises(PluginError, match="two structs are declared for the kind `Pod`"):
        kinds_to_list([Kind("Pod", Widget)])


def test_kinds_of_plugins_come_back_as_the_plugin_reads_them() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    objects = [definition("Widget", group="example.com"), {**widget, "size": 3, "colour": "red"}]
    with ApiServer(objects) as server:
        copy = copied(server, kinds=[WIDGET])

    assert copy.of("Widget") == [{**widget, "size": 3}]
    assert copy.snapshot([WIDGET]).others == {"Widget": (Widget(Meta("w"), "Widget", 3),)}


# -- pages ---------------------------------------------------------------------------------------


def test_a_long_list_is_written_page_by_page() -> None:
    progress: list[tuple[str, int]] = []
    with ApiServer([pod(f"web-{i}") for i in range(1001)]) as server:
        copy = copied(
            server,
            reads=frozenset(),
            progress=lambda plural, count: progress.append((plural, count)),
        )

    assert copy.captured == ({"nodes": 0, "pods": 1001}, len(copy.packed))
    assert len({item["metadata"]["name"] for item in copy.of("Pod")}) == 1001
    assert progress == [("nodes", 0), ("pods", 500), ("pods", 1000), ("pods", 1001)]


def test_a_cluster_without_objects_is_a_capture_all_the_same() -> None:
    with ApiServer() as server:
        copy = copied(server, reads=frozenset())

    assert copy.items == []
    assert len(copy.snapshot().pods) == 0


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        pytest.param(
            {"spec": {"containers": "none"}},
            "the list of pods cannot be understood: Expected `array | null`, got `str`",
            id="an object that is none",
        ),
    ],
)
def test_what_cannot_be_understood_is_an_error(broken: Object, message: str) -> None:
    with ApiServer([pod("web-1", **broken)]) as server, pytest.raises(ClusterError) as caught:
        copied(server)
    assert str(caught.value).startswith(message)


def test_what_the_server_refuses_is_an_error() -> None:
    refusal = Fault(verbs=("list",), path="/api/v1/pods", status=403)
    with ApiServer(faults=[refusal]) as server, pytest.raises(ClusterError, match="pods"):
        copied(server)
