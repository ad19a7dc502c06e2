"""From objects of the API to the model: what is shared, what is kept apart, what may be missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from resettle.errors import InputError
from resettle.model.migration_job import PIN_MARK
from resettle.model.pod import CONDITIONS, Pod
from resettle.model.snapshot import Snapshot
from resettle.placement.upstream_fit import NodeFit
from resettle.testing import NOW, budget, claim, cluster, node, pod, priority_class
from resettle.testing.builders import ZONE
from resettle.times import parse_time

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def decoded(*pods: Object) -> list[Pod]:
    """The pods as the model has them, in the order given."""
    snapshot = cluster(*pods).snapshot()
    decoded_pods = [
        snapshot.pod(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods
    ]
    return [pod for pod in decoded_pods if pod is not None]


def test_pods_of_one_workload_share_a_template_and_a_state() -> None:
    first, other = decoded(
        pod("a", labels={"app": "web"}, cpu="1", age="1h"),
        pod("b", labels={"app": "web"}, cpu="1", age="5h"),
    )

    assert first.template is other.template
    assert first.state is other.state
    assert first.created != other.created


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"namespace": "x"}, id="namespace"),
        pytest.param({"labels": {"a": "b"}}, id="labels"),
        pytest.param({"owner": "Job/a"}, id="owner"),
        pytest.param(
            {"annotations": {"descheduler.alpha.kubernetes.io/evict": ""}}, id="annotation"
        ),
    ],
)
def test_what_parts_templates_leaves_the_spec_shared(made: Object) -> None:
    first, other = decoded(pod("a"), pod("b", **made))

    assert first.template is not other.template
    assert first.spec is other.spec


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"cpu": "1"}, id="requests"),
        pytest.param({"priority": 5}, id="priority"),
        pytest.param({"priority": None}, id="no priority"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
        pytest.param({"node_selector": {"a": "b"}}, id="node selector"),
        pytest.param({"away_from": {"a": "b"}}, id="affinity"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, id="local storage"),
        pytest.param({"spec": {"overhead": {"cpu": "1m"}}}, id="overhead"),
        pytest.param({"spec": {"resourceClaims": [{"name": "r"}]}}, id="resource claims"),
    ],
)
def test_specs_that_ask_differently_are_kept_apart(made: Object) -> None:
    first, other = decoded(pod("a"), pod("b", **made))

    assert first.spec is not other.spec


def test_annotations_that_nothing_reads_do_not_part_templates() -> None:
    first, other = decoded(
        pod("a", annotations={"seen-at": "1"}), pod("b", annotations={"seen-at": "2"})
    )

    assert first.template is other.template
    assert first.template.annotations == {}


def test_claims_are_the_pod_s_own_and_do_not_part_specs() -> None:
    def using(name: str) -> Object:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}
        return pod(name, owner="StatefulSet/db", volumes=[volume])

    first, other = decoded(using("db-0"), using("db-1"))

    assert first.spec is other.spec
    assert (first.claims, other.claims) == (("data-db-0",), ("data-db-1",))


def test_the_labels_of_a_stateful_set_that_name_each_pod_are_kept() -> None:
    def numbered(index: int) -> Object:
        mark = {"app": "db", "statefulset.kubernetes.io/pod-name": f"db-{index}"}
        return pod(f"db-{index}", owner="StatefulSet/db", labels=mark)

    pods = decoded(numbered(0), numbered(1))

    names = [pod.labels["statefulset.kubernetes.io/pod-name"] for pod in pods]
    assert names == ["db-0", "db-1"]
    assert pods[0].spec is pods[1].spec


def pinned(name: str) -> Object:
    """The affinity by which a DaemonSet ties a pod to a node."""
    row = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = [{"matchFields": [row]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def allowed(snapshot: Snapshot, name: str) -> set[str]:
    decoded_pod = snapshot.pod("default", name)
    assert decoded_pod is not None
    nodes = NodeFit(snapshot).open_to(decoded_pod.spec.demand, decoded_pod.node)
    return {node.name for node in snapshot.node_index.members(nodes)}


def test_the_pods_of_a_daemon_set_share_a_spec_though_each_is_tied_to_its_node() -> None:
    snapshot = cluster(
        node("n1").holding(pod("a", affinity=pinned("n1"))),
        node("n2").holding(pod("b", affinity=pinned("n2"))),
    ).snapshot()
    first, other = snapshot.pods

    assert first.spec is other.spec
    assert allowed(snapshot, "a") == {"n1"}
    assert allowed(snapshot, "b") == {"n2"}


def test_a_pod_tied_to_another_node_than_its_own_is_not_taken_for_one_at_home() -> None:
    snapshot = cluster(
        node("n1").holding(pod("a", affinity=pinned("n1")), pod("b", affinity=pinned("n2"))),
        node("n2"),
        pod("c", affinity=pinned("n2"), phase="Pending"),
    ).snapshot()

    assert allowed(snapshot, "a") == {"n1"}
    assert allowed(snapshot, "b") == {"n2"}
    assert allowed(snapshot, "c") == {"n2"}


def test_a_pod_may_leave_almost_everything_null() -> None:
    bare = {
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "labels": None,
            "annotations": None,
            "ownerReferences": None,
            "creationTimestamp": None,
            "deletionTimestamp": None,
        },
        "spec": {
            "containers": None,
            "initContainers": None,
            "volumes": None,
            "nodeName": None,
            "priority": None,
            "nodeSelector": None,
            "affinity": None,
            "tolerations": None,
            "topologySpreadConstraints": None,
            "overhead": None,
            "resources": None,
            "resourceClaims": None,
        },
        "status": {
            "startTime": None,
            "conditions": None,
            "containerStatuses": None,
            "initContainerStatuses": None,
            "ephemeralContainerStatuses": None,
        },
    }

    (decoded_pod,) = cluster(bare).snapshot().pods

    assert (decoded_pod.labels, decoded_pod.owners, decoded_pod.node, decoded_pod.created) == (
        {},
        (),
        "",
        None,
    )
    assert (decoded_pod.spec.requests, decoded_pod.spec.priority, decoded_pod.terminating) == (
        {},
        None,
        False,
    )
    assert (decoded_pod.spec.node_selector, decoded_pod.spec.required_terms) == (None, None)
    assert decoded_pod.state.containers == ()


def test_a_node_that_a_migration_job_has_pinned_a_pod_to_is_not_a_wish_of_its_workload() -> None:
    zone = {"key": ZONE, "operator": "In", "values": ["a"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    mark = {"key": "metadata.name", "operator": "NotIn", "values": [PIN_MARK]}

    def requiring(**term: list[Object]) -> Object:
        terms = {"nodeSelectorTerms": [term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    alone, zonal, as_made = decoded(
        pod("a", affinity=requiring(matchFields=[name, mark])),
        pod("b", affinity=requiring(matchExpressions=[zone], matchFields=[name, mark])),
        pod("c", affinity=requiring(matchExpressions=[zone])),
    )

    assert alone.spec.required_terms is None
    assert not alone.spec.has_node_affinity
    assert zonal.spec.required_terms == as_made.spec.required_terms


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param({"nodeAffinity": None, "podAntiAffinity": None}, id="no part"),
        pytest.param({"nodeAffinity": {REQUIRED: None}}, id="no requirement"),
        pytest.param({"podAntiAffinity": {REQUIRED: None}}, id="no rule"),
    ],
)
def test_parts_of_an_affinity_may_be_null(affinity: Object) -> None:
    (decoded_pod,) = decoded(pod("a", affinity=affinity))

    assert decoded_pod.spec.required_terms is None
    assert decoded_pod.spec.anti_affinity == ()


@pytest.mark.parametrize(
    ("volume", "local", "claimed"),
    [
        pytest.param({"emptyDir": {}}, True, False, id="emptyDir"),
        pytest.param({"hostPath": {"path": "/x"}}, True, False, id="hostPath"),
        pytest.param({"emptyDir": None, "hostPath": None}, False, False, id="null is absent"),
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, False, True, id="claim"),
        pytest.param({"configMap": {"name": "c"}}, False, False, id="anything else"),
    ],
)
def test_volumes_are_known_by_their_source(volume: Object, local: bool, claimed: bool) -> None:
    (decoded_pod,) = decoded(pod("a", volumes=[{"name": "v", **volume}]))

    assert (decoded_pod.spec.local_storage, decoded_pod.spec.claim_volumes) == (local, claimed)


@pytest.mark.parametrize("healthy", ["True", "False"])
def test_conditions_that_no_plugin_reads_are_left_out_except_readiness(healthy: str) -> None:
    status = {"conditions": [{"type": "Initialized"}, {"type": "Ready", "status": healthy}]}
    world = cluster(node("n1", cpu="4").holding(pod("a", status=status)))

    (decoded_pod,) = world.snapshot(reads=frozenset()).pods
    (read,) = world.snapshot(reads=frozenset({CONDITIONS})).pods

    assert decoded_pod.state.ready == read.state.ready == (healthy == "True")
    assert [condition.type for condition in read.conditions] == ["Initialized", "Ready"]
    with pytest.raises(LookupError, match="a plugin that uses them must declare `conditions`"):
        list(decoded_pod.conditions)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([], True, id="none"),
        pytest.param(None, True, id="null"),
        pytest.param([{"type": "Ready", "status": "True"}], True, id="ready"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="not ready"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown"),
        pytest.param([{"type": "MemoryPressure", "status": "True"}], True, id="other conditions"),
    ],
)
def test_a_node_is_ready_unless_it_says_otherwise(conditions: Any, ready: bool) -> None:
    made = node("n1")
    made.node["status"]["conditions"] = conditions

    (decoded_node,) = cluster(made).snapshot().node_index.nodes

    assert decoded_node.ready is ready


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        (None, None),
        ("", None),
        ("2026-01-31T12:00:00Z", NOW),
        ("2026-01-31T13:00:00+01:00", NOW),
        ("2026-01-31T12:00:00.250000Z", datetime(2026, 1, 31, 12, microsecond=250000, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_the_api_writes_them(text: str | None, instant: datetime | None) -> None:
    assert parse_time(text) == instant


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(
            pod("a", cpu="much"), "default/a.*cpu.*`much` is not a quantity", id="quantity"
        ),
        pytest.param(pod("a", memory="-1Gi"), "default/a.*memory.*negative", id="negative"),
        *(
            pytest.param(
                pod("a", metadata={"creationTimestamp": time}),
                r"is not a Pod.*metadata\.creationTimestamp.*like `2026-01-31T12:00:00Z`",
                id=time,
            )
            for time in ("today", "2026-01-31", "2026-01-31T12:00:00")
        ),
        pytest.param(pod("a", spec={"priority": "high"}), "is not a Pod as Kubernetes", id="type"),
        pytest.param(node("n1", cpu="x").node, "Node n1.*cpu.*`x` is not a quantity", id="node"),
    ],
)
def test_an_invalid_field_is_reported_with_its_object(made: Object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cluster(made).snapshot()


def test_the_other_objects_are_read_too() -> None:
    snapshot = cluster(
        budget("b", allowed=2, labels={"app": "web"}, status={"observedGeneration": 1}),
        claim("c", storage_class="ssd"),
        claim("d"),
        priority_class("high", 1000),
    ).snapshot()

    assert [(budget.key, budget.disruptions_allowed) for budget in snapshot.budgets.values()] == [
        ("default/b", 2)
    ]
    assert snapshot.claims["default/c"].storage_class == "ssd"
    assert snapshot.claims["default/d"].storage_class is None
    assert snapshot.priority_classes["high"].value == 1000
