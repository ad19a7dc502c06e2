"""Controllers of workloads: what they make, what they let go, what comes back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.testing import node, pod
from resettle.testing.builders import Object
from resettle.testing.controllers import daemon_set, deployment, job, replica_set, stateful_set
from resettle.testing.controllers.daemon_sets_and_jobs import TOLERATIONS
from resettle.testing.controllers.writes import template_hash
from tests.testing.controllers.harness import Living, uids

BATCH = {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        pytest.param(deployment("web", replicas=3), 3, id="a Deployment"),
        pytest.param(deployment("web", replicas=0), 0, id="a Deployment of none"),
        pytest.param(replica_set("web", replicas=2), 2, id="a ReplicaSet"),
        pytest.param(stateful_set("web", replicas=3), 3, id="a StatefulSet"),
        pytest.param(stateful_set("web", replicas=3, parallel=True), 3, id="one all at once"),
        pytest.param(daemon_set("web"), 2, id="a DaemonSet on two nodes"),
        pytest.param(job("web", completions=5, parallelism=2), 2, id="a Job that has begun"),
    ],
)
def test_workloads_have_as_many_pods_as_they_want(workload: Object, pods: int) -> None:
    living = Living(node("n1"), node("n2"), workload).after(20)

    assert living.phases == ["Running"] * pods
    assert "-" not in living.nodes


@pytest.mark.parametrize(
    ("workload", "namesake"),
    [
        pytest.param(deployment("web", replicas=3), False, id="of a Deployment, by another name"),
        pytest.param(replica_set("web", replicas=3), False, id="of a ReplicaSet, by another name"),
        pytest.param(stateful_set("web", replicas=3), True, id="of a StatefulSet, by its name"),
    ],
)
def test_a_pod_that_is_gone_is_replaced(workload: Object, namesake: bool) -> None:
    living = Living(node("n1"), workload).after(20)
    before, lost = uids(living), min(living.pods)

    living.store.delete("Pod", lost)
    living.after(20)

    assert len(uids(living) - before) == 1
    assert (lost in living.pods) is namesake
    assert living.phases == ["Running"] * 3


def test_the_name_of_a_leaving_pod_is_free_only_when_it_is_gone() -> None:
    living = Living(node("n1"), stateful_set("db", replicas=1)).after(20)
    [old] = uids(living)
    leaving = {"deletionTimestamp": "2026-01-31T12:00:50Z", "deletionGracePeriodSeconds": 30}

    living.store.merge("Pod", "db-0", {"metadata": leaving})
    living.life.settle()
    meanwhile = uids(living)
    living.after(10)

    assert meanwhile == {old}
    assert uids(living) != {old}


def test_pods_know_their_owner_and_carry_the_labels_of_their_template() -> None:
    living = Living(node("n1"), deployment("web", labels={"tier": "front"})).after(5)
    [replicas] = living.store.list("ReplicaSet")
    [created] = living.pods.values()
    mark = replicas["metadata"]["labels"]["pod-template-hash"]

    assert replicas["metadata"]["name"] == f"web-{mark}"
    assert created["metadata"]["labels"] == {
        "app": "web",
        "tier": "front",
        "pod-template-hash": mark,
    }
    [reference] = created["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("ReplicaSet", replicas["metadata"]["uid"])
    assert reference["controller"] is True


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(2, 5, id="more"),
        pytest.param(5, 2, id="fewer"),
        pytest.param(3, 0, id="none"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [pytest.param(deployment, id="Deployment"), pytest.param(stateful_set, id="StatefulSet")],
)
def test_workloads_can_be_scaled(make: Any, before: int, after: int) -> None:
    workload = make("web", replicas=before)
    living = Living(node("n1"), workload).after(60)

    living.store.merge(workload["kind"], "web", {"spec": {"replicas": after}})
    living.after(60)

    assert living.apps() == ({"web": after} if after else {})


def test_waiting_pods_are_given_up_before_running_ones() -> None:
    living = Living(node("n1", cpu="2"), replica_set("web", replicas=3, cpu="1")).after(5)
    assert living.nodes == ["-", "n1", "n1"]

    living.store.merge("ReplicaSet", "web", {"spec": {"replicas": 2}})
    living.after(5)

    assert living.nodes == ["n1", "n1"]


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        pytest.param({"rollingUpdate": {"maxSurge": 1}}, 5, id="one more at a time"),
        pytest.param({"rollingUpdate": {"maxSurge": "50%"}}, 6, id="half as many more"),
        pytest.param({"type": "Recreate"}, 4, id="all of the old ones first"),
    ],
)
def test_a_new_template_takes_over_step_by_step(strategy: Object, most: int) -> None:
    living = Living(node("n1"), deployment("web", replicas=4)).after(5)
    living.store.merge("Deployment", "web", {"spec": {"strategy": strategy}})
    release = {"metadata": {"labels": {"release": "2"}}}
    living.store.merge("Deployment", "web", {"spec": {"template": release}})
    seen = []

    for _ in range(40):
        living.after(1)
        seen.append(living.apps().get("web", 0))

    assert max(seen) == most
    assert {obj["metadata"]["labels"].get("release") for obj in living.pods.values()} == {"2"}
    sizes = Counter(obj["spec"]["replicas"] for obj in living.store.list("ReplicaSet"))
    assert sizes == {4: 1, 0: 1}


def test_old_pods_that_do_not_serve_make_way_for_a_new_template() -> None:
    living = Living(node("n1"), deployment("web", replicas=3, cpu="64")).after(5)
    assert living.nodes == ["-"] * 3

    small = {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}
    living.store.merge("Deployment", "web", {"spec": {"template": small}})
    living.after(5)

    assert living.phases == ["Running"] * 3


def test_a_stateful_set_begins_a_pod_when_those_before_it_serve() -> None:
    living = Living(node("n1"), stateful_set("db", replicas=3))
    seen = []

    for _ in range(4):
        living.life.settle()
        seen.append(sorted(living.pods))
        living.after(2)

    assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"], ["db-0", "db-1", "db-2"]]


def test_a_stateful_set_is_renewed_from_its_end() -> None:
    living = Living(node("n1"), stateful_set("db", replicas=3)).after(20)
    before = {name: obj["metadata"]["uid"] for name, obj in living.pods.items()}

    release = {"metadata": {"labels": {"release": "2"}}}
    living.store.merge("StatefulSet", "db", {"spec": {"template": release}})
    living.after(3)
    renewed = [name for name, obj in living.pods.items() if obj["metadata"]["uid"] != before[name]]
    living.after(60)

    assert renewed == ["db-2"]
    assert not uids(living) & set(before.values())
    revisions = {
        obj["metadata"]["labels"]["controller-revision-hash"] for obj in living.pods.values()
    }
    template = living.store.list("StatefulSet")[0]["spec"]["template"]
    assert revisions == {template_hash(template)}


def test_claims_outlive_pods_and_their_set() -> None:
    living = Living(node("n1"), stateful_set("db", replicas=2, claims=["data"])).after(20)
    claims = {
        claim["metadata"]["name"]: claim["spec"]
        for claim in living.store.list("PersistentVolumeClaim")
    }
    volumes = {volume["metadata"]["name"] for volume in living.store.list("PersistentVolume")}

    living.store.delete("Pod", "db-1")
    living.after(20)
    again = living.pods["db-1"]
    living.store.delete("StatefulSet", "db")
    living.after(20)

    assert sorted(claims) == ["data-db-0", "data-db-1"]
    assert {claim["volumeName"] for claim in claims.values()} == volumes
    assert again["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data-db-1"}
    assert not living.pods
    kept = {
        claim["metadata"]["name"]: claim["spec"]
        for claim in living.store.list("PersistentVolumeClaim")
    }
    assert kept == claims


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        pytest.param({}, ["cordoned", "plain"], id="cordoned nodes too, tainted ones not"),
        pytest.param(
            {"tolerations": [BATCH]}, ["batch", "cordoned", "plain"], id="if it tolerates"
        ),
        pytest.param({"node_selector": {"disk": "ssd"}}, ["plain"], id="where its selector leads"),
        pytest.param({"cpu": "5"}, ["-", "-"], id="and waits where there is no room"),
    ],
)
def test_a_daemon_set_has_a_pod_for_each_node_it_may_run_on(wanted: Any, nodes: list[str]) -> None:
    living = Living(
        node("plain", labels={"disk": "ssd"}),
        node("batch", taints=["dedicated=batch:NoSchedule"]),
        node("cordoned", cordoned=True),
        daemon_set("agent", **wanted),
    ).after(5)

    assert living.nodes == nodes


def test_pods_of_a_daemon_set_are_pinned_and_put_up_with_much() -> None:
    living = Living(node("n1"), daemon_set("agent", tolerations=[BATCH])).after(5)
    [spec] = [obj["spec"] for obj in living.pods.values()]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    assert spec["tolerations"] == [BATCH, *TOLERATIONS]


@pytest.mark.parametrize(
    ("taint", "stays"),
    [
        pytest.param("NoSchedule", True, id="stay where new pods are kept away"),
        pytest.param("NoExecute", False, id="leave where no pod may run"),
    ],
)
def test_pods_of_a_daemon_set_under_a_new_taint(taint: str, stays: bool) -> None:
    living = Living(node("n1"), daemon_set("agent")).after(5)

    living.store.merge(
        "Node", "n1", {"spec": {"taints": [{"key": "sour", "effect": taint, "value": ""}]}}
    )
    living.after(10)

    assert bool(living.pods) is stays


def test_a_node_that_joins_gets_its_daemon_pods() -> None:
    living = Living(node("n1"), daemon_set("agent")).after(5)

    living.store.put(node("n2").node)
    living.after(5)

    assert living.nodes == ["n1", "n2"]


def test_a_job_runs_so_many_pods_to_the_end_so_many_at_a_time() -> None:
    work = job("sums", completions=5, parallelism=2, annotations={"life/takes": "10s"})
    living = Living(node("n1"), work)
    running = []

    for _ in range(50):
        living.after(1)
        running.append(living.phases.count("Running"))

    assert max(running) == 2
    assert living.phases == ["Succeeded"] * 5
    [done] = living.store.list("Job")
    assert (done["status"]["active"], done["status"]["succeeded"]) == (0, 5)
    assert done["status"]["conditions"][0]["type"] == "Complete"
    # 3 turns of 2 seconds to start and 10 to work.
    assert done["status"]["completionTime"] == "2026-01-31T12:00:36Z"


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        pytest.param(deployment("web", replicas=2), "Deployment", id="a Deployment"),
        pytest.param(stateful_set("web"), "StatefulSet", id="a StatefulSet"),
        pytest.param(daemon_set("web"), "DaemonSet", id="a DaemonSet"),
        pytest.param(job("web"), "Job", id="a Job"),
    ],
)
def test_what_an_owner_leaves_behind_is_cleared_away(owner: Object, kind: str) -> None:
    living = Living(node("n1"), owner, pod("alone", owner=None)).after(5)

    living.store.delete(kind, "web")
    living.after(10)

    assert sorted(living.pods) == ["alone"]
    assert living.store.list("ReplicaSet") == []


def test_pods_of_an_unknown_owner_are_left_alone() -> None:
    living = Living(node("n1").holding(pod("p", owner="Widget/w"))).after(5)

    assert sorted(living.pods) == ["p"]


def test_a_node_that_goes_takes_its_pods_along() -> None:
    living = Living(node("n1"), deployment("web", replicas=2), daemon_set("agent")).after(5)
    before = uids(living)

    living.store.delete("Node", "n1")
    living.store.put(node("n2").node)
    living.after(5)

    assert not uids(living) & before
    assert living.nodes == ["n2"] * 3
