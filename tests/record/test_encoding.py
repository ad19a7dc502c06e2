"""Snapshots go into a record and come out as they were."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isnan
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import Struct, structs

from resettle.errors import InputError
from resettle.framework import Kind
from resettle.model.changes import Changes
from resettle.model.measurements import METRICS_API, Figure, MetricsQuery, Readings, Used
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import Eviction, Workload
from resettle.record.encoding import PODS_PER_PAGE, ChangesDecoder, ChangesEncoder, is_plain
from resettle.record.reader import EMPTY_SNAPSHOT
from resettle.testing import NOW, World, cluster, node, pod, workload
from tests.builders import Case, cases


def passed_on(*snapshots: Snapshot, kinds: tuple[Kind, ...] = ()) -> Snapshot:
    """The last of some snapshots, as read from what was written of all."""
    packer, unpacker = ChangesEncoder(), ChangesDecoder(kinds)
    before = read = EMPTY_SNAPSHOT
    for snapshot in snapshots:
        pages = list(packer.encode(snapshot.since(before)))
        read = read.next(unpacker.decode(pages, snapshot.taken_at))
        before = snapshot
    return read


def content(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot holds, as plain values, whatever fields it has."""
    values: dict[str, Any] = {}
    for field in fields(snapshot):
        value = getattr(snapshot, field.name)
        match field.name:
            case "node_index":
                value = [plain(item) for item in value]
            case "pod_index":
                value = [plain(pod) for pod in value.all_pods]
            case "scales":
                value = plain(value)
            case _ if isinstance(value, dict):
                value = {key: plain(item) for key, item in value.items()}
        values[field.name] = value
    return values


def plain(thing: Any) -> Any:
    if isinstance(thing, Struct):
        return {name: plain(value) for name, value in structs.asdict(thing).items()}
    if isinstance(thing, tuple):
        return tuple(map(plain, thing))
    return thing


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(cases(), cases())
def test_any_snapshot_comes_back_as_it_was(case: Case, later: Case) -> None:
    first = replace(World(case.objects).snapshot(), moving=case.moving)
    then = replace(World(later.objects).snapshot(), moving=later.moving)

    assert content(passed_on(first)) == content(first)
    assert content(passed_on(first, then)) == content(then)


def test_what_many_share_is_shared_again() -> None:
    names = [f"p{i}" for i in range(PODS_PER_PAGE + 5)]
    world = cluster(node("n1").holding(*(pod(name, owner="ReplicaSet/web") for name in names)))
    before = world.snapshot()

    after = passed_on(before)

    assert len(after.pod_index.templates) == len(before.pod_index.templates)
    assert len(after.pod_index.states) == len(before.pod_index.states)
    assert len({id(pod.spec.demand) for pod in after.pods}) == 1


def test_every_field_of_a_snapshot_has_its_change() -> None:
    """A field that joins must join here too, or a record would leave it out."""
    read_otherwise = {"node_index", "pod_index", "taken_at", "node_selector", "semantics"}
    kept = {field.name for field in fields(Snapshot)} - read_otherwise

    assert kept | {"pods", "nodes", "at"} == set(Changes.__struct_fields__)


# -- what plugins bring ---------------------------------------------------------------------------


class Widget(Struct):
    name: str
    size: int = 0


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


def test_objects_of_a_plugins_own_kind_come_back() -> None:
    snapshot = replace(EMPTY_SNAPSHOT, others={"Widget": (Widget("a", 1), Widget("b"))})
    later = replace(snapshot, others={"Widget": (Widget("b", 2),)})

    assert passed_on(snapshot, kinds=(WIDGET,)).others == snapshot.others
    assert passed_on(snapshot, later, kinds=(WIDGET,)).others == later.others


def test_a_kind_that_no_plugin_reads_any_more_is_an_error() -> None:
    with pytest.raises(InputError, match="kind Widget, which no installed plugin reads"):
        passed_on(replace(EMPTY_SNAPSHOT, others={"Widget": (Widget("a"),)}))

    assert passed_on(replace(EMPTY_SNAPSHOT, others={"Widget": ()})).others == {"Widget": ()}


def test_what_plugins_remember_comes_back() -> None:
    memory = {("main", "A"): {"seen": [1, 2.5, "x", None, True]}, ("main", "B"): "text"}
    snapshot = replace(EMPTY_SNAPSHOT, history=memory)

    assert passed_on(snapshot).history == memory
    assert passed_on(snapshot, replace(snapshot, history={})).history == {}
    assert passed_on(snapshot, snapshot).history == memory


def test_workloads_and_evictions_come_back() -> None:
    world = cluster(
        node("n1").holding(pod("a", owner="ReplicaSet/web-1")),
        workload("Deployment/web"),
        workload("ReplicaSet/web-1", owner="Deployment/web"),
        workload("Job/sums", spec={"suspend": True}),
    )
    evictions = (Eviction("uid", "owner", "shop", NOW),)
    scales = (Workload("CloneSet", "shop", "web", "uid-web", "apps.kruise.io/v1alpha1", 3),)
    snapshot = replace(world.snapshot(), scales=scales, evictions=evictions)

    read = passed_on(snapshot)

    assert content(read) == content(snapshot)
    assert read.evictions == evictions
    assert [plain(scale) for scale in read.scales] == [plain(scale) for scale in scales]
    assert passed_on(snapshot, replace(snapshot, scales=(), evictions=())).evictions == ()


def test_measurements_come_back_even_if_they_are_not_numbers() -> None:
    used = Used(NOW, {"cpu": 10**9, "memory": 10**22})
    usage = {
        METRICS_API: Readings(nodes={"n1": used}, pods={"default/a": used}),
        MetricsQuery("Prometheus", "load"): Readings(
            figures=(Figure("n1", 0.1, NOW), Figure("", float("inf"), NOW)), failure=""
        ),
        MetricsQuery("Prometheus", "other"): Readings(failure="no answer"),
    }
    snapshot = EMPTY_SNAPSHOT.with_usage(usage)
    odd = Readings(figures=(Figure("n1", float("nan"), NOW),))

    assert passed_on(snapshot).usage == usage
    assert passed_on(snapshot, EMPTY_SNAPSHOT.with_usage({})).usage == {}
    (figure,) = passed_on(EMPTY_SNAPSHOT.with_usage({METRICS_API: odd})).usage[METRICS_API].figures
    assert isnan(figure.number)


@pytest.mark.parametrize(
    ("value", "so"),
    [
        pytest.param({"a": [1, "b", None]}, True, id="what JSON has"),
        pytest.param((1, 2), False, id="a tuple"),
        pytest.param({1: 2}, False, id="a number for a key"),
        pytest.param(Widget("a"), False, id="a struct"),
        pytest.param({1, 2}, False, id="a set"),
        pytest.param(object(), False, id="anything"),
        pytest.param(float("nan"), False, id="no number"),
    ],
)
def test_only_plain_values_can_be_remembered_in_a_record(value: Any, so: bool) -> None:
    assert is_plain(value) is so
