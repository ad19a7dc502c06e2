"""For any cluster and policy: no plan moves more of a workload than its limits allow."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.model.workloads import JOB, Workload
from resettle.plugins.migration_limits import PLUGIN
from resettle.plugins.migration_limits.args import EXPECTED, PER_WORKLOAD, UNAVAILABLE, Args
from resettle.plugins.migration_limits.workload_limits import is_available, limit_of
from resettle.testing import World, workload
from resettle.testing.builders import Object
from resettle.testing.random.policies import FILTERS
from resettle.testing.strategies import clusters, policies


def is_ready(item: Object) -> bool:
    """Whether the pod is ready and stays."""
    conditions = item["status"]["conditions"]
    stays = "deletionTimestamp" not in item["metadata"]
    return stays and any(condition["status"] == "True" for condition in conditions)


def workloads_for(world: World, seed: int) -> list[Object]:
    """Workloads for most owners of the pods, some of them too large, too small or in a rollout."""
    rng = Random(seed)
    owners = Counter(
        (item["metadata"]["namespace"], owner["kind"], owner["name"])
        for item in world.objects
        if item["kind"] == "Pod" and is_ready(item)
        for owner in item["metadata"]["ownerReferences"]
    )
    objects = []
    for (namespace, kind, name), count in sorted(owners.items()):
        replicas = rng.choice([count, count, count + 1, max(count - 1, 2), 1, 0])
        given: dict[str, Any] = {"namespace": namespace, "replicas": replicas}
        if rng.random() < 0.1 or kind == "DaemonSet":
            continue
        if kind == "ReplicaSet" and rng.random() < 0.5:
            objects.append(workload(f"Deployment/{name}", **given))
            given["owner"] = f"Deployment/{name}"
        if rng.random() < 0.1:
            given["metadata"] = {"generation": 2}
        objects.append(workload(f"{kind}/{name}", **given))
    return list(
        {
            (o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]): o for o in objects
        }.values()
    )


def limits_of(descheduler: Descheduler) -> dict[str, Args]:
    """The arguments of MigrationLimits, by profile."""
    return {
        profile.name: instance.args
        for profile in descheduler.profiles
        for instance in profile.filters
        if isinstance(instance.args, Args)
    }


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    clusters(min_nodes=2, min_pods=12),
    policies(plugins={PLUGIN: FILTERS["MigrationLimits"]}),
    st.integers(0, 2**16),
)
def test_no_plan_takes_more_of_a_workload_than_its_limits(
    world: World, document: dict[str, Any], seed: int
) -> None:
    registry = default_registry()
    policy = load_policy(json.dumps(document), name="policy", plugins=registry)
    descheduler = build_descheduler(policy, registry)
    whole = World([*world.objects, *workloads_for(world, seed)])
    snapshot = whole.snapshot(reads=descheduler.reads)

    plan = descheduler.draw_plan(snapshot)

    assert not plan.errors
    by_profile = limits_of(descheduler)
    moved: dict[Workload, list[Any]] = {}
    for move in plan.moves:
        if move.pod.finished:
            continue
        owner = snapshot.workload_of(move.pod)
        assert owner is None or isinstance(owner, Workload), "a pod of an unknown workload moves"
        if owner is not None:
            moved.setdefault(owner, []).append(move)
    for owner, moves in moved.items():
        # With several profiles, the last move of a workload was held to the limits of its profile.
        args = by_profile[moves[-1].profile]
        assert_within_limits(args, owner, [move.pod for move in moves], snapshot.pods_of(owner))


def assert_within_limits(args: Args, owner: Workload, moved: list[Any], pods: list[Any]) -> None:
    """The moves of one workload are not more than the arguments allow."""
    desired = owner.desired
    if args.is_checked(EXPECTED) and owner.kind != JOB:
        assert desired > 1
    if args.is_checked(PER_WORKLOAD):
        assert len(moved) <= max(limit_of(args.max_migrating_per_workload, desired), 1)
    if args.is_checked(UNAVAILABLE):
        limit = max(limit_of(args.max_unavailable_per_workload, desired), 1)
        staying = sum(is_available(pod) for pod in pods if pod not in moved)
        # The last pod was allowed to go while fewer than the limit were away besides itself.
        assert staying >= desired - limit
