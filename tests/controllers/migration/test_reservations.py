"""Placeholder pods, their PriorityClasses, and the pin of a gated replacement."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.controllers.migration.placeholder_spec import MOST_TERMS
from resettle.controllers.migration.reservations import (
    build_placeholder,
    build_priority_class,
    pin_patch,
    terms_of_volumes,
    ungate_patch,
)
from resettle.model.migration_job import GATE, PIN_MARK, MigrationJob, PlaceholderPriority
from resettle.testing.builders import NOW, ZONE, pod
from tests.controllers.migration.builders import job

Object = dict[str, Any]
NOT_SOURCE = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
ONLY_N2 = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
MARK = {"key": "metadata.name", "operator": "NotIn", "values": [PIN_MARK]}
IN_A = {"key": ZONE, "operator": "In", "values": ["a"]}
IN_B = {"key": ZONE, "operator": "In", "values": ["b"]}
SSD = {"key": "disk", "operator": "Exists"}
HOLD, YIELD = PlaceholderPriority.HOLD, PlaceholderPriority.YIELD


def victim(spec: Object | None = None, **more: Any) -> Object:
    spec = {"nodeName": "n1", "schedulerName": "default-scheduler", **(spec or {})}
    return pod("web-1", namespace="shop", spec=spec, **more)


def built(
    spec: Object | None = None, chosen: MigrationJob | None = None, **more: Any
) -> tuple[Object, tuple[str, ...]]:
    volume_terms = more.pop("volume_terms", ())
    plan = build_placeholder(
        chosen or job(), victim(spec, **more), namespace="own", now=NOW, volume_terms=volume_terms
    )
    return plan.pod, plan.notes


def container(requests: Object, **more: Any) -> Object:
    return {"name": "c", "image": "i", "resources": {"requests": requests}, **more}


def node_terms(placeholder: Object) -> Any:
    affinity = placeholder["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def required(terms: list[Object]) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param(
            {"containers": [container({"cpu": "100m"}), container({"cpu": "1", "memory": "1Gi"})]},
            {"cpu": "1100m", "memory": "1Gi"},
            id="sum of the containers",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "3"}), container({"memory": "64Mi"})],
            },
            {"cpu": "3", "memory": "64Mi"},
            id="largest init container",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "500m"}, restartPolicy="Always")],
            },
            {"cpu": "1500m"},
            id="sidecars run beside",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}},
            {"cpu": "1250m"},
            id="overhead",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1", "memory": "1Gi"})],
                "resources": {"requests": {"cpu": "2"}},
            },
            {"cpu": "2", "memory": "1Gi"},
            id="pod level, where it is larger",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
            {"cpu": "2"},
            id="limits stand for requests",
        ),
        pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing"),
    ],
)
def test_the_placeholder_requests_what_the_scheduler_counts(spec: Object, requests: Object) -> None:
    placeholder, _ = built(spec)

    assert placeholder["spec"]["containers"][0]["resources"] == {"requests": requests}


def test_extended_resources_and_huge_pages_have_limits() -> None:
    needs = {"cpu": "1", "memory": "1Gi", "vendor.example/gpu": "2", "hugepages-2Mi": "4Mi"}
    placeholder, _ = built({"containers": [container(needs)]})

    resources = placeholder["spec"]["containers"][0]["resources"]
    assert resources["requests"] == needs
    assert resources["limits"] == {"vendor.example/gpu": "2", "hugepages-2Mi": "4Mi"}


def test_the_placeholder_belongs_to_its_job_and_to_no_workload() -> None:
    placeholder, _ = built(labels={"app": "web"})

    assert placeholder["metadata"] == {
        "name": "place-uid-j",
        "namespace": "own",
        "labels": {"resettle.dev/placeholder": "true", "resettle.dev/job": "uid-j"},
        "ownerReferences": [
            {
                "apiVersion": "resettle.dev/v1alpha1",
                "kind": "PodMigrationJob",
                "name": "j",
                "uid": "uid-j",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }


def test_the_placeholder_is_harmless() -> None:
    placeholder, notes = built({"serviceAccountName": "admin", "hostNetwork": True})

    spec = placeholder["spec"]
    fixed = {key: value for key, value in spec.items() if key not in ("affinity", "containers")}
    assert fixed == {
        "schedulerName": "default-scheduler",
        "priorityClassName": "resettle-hold-0",
        "preemptionPolicy": "Never",
        "restartPolicy": "Always",
        "activeDeadlineSeconds": 240 + 3600,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "runAsGroup": 65535,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    (only,) = spec["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert notes == ()


def test_windows_has_no_linux_settings() -> None:
    placeholder, _ = built({"os": {"name": "windows"}})

    assert placeholder["spec"]["os"] == {"name": "windows"}
    assert placeholder["spec"]["securityContext"] == {"runAsNonRoot": True}
    assert "securityContext" not in placeholder["spec"]["containers"][0]


def test_selector_tolerations_and_host_ports_are_copied() -> None:
    port = {"containerPort": 80, "hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"}
    toleration = {"key": "gpu", "operator": "Exists"}
    placeholder, notes = built(
        {"containers": [container({}, ports=[port, {"containerPort": 9}])]},
        node_selector={"disk": "ssd"},
        tolerations=[toleration],
    )

    assert placeholder["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert placeholder["spec"]["tolerations"] == [toleration]
    assert placeholder["spec"]["containers"][0]["ports"] == [port | {"containerPort": 8080}]
    assert len(notes) == 1
    assert "Pod Security" in notes[0]


@pytest.mark.parametrize(
    ("own", "volumes", "target", "terms"),
    [
        pytest.param([], [], "", [{"matchFields": [NOT_SOURCE]}], id="any node but the source"),
        pytest.param([], [], "n2", [{"matchFields": [ONLY_N2]}], id="a given node"),
        pytest.param(
            [{"matchExpressions": [IN_A]}, {"matchFields": [ONLY_N2]}],
            [],
            "",
            [
                {"matchExpressions": [IN_A], "matchFields": [NOT_SOURCE]},
                {"matchFields": [ONLY_N2, NOT_SOURCE]},
            ],
            id="in every term",
        ),
        pytest.param(
            [],
            [[{"matchExpressions": [IN_A]}]],
            "",
            [{"matchExpressions": [IN_A], "matchFields": [NOT_SOURCE]}],
            id="where the volume is",
        ),
        pytest.param(
            [{"matchExpressions": [SSD]}],
            [[{"matchExpressions": [IN_A]}, {"matchExpressions": [IN_B]}]],
            "n2",
            [
                {"matchExpressions": [SSD, IN_A], "matchFields": [ONLY_N2]},
                {"matchExpressions": [SSD, IN_B], "matchFields": [ONLY_N2]},
            ],
            id="every combination with the volume",
        ),
    ],
)
def test_node_affinity_keeps_to_what_the_pod_and_its_volumes_allow(
    own: list[Object], volumes: Any, target: str, terms: list[Object]
) -> None:
    affinity = {"nodeAffinity": required(own)} if own else {}
    chosen = job(settings={"nodeName": target} if target else {})

    placeholder, notes = built(chosen=chosen, affinity=affinity, volume_terms=volumes)

    assert node_terms(placeholder) == terms
    assert notes == ()


def test_too_many_combinations_are_left_out_and_noted() -> None:
    many = [{"matchExpressions": [{**SSD, "key": f"k{i}"}]} for i in range(MOST_TERMS + 1)]

    placeholder, notes = built(volume_terms=[[{"matchExpressions": [IN_A]}], many])

    assert node_terms(placeholder) == [{"matchExpressions": [IN_A], "matchFields": [NOT_SOURCE]}]
    assert notes == ("volumes are left out: they give more than 64 combinations",)


SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("term", "copy"),
    [
        pytest.param(
            {"labelSelector": SELECTOR, "topologyKey": ZONE},
            {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaces": ["shop"]},
            id="the namespace of the pod",
        ),
        pytest.param(
            {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaces": ["other"]},
            {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaces": ["other"]},
            id="given namespaces",
        ),
        pytest.param(
            {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaceSelector": {}},
            {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaceSelector": {}},
            id="all namespaces",
        ),
        pytest.param(
            {
                "labelSelector": SELECTOR,
                "topologyKey": ZONE,
                "matchLabelKeys": ["hash", "absent"],
                "mismatchLabelKeys": ["tenant"],
            },
            {
                "labelSelector": {
                    **SELECTOR,
                    "matchExpressions": [
                        {"key": "hash", "operator": "In", "values": ["6f"]},
                        {"key": "tenant", "operator": "NotIn", "values": ["t"]},
                    ],
                },
                "topologyKey": ZONE,
                "namespaces": ["shop"],
            },
            id="label keys become requirements",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_required_terms_on_other_pods_hold_from_another_namespace(
    kind: str, term: Object, copy: Object
) -> None:
    affinity = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        }
    }
    placeholder, _ = built(affinity=affinity, labels={"hash": "6f", "tenant": "t"})

    assert placeholder["spec"]["affinity"][kind] == {
        "requiredDuringSchedulingIgnoredDuringExecution": [copy]
    }


def test_what_cannot_be_promised_is_noted() -> None:
    constraint = {"whenUnsatisfiable": "DoNotSchedule", "topologyKey": ZONE, "maxSkew": 1}
    placeholder, notes = built(
        {"resourceClaims": [{"name": "gpu"}], "priority": 2_000_000_000},
        spread=[constraint],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )

    assert [note.split(" ")[0] for note in notes] == ["topology", "devices", "slots", "the"]
    assert placeholder["spec"]["priorityClassName"] == "resettle-hold-1000000000"
    assert "volumes" not in placeholder["spec"]
    assert "topologySpreadConstraints" not in placeholder["spec"]


@pytest.mark.parametrize(
    ("kind", "priority", "name", "value"),
    [
        pytest.param(HOLD, 100, "resettle-hold-100", 100, id="the pod's own"),
        pytest.param(HOLD, -5, "resettle-hold--5", -5, id="below zero"),
        pytest.param(HOLD, 2 * 10**9, "resettle-hold-1000000000", 10**9, id="a system pod's"),
        pytest.param(YIELD, 100, "resettle-yield", -1_000_000, id="less than any"),
    ],
)
def test_placeholders_never_preempt(
    kind: PlaceholderPriority, priority: int, name: str, value: int
) -> None:
    built_class = build_priority_class(kind, priority)

    assert (built_class["metadata"]["name"], built_class["value"]) == (name, value)
    assert built_class["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    ("own", "pinned"),
    [
        pytest.param([], [{"matchFields": [ONLY_N2, MARK]}], id="no terms"),
        pytest.param(
            [{"matchExpressions": [IN_A]}, {"matchExpressions": [IN_B]}],
            [
                {"matchExpressions": [IN_A], "matchFields": [ONLY_N2, MARK]},
                {"matchExpressions": [IN_B], "matchFields": [ONLY_N2, MARK]},
            ],
            id="every term",
        ),
        pytest.param(
            [{}, {"matchExpressions": [IN_A]}],
            [{}, {"matchExpressions": [IN_A], "matchFields": [ONLY_N2, MARK]}],
            id="an empty term matches nothing and stays",
        ),
        pytest.param([{"matchFields": [ONLY_N2, MARK]}], None, id="pinned before"),
        pytest.param([{"matchFields": [ONLY_N2]}], None, id="by its template"),
    ],
)
def test_a_gated_pod_is_pinned_by_adding_to_its_terms(
    own: list[Object], pinned: list[Object] | None
) -> None:
    gated = victim(affinity={"nodeAffinity": required(own)} if own else {})
    gated["metadata"]["resourceVersion"] = "9"

    patch = pin_patch(gated, "n2")

    if pinned is None:
        assert patch is None
    else:
        spec = {"affinity": {"nodeAffinity": required(pinned)}}
        assert patch == {"metadata": {"resourceVersion": "9"}, "spec": spec}


@pytest.mark.parametrize(
    "own",
    [
        pytest.param([], id="no affinity"),
        pytest.param([{"matchExpressions": [IN_A]}], id="affinity"),
        pytest.param([{"matchExpressions": [IN_A]}, {"matchExpressions": [IN_B]}], id="terms"),
    ],
)
def test_a_pod_that_an_earlier_move_pinned_can_go_elsewhere(own: list[Object]) -> None:
    gated = victim(affinity={"nodeAffinity": required(own)} if own else {})
    patch = pin_patch(gated, "n1")
    assert patch is not None
    pinned = victim(affinity=patch["spec"]["affinity"])

    before, after = (
        build_placeholder(job(), moved, namespace="own", now=NOW).pod for moved in (gated, pinned)
    )

    assert after["spec"] == before["spec"]


@pytest.mark.parametrize(
    ("gates", "others"),
    [
        pytest.param([{"name": GATE}], None, id="only ours"),
        pytest.param([{"name": "x/y"}, {"name": GATE}], [{"name": "x/y"}], id="others stay"),
    ],
)
def test_only_our_gate_is_removed(gates: list[Object], others: Any) -> None:
    patch = ungate_patch(victim({"schedulingGates": gates}))

    assert patch == {"metadata": {}, "spec": {"schedulingGates": others}}
    assert ungate_patch(victim({"schedulingGates": others or []})) is None


def test_terms_of_volumes_without_affinity_are_left_out() -> None:
    zonal = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"x": 1}]}}}}

    assert terms_of_volumes([{"spec": {}}, zonal]) == [[{"x": 1}]]
