"""Dumps: kinds that plugins bring, lists that do not repeat themselves, and objects met twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from resettle.dumps.reader import Dump
from resettle.errors import InputError, PluginError
from resettle.framework import Kind
from resettle.testing import NOW, budget, claim, namespace, node, pod, priority_class

Object = dict[str, Any]


class Meta(Struct, frozen=True):
    name: str


class Widget(Struct, frozen=True):
    metadata: Meta
    size: int = 1


class Gadget(Struct, frozen=True):
    metadata: Meta


WIDGET = Kind("Widget", Widget)


def widget(name: str, **more: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **more}


def listing(kind: str, *items: Object) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


def kindless(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def dumped(*contents: bytes, kinds: tuple[Kind, ...] = ()) -> Dump:
    """A dump of these files."""
    dump = Dump(kinds)
    for i, content in enumerate(contents):
        dump.add(content, f"file-{i}")
    return dump


# -- kinds of plugins ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("Widget", listing("List", widget("w")), id="in a list of anything"),
        pytest.param("Widget", listing("WidgetList", kindless(widget("w"))), id="in a list of its"),
        pytest.param("Widget", json.dumps(widget("w")).encode(), id="alone"),
        pytest.param(
            "DaemonSet",
            listing("List", {**widget("w"), "kind": "DaemonSet"}),
            id="of a kind that is passed over otherwise",
        ),
    ],
)
def test_a_plugin_finds_the_kinds_it_declares(name: str, content: bytes) -> None:
    dump = dumped(content, kinds=(Kind(name, Widget),))

    assert dump.snapshot(NOW).others == {name: (Widget(Meta("w")),)}
    assert not dump.ignored


def test_a_declared_kind_that_is_not_in_the_dump_is_an_empty_one() -> None:
    assert dumped(kinds=(WIDGET,)).snapshot(NOW).others == {"Widget": ()}


def test_plugins_may_share_a_kind_if_they_share_its_struct() -> None:
    dump = dumped(listing("List", widget("w")), kinds=(WIDGET, Kind("Widget", Widget)))

    assert dump.snapshot(NOW).others == {"Widget": (Widget(Meta("w")),)}


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param((WIDGET, Kind("Widget", Gadget)), id="a kind of two plugins"),
        pytest.param((Kind("Pod", Widget),), id="a kind of resettle's own"),
    ],
)
def test_two_structs_for_one_kind_are_an_error_that_names_it(kinds: tuple[Kind, ...]) -> None:
    with pytest.raises(PluginError) as caught:
        Dump(kinds)
    assert str(caught.value).startswith(
        f"two structs are declared for the kind `{kinds[0].name}`; plugins that read one kind "
    )


def test_the_order_of_a_dump_does_not_show_in_what_a_plugin_reads() -> None:
    some = [widget("b"), widget("a", size=3), widget("a", size=2), widget("c")]
    one_way = dumped(listing("List", *some), kinds=(WIDGET,)).snapshot(NOW).others
    other_way = dumped(
        listing("List", *some[:1:-1]), listing("List", *some[1::-1]), kinds=(WIDGET,)
    )

    assert one_way == other_way.snapshot(NOW).others
    assert [(item.metadata.name, item.size) for item in one_way["Widget"]] == [
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("c", 1),
    ]


def test_an_object_that_does_not_fit_its_struct_is_an_error_that_names_its_place() -> None:
    with pytest.raises(InputError) as caught:
        dumped(listing("List", widget("w"), widget("v", size="large")), kinds=(WIDGET,))
    assert str(caught.value) == (
        "file-0: items[1] is not a Widget as Kubernetes writes it: "
        "Expected `int`, got `str` - at `$.size`; correct it or leave it out"
    )


# -- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "item", "names_in"),
    [
        pytest.param(
            "Node",
            node("n").node,
            lambda snapshot: [x.name for x in snapshot.node_index],
            id="nodes",
        ),
        pytest.param("Pod", pod("p"), lambda snapshot: [x.key for x in snapshot.pods], id="pods"),
        pytest.param(
            "Namespace",
            namespace("ns"),
            lambda snapshot: list(snapshot.namespaces),
            id="namespaces",
        ),
        pytest.param(
            "PriorityClass",
            priority_class("gold", 5),
            lambda snapshot: list(snapshot.priority_classes),
            id="classes",
        ),
        pytest.param(
            "PodDisruptionBudget",
            budget("b", allowed=1, labels={"a": "b"}),
            lambda snapshot: list(snapshot.budgets),
            id="budgets",
        ),
        pytest.param(
            "PersistentVolumeClaim", claim("c"), lambda snapshot: list(snapshot.claims), id="claims"
        ),
    ],
)
def test_items_of_a_typed_list_need_not_say_their_kind(
    kind: str, item: Object, names_in: Any
) -> None:
    with_kind = dumped(listing("List", item)).snapshot(NOW)
    without_kind = dumped(listing(f"{kind}List", kindless(item))).snapshot(NOW)

    assert len(names_in(without_kind)) == 1
    assert names_in(without_kind) == names_in(with_kind)


@pytest.mark.parametrize(
    ("kind", "items", "unread"),
    [
        pytest.param(
            "ServiceList", [{"metadata": {"name": "s"}}] * 2, {"Service": 2}, id="skipped"
        ),
        pytest.param("PodList", [], {}, id="empty"),
        pytest.param("List", [], {}, id="an empty list of anything"),
        pytest.param(
            "List",
            [{"kind": "Secret"}, {"kind": "CronJob"}, {"kind": "Secret"}],
            {"CronJob": 1, "Secret": 2},
            id="skipped and counted by kind",
        ),
        pytest.param(
            "List",
            [{"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1"}],
            {"Job": 1},
            id="a Job of another group",
        ),
    ],
)
def test_lists_may_hold_what_no_plan_needs_or_nothing(
    kind: str, items: list[Object], unread: dict[str, int]
) -> None:
    dump = dumped(listing(kind, *items))

    assert dump.ignored == unread
    assert len(dump.snapshot(NOW).pods) == 0


def test_a_list_whose_items_are_null_is_an_empty_one() -> None:
    """As Go writes a list that was never filled."""
    dump = dumped(b'{"kind": "PodList", "apiVersion": "v1", "items": null}')

    assert len(dump.snapshot(NOW).pods) == 0


@pytest.mark.parametrize(
    ("items", "place"),
    [
        pytest.param([{"metadata": {"name": "x"}}], "items[0]", id="no kind in a list of anything"),
        pytest.param([pod("p"), 5], "items[1]", id="a number"),
        pytest.param([pod("p"), node("n").node, None], "items[2]", id="null"),
    ],
)
def test_an_item_that_is_no_object_is_an_error_that_names_its_place(
    items: list[Any], place: str
) -> None:
    with pytest.raises(InputError, match="is not a Kubernetes object") as caught:
        dumped(listing("List", *items))
    assert str(caught.value).startswith(f"file-0: {place} is not a Kubernetes object")


# -- twice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "named"),
    [
        pytest.param(node("n").node, "Node n", id="a node"),
        pytest.param(pod("p", namespace="shop"), "Pod shop/p", id="a pod"),
        pytest.param(namespace("ns"), "Namespace ns", id="a namespace"),
        pytest.param(priority_class("gold", 5), "PriorityClass gold", id="a priority class"),
        pytest.param(
            budget("b", allowed=1, labels={}), "PodDisruptionBudget default/b", id="a budget"
        ),
        pytest.param(claim("c"), "PersistentVolumeClaim default/c", id="a claim"),
    ],
)
def test_an_object_that_is_in_two_files_names_both(
    item: Object, named: str, tmp_path: Path
) -> None:
    names = []
    for name, items in {"a": [pod("x")], "b": [pod("y"), item], "c": [item]}.items():
        (tmp_path / f"{name}.json").write_bytes(listing("List", *items))
        names.append(str(tmp_path / f"{name}.json"))
    dump = Dump()
    dump.read(names)

    with pytest.raises(InputError) as caught:
        dump.snapshot(NOW)
    _, second, third = names
    assert str(caught.value) == (
        f"{named} is there twice, in {second} and in {third}; keep only one"
    )


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param((pod("p"), pod("p", namespace="shop")), id="in two namespaces"),
        pytest.param((claim("p"), pod("p")), id="of two kinds"),
    ],
)
def test_a_name_may_be_used_twice(pair: tuple[Object, Object]) -> None:
    snapshot = dumped(listing("List", *pair)).snapshot(NOW)

    assert len(snapshot.pods) + len(snapshot.claims) == 2
