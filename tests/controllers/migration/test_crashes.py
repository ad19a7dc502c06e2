"""The controller is killed at any request, and the next one goes on: nothing is lost or done twice.

A job ends in a terminal phase, whatever happens; no placeholder, taint, gate or PriorityClass is
left; no pod is evicted twice; and what the jobs say about evictions is what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.model.migration_job import (
    ABORT,
    JobMode,
    JobOptions,
    PlaceholderPriority,
    Steering,
)
from tests.controllers.migration.fakes import OWN, FakeCluster, FakeController

TTL = timedelta(seconds=40)
SETTLED = 4
"""Ticks until the workloads run."""


def options(
    steering: Steering = Steering.NONE,
    priority: PlaceholderPriority = PlaceholderPriority.HOLD,
    mode: JobMode = JobMode.RESERVATION_FIRST,
) -> JobOptions:
    return JobOptions(
        mode=mode,
        ttl=TTL,
        steering=steering,
        placeholder_priority=priority,
        reserve_timeout=timedelta(seconds=10),
    )


def new_cluster(seed: int, slots: int = 4) -> FakeCluster:
    cluster = FakeCluster(seed, slots=slots)
    for _ in range(SETTLED):
        cluster.tick()
    return cluster


def shop_pods(cluster: FakeCluster) -> list[str]:
    return sorted(name for namespace, name in cluster.pods if namespace == "shop")


def run(
    cluster: FakeCluster,
    controller: FakeController,
    disturb: Callable[[int], None] = lambda tick: None,
) -> None:
    """Let everything happen until well after every ttl."""
    for tick in range(2 * int(TTL.total_seconds())):
        disturb(tick)
        controller.run_pass()
        cluster.tick()
    for _ in range(3):
        controller.run_pass()


def assert_clean(cluster: FakeCluster, *, exact: bool = True) -> None:
    jobs = cluster.read_jobs()
    assert [job.name for job in jobs if not job.is_terminal] == []
    assert [name for namespace, name in cluster.pods if namespace == OWN] == []
    assert (cluster.taints, cluster.classes) == ({}, set())
    assert [pod.name for pod in cluster.read_pods("shop") if pod.gated] == []
    assert [job.name for job in jobs if job.is_gating or job.ending] == []
    assert len(set(cluster.evicted)) == len(cluster.evicted)
    if exact:
        recorded = [job.source.uid for job in jobs if job.eviction_requested_at and job.source]
        assert sorted(recorded) == sorted(cluster.evicted)


KINDS = [
    pytest.param(options(), id="hold"),
    pytest.param(options(priority=PlaceholderPriority.YIELD), id="yield"),
    pytest.param(options(Steering.SOFT), id="soft"),
    pytest.param(options(Steering.HARD), id="hard"),
    pytest.param(options(Steering.GATE), id="gate"),
    pytest.param(options(mode=JobMode.EVICT_DIRECTLY), id="directly"),
]


@pytest.mark.parametrize("pod", ["web", "db-0"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_succeeds_wherever_the_controller_is_killed(kind: JobOptions, pod: str) -> None:
    """Killed once at every request, before it and after its answer."""
    moment, last = 0, 1
    while moment <= last:
        cluster = new_cluster(seed=1)
        name = next(name for name in shop_pods(cluster) if name.startswith(pod))
        cluster.create_job(name, kind)
        controller = FakeController(cluster, crashes=[moment])

        run(cluster, controller)

        assert_clean(cluster)
        (job,) = cluster.read_jobs()
        assert job.phase == "Succeeded", (moment, job.object.status)
        assert len(cluster.evicted) == 1
        moment, last = moment + 1, controller.moment


def test_gated_replacements_go_to_the_reserved_node() -> None:
    for seed in range(20):
        cluster = new_cluster(seed)
        cluster.create_job(shop_pods(cluster)[2], options(Steering.GATE))

        run(cluster, FakeController(cluster))

        (job,) = cluster.read_jobs()
        assert job.conditions["ReservationBound"].reason == "OnReservedNode"


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_without_a_place_the_pod_stays(kind: JobOptions) -> None:
    cluster = new_cluster(seed=3)
    victim = shop_pods(cluster)[-1]
    home = cluster.pods["shop", victim]["spec"]["nodeName"]
    for node in cluster.slots:
        if node != home:
            taken = sum(d["spec"].get("nodeName") == node for d in cluster.pods.values())
            cluster.slots[node] = taken
    cluster.create_job(victim, kind)

    run(cluster, FakeController(cluster))

    assert_clean(cluster)
    assert cluster.evicted == []
    assert cluster.read_jobs()[0].object.status["reason"] == "Unschedulable"


DISTURBANCES = st.sampled_from(
    ["none", "spend", "restore", "pause", "resume", "abort", "delete", "preempt", "node", "kill"]
)


def disturb_cluster(cluster: FakeCluster, kind: str) -> None:
    """Something that people or other programs do."""
    names = sorted(cluster.jobs)
    job = cluster.chance.choice(names) if names else ""
    placeholders = sorted(key for key in cluster.pods if key[0] == OWN)
    match kind:
        case "spend" | "restore":
            cluster.budget_is_spent = kind == "spend"
        case "pause" | "resume" if job:
            cluster.patch_job(job, {"spec": {"paused": kind == "pause"}})
        case "abort" if job:
            cluster.patch_job(job, {"metadata": {"annotations": {ABORT: "true"}}})
        case "delete" if job:
            del cluster.jobs[job]
        case "preempt" if placeholders:
            del cluster.pods[cluster.chance.choice(placeholders)]
        case "node" if len(cluster.slots) > 2:
            cluster.remove_node(cluster.chance.choice(sorted(cluster.slots)))
        case "kill":
            name = cluster.chance.choice(shop_pods(cluster))
            del cluster.pods["shop", name]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    crashes=st.sets(st.integers(1, 150), max_size=25),
    kinds=st.lists(st.sampled_from([kind.values[0] for kind in KINDS]), min_size=1, max_size=5),
    disturbances=st.dictionaries(st.integers(0, 30), DISTURBANCES, max_size=6),
    slots=st.integers(2, 4),
)
def test_whatever_happens_every_job_ends_and_nothing_is_left(
    seed: int,
    crashes: set[int],
    kinds: list[JobOptions],
    disturbances: dict[int, str],
    slots: int,
) -> None:
    cluster = new_cluster(seed, slots)
    names = shop_pods(cluster)
    for number, kind in enumerate(kinds):
        # The last job of a longer list moves a pod that another one moves too.
        cluster.create_job(names[number % 4], kind)

    def disturb(tick: int) -> None:
        if tick in disturbances:
            disturb_cluster(cluster, disturbances[tick])
        if tick == int(TTL.total_seconds()):
            for job in list(cluster.jobs):
                cluster.patch_job(job, {"spec": {"paused": False}})

    run(cluster, FakeController(cluster, crashes), disturb)

    # A job that was deleted says nothing any more; a pod that another one killed may be counted.
    others = {"delete", "kill", "node"} & set(disturbances.values())
    assert_clean(cluster, exact=not others)
