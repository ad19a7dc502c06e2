"""DefaultEvictor where a policy says nothing: permissive as ever, or safe in `resettle/v1`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resettle.framework.view import View
from resettle.model import IMPROVED, PARITY, Semantics
from resettle.plugins.default_evictor.args import Args, InEffect, in_effect
from resettle.plugins.default_evictor.plugin import PLUGIN, cautions
from resettle.testing import World, claim, cluster, node, plan, pod
from tests.plugins.harness import EVERY_POD, EVICT, answer

Object = dict[str, Any]
OURS = "resettle/v1"
THEIRS = "descheduler/v1alpha2"
OFF = {"nodeFit": False, "minReplicas": 0, "minPodAge": "0s"}
UNLIMITED = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def asked(world: World, evictor: Object | None = None, version: str = OURS) -> str:
    """What comes of proposing `it` when only DefaultEvictor may object."""
    return answer(
        world,
        evictor=evictor or {},
        api_version=version,
        policy=UNLIMITED if version == OURS else {},
    )


def with_copy(evictable: Object, *more: Any) -> World:
    """The pod on a node, a second pod of its owner on another, and a third node that is free."""
    return cluster(
        node("n1").holding(evictable), node("n2").holding(pod("copy")), node("n3"), *more
    )


SAFE = InEffect(node_fit=True, min_replicas=2, min_age=timedelta(minutes=10))
NOTHING = InEffect(node_fit=False, min_replicas=0, min_age=None)


@pytest.mark.parametrize(
    ("args", "semantics", "effect"),
    [
        pytest.param(Args(), PARITY, NOTHING, id="v1alpha2 asks for nothing"),
        pytest.param(Args(), IMPROVED, SAFE, id="resettle is careful"),
        pytest.param(
            Args(node_fit=False, min_replicas=0, min_pod_age="0s"),
            IMPROVED,
            NOTHING,
            id="what is written wins, also false and zero",
        ),
        pytest.param(
            Args(node_fit=True, min_replicas=5, min_pod_age="1h"),
            IMPROVED,
            InEffect(node_fit=True, min_replicas=5, min_age=timedelta(hours=1)),
            id="or more",
        ),
        pytest.param(
            Args(node_fit=True, min_replicas=2, min_pod_age="10m"),
            PARITY,
            SAFE,
            id="v1alpha2 may ask for all of it",
        ),
        pytest.param(
            Args(min_pod_age="0s"),
            PARITY,
            InEffect(node_fit=False, min_replicas=0, min_age=timedelta()),
            id="v1alpha2 with an age of nothing still wants pods to have started",
        ),
    ],
)
def test_what_is_left_unsaid_is_filled_in_as_the_policy_is_read(
    args: Args, semantics: Semantics, effect: InEffect
) -> None:
    assert in_effect(args, semantics) == effect


@pytest.mark.parametrize(
    ("age", "written", "code"),
    [
        pytest.param("9m59s", {}, "min-age", id="a moment too young"),
        pytest.param("10m", {}, "admitted", id="exactly of age goes"),
        pytest.param("5m", {"minPodAge": "4m"}, "admitted", id="a lower age that is written"),
        pytest.param("5m", {"minPodAge": "0s"}, "admitted", id="no age"),
        pytest.param("1h", {"minPodAge": "2h"}, "min-age", id="a higher age"),
    ],
)
def test_pods_that_have_just_started_stay(age: str, written: Object, code: str) -> None:
    assert asked(with_copy(pod("it", age=age)), written) == code
    assert asked(with_copy(pod("it", age=age)), {}, THEIRS) == "admitted"


def test_a_pod_that_never_started_stays_until_the_age_is_waived() -> None:
    world = with_copy(pod("it", phase="Pending", status={"startTime": None}))

    assert asked(world) == "min-age"
    assert asked(world, {"minPodAge": "0s"}) == "admitted"
    assert asked(world, {"minPodAge": "0s"}, THEIRS) == "min-age"


@pytest.mark.parametrize(
    ("owner", "written", "code"),
    [
        pytest.param("ReplicaSet/web", {}, "admitted", id="one of two"),
        pytest.param("ReplicaSet/alone", {}, "min-replicas", id="the only one"),
        pytest.param("ReplicaSet/alone", {"minReplicas": 0}, "admitted", id="waived"),
        pytest.param("ReplicaSet/alone", {"minReplicas": 1}, "admitted", id="one will do"),
        pytest.param("ReplicaSet/web", {"minReplicas": 3}, "min-replicas", id="two are too few"),
    ],
)
def test_the_only_pod_of_an_owner_stays(owner: str, written: Object, code: str) -> None:
    world = with_copy(pod("it", owner=owner))

    assert asked(world, written) == code
    assert asked(world, {}, THEIRS) == "admitted"


def test_a_pod_without_another_place_stays() -> None:
    world = cluster(
        node("n1").holding(pod("it", cpu="2")), node("n2", cpu="1").holding(pod("copy"))
    )

    assert asked(world) == "no-node-fits"
    assert asked(world, {}, THEIRS) == "admitted"
    assert asked(world, {"nodeFit": True}, THEIRS) == "no-node-fits"


def test_a_policy_of_nothing_but_zeros_moves_what_the_descheduler_would() -> None:
    pods = [pod("young", age="1s"), pod("alone", owner="Job/alone"), pod("plain")]
    world = cluster(node("n1").holding(*pods), node("n2"))

    def moved(evictor: Object, **more: Any) -> set[str]:
        return set(plan(EVERY_POD, world, evictor=evictor, **more).evicts)

    theirs = moved({})
    assert moved(OFF, api_version=OURS, policy=UNLIMITED) == theirs == {"young", "alone", "plain"}
    assert moved({}, api_version=OURS, policy=UNLIMITED) < theirs


@pytest.mark.parametrize("replicas", [None, 0, 2])
def test_only_a_minimum_of_one_is_cautioned_about(replicas: int | None) -> None:
    assert list(cautions(Args(min_replicas=replicas), IMPROVED)) == []
    assert len(list(cautions(Args(min_replicas=1), IMPROVED))) == 1


# -- the evict annotation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param("false", "opted-out", id="false"),
        pytest.param("False", "opted-out", id="in any case"),
        pytest.param("no", "opted-out", id="no"),
        pytest.param("0", "opted-out", id="zero"),
        pytest.param(" false ", "opted-out", id="with blanks around it"),
        pytest.param("true", "admitted", id="true"),
        pytest.param("", "admitted", id="empty, as it has always been written"),
        pytest.param("never", "admitted", id="a word that is none of these"),
    ],
)
def test_a_no_in_the_evict_annotation_keeps_the_pod(value: str, code: str) -> None:
    world = with_copy(pod("it", annotations={EVICT: value}))

    assert asked(world) == code
    assert asked(world, {}, THEIRS) == "admitted"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({}, id="free to go otherwise"),
        pytest.param({"terminating": True}, id="terminating"),
        pytest.param({"owner": "DaemonSet/logs"}, id="of a DaemonSet"),
        pytest.param({"owner": None}, id="bare"),
    ],
)
def test_opting_out_comes_before_every_other_reason(made: Object) -> None:
    world = with_copy(pod("it", annotations={EVICT: "false"}, **made))

    assert asked(world) == "opted-out"


def test_opting_in_lifts_the_safe_defaults_of_the_filter() -> None:
    world = with_copy(pod("it", owner="Job/alone", age="1s", annotations={EVICT: "true"}))

    assert asked(world) == "admitted"


# -- generic ephemeral volumes --------------------------------------------------------------------


def protecting(*classes: str) -> Object:
    """Arguments that protect claims, of these storage classes where some are named."""
    config = {"PodsWithPVC": {"protectedStorageClasses": [{"name": name} for name in classes]}}
    extra = {"extraEnabled": ["PodsWithPVC"]}
    return {"podProtections": extra | ({"config": config} if classes else {})}


@pytest.mark.parametrize(
    ("volumes", "evictor", "code"),
    [
        pytest.param([EPHEMERAL], {}, "admitted", id="nothing is protected by default"),
        pytest.param([EPHEMERAL], {"ignorePvcPods": True}, "volume-claim", id="by the older word"),
        pytest.param([EPHEMERAL], protecting(), "volume-claim", id="by name"),
        pytest.param([], protecting(), "admitted", id="no volume"),
        pytest.param(
            [EPHEMERAL], protecting("ssd"), "storage-class", id="its class is as good as unknown"
        ),
        pytest.param([CLAIM], protecting("ssd"), "admitted", id="a claim of another class"),
        pytest.param(
            [CLAIM, EPHEMERAL], protecting("ssd"), "storage-class", id="one of each is enough"
        ),
    ],
)
def test_generic_ephemeral_volumes_are_claims(
    volumes: list[Object], evictor: Object, code: str
) -> None:
    bound = claim("data", storage_class="hdd")
    bound["spec"]["volumeName"] = "disk"
    world = with_copy(pod("it", volumes=volumes), bound, disk("disk"))

    assert asked(world, evictor) == code


def disk(name: str) -> Object:
    """A volume that every node can reach."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {}}


def test_what_was_found_out_for_one_way_of_reading_is_not_used_for_the_other() -> None:
    snapshot = with_copy(pod("it", volumes=[EPHEMERAL])).snapshot()
    args, evictable = Args(ignore_pvc_pods=True, min_replicas=0), snapshot.pod("default", "it")
    guard = PLUGIN.filter
    assert evictable is not None
    assert guard is not None

    theirs, ours = (
        guard(args, View(snapshot, semantics), evictable) for semantics in (PARITY, IMPROVED)
    )

    assert theirs is None
    assert ours is not None
    assert ours.code == "volume-claim"
