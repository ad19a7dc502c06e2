"""The mover of migration jobs, and what the jobs of a cluster say about pods on their way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.controllers.migration.plugin import PLUGIN
from resettle.eviction.migration_job import (
    departed_by_jobs,
    evictions_by_jobs,
    moving_by_jobs,
    pod_fingerprint,
)
from resettle.framework import MoveResult
from resettle.model.migration_job import DEFAULTS, FINGERPRINT, KIND, MigrationJob
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod
from resettle.testing import ApiServer, cluster, move_pod, node, pod
from resettle.testing.builders import before
from tests.controllers.migration.builders import at, job

ENDED = {"phase": "Succeeded"}
GONE = DepartedPod("victim", "n1", "shop", "rs-web")
"""The pod of the jobs of `job()`."""


def snapshot(jobs: list[MigrationJob], **uids: str) -> Snapshot:
    """A cluster with these jobs, and with pods of these uids in the namespace `shop`."""
    pods = [
        pod(name.replace("_", "-"), namespace="shop", metadata={"uid": uid})
        for name, uid in uids.items()
    ]
    taken = cluster(node("n1").holding(*pods)).snapshot()
    return replace(taken, others={KIND: tuple(job.object for job in jobs)})


# -- pods on their way -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moved", "uids", "departed"),
    [
        pytest.param(job(), {}, [GONE], id="gone"),
        pytest.param(job(), {"web_1": "victim"}, [], id="still there"),
        pytest.param(job(), {"web_1": "new"}, [GONE], id="another pod has its name"),
        pytest.param(job(status=ENDED), {}, [], id="its job has ended"),
        pytest.param(job(accepted=False), {}, [], id="its job was never accepted"),
    ],
)
def test_a_pod_is_gone_while_its_job_goes_on(
    moved: MigrationJob, uids: dict[str, str], departed: list[DepartedPod]
) -> None:
    assert departed_by_jobs(snapshot([moved], **uids), DEFAULTS) == tuple(departed)


@pytest.mark.parametrize(
    ("moved", "moving"),
    [
        pytest.param(job(), {"victim"}, id="running"),
        pytest.param(job(accepted=False), {"here"}, id="waiting, and a person named only the pod"),
        pytest.param(job(status=ENDED), set(), id="ended"),
    ],
)
def test_pods_move_until_their_jobs_have_ended(moved: MigrationJob, moving: set[str]) -> None:
    assert moving_by_jobs(snapshot([moved], web_1="here"), DEFAULTS) == moving


def test_the_evictions_that_jobs_record_count_for_limits_over_time() -> None:
    requested = {"evictionRequestedAt": before("90s")}
    jobs = [job("asked", status=requested), job("ended", status={**requested, **ENDED}), job()]

    evictions = evictions_by_jobs(snapshot(jobs))

    assert [(eviction.pod, eviction.owner) for eviction in evictions] == [("victim", "rs-web")] * 2
    # Never too early: what the status says is rounded down to the second.
    assert {eviction.at for eviction in evictions} == {at("90s") + timedelta(seconds=1)}


# -- the mover -------------------------------------------------------------------------------------


def test_a_move_creates_a_job_for_the_pod_of_that_uid() -> None:
    world = cluster(node("n1").holding(pod("web-1", namespace="shop")), node("n2"))
    with ApiServer([*world.objects, pod_migration_job_crd()]) as server:
        response = move_pod(PLUGIN, server, "shop/web-1", reason="it is too old")
        (created,) = server.store.list("PodMigrationJob")

    assert response.result is MoveResult.REQUESTED
    uid = world.snapshot().pods[0].uid
    assert created["spec"]["podRef"] == {"namespace": "shop", "name": "web-1", "uid": uid}
    assert created["metadata"]["annotations"][FINGERPRINT] == pod_fingerprint(
        one_pod(namespace="shop")
    )
    assert created["metadata"]["annotations"]["resettle.dev/evict-reason"] == "it is too old"


def test_without_the_definition_of_jobs_a_move_says_how_to_get_it() -> None:
    with ApiServer(cluster(node("n1").holding(pod("web-1"))).objects) as server:
        response = move_pod(PLUGIN, server, "default/web-1")

    assert response.result is MoveResult.ERROR
    assert "apply what `resettle crds` prints" in response.message


def one_pod(**given: Any) -> Pod:
    (built,) = cluster(node("n1").holding(pod("web-1", **given))).snapshot().pods
    return built


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"labels": {"changed": "yes"}}, id="labels"),
        pytest.param(
            {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"}},
            id="an annotation that is read",
        ),
        pytest.param({"owner": "ReplicaSet/other"}, id="its owner"),
        pytest.param({"priority": 7}, id="its priority"),
        pytest.param({"cpu": "3"}, id="its requests"),
    ],
)
def test_a_pod_that_changed_has_another_fingerprint(changed: dict[str, Any]) -> None:
    assert pod_fingerprint(one_pod(**changed)) != pod_fingerprint(one_pod())


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"annotations": {"example.com/seen": "yes"}}, id="an annotation"),
        pytest.param({"restarts": 3}, id="restarts"),
        pytest.param({"age": "9h"}, id="its age"),
    ],
)
def test_what_no_decision_reads_leaves_the_fingerprint_as_it_is(changed: dict[str, Any]) -> None:
    assert pod_fingerprint(one_pod(**changed)) == pod_fingerprint(one_pod())
