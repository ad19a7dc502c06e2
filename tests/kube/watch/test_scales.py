"""Scales: how many replicas a workload of any kind should have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.watch.scales import FRESH_SECONDS, ScaleReader
from resettle.model.workloads import ScaledObject, ScaleKind, Workload
from resettle.testing import (
    ApiServer,
    DeniedPermission,
    Fault,
    ManualClock,
    cluster,
    definition,
    pod,
    workload,
)
from resettle.testing.builders import Object

GROUP, VERSION = "apps.kruise.io", "v1alpha1"
CLONE_SET = ScaleKind(GROUP, VERSION, "CloneSet")
KINDS = [definition("CloneSet", group=GROUP, version=VERSION, scale=True)]
WEB = ScaledObject(CLONE_SET, "default", "web")
SCALE = f"/apis/{GROUP}/{VERSION}/namespaces/default/clonesets/web/scale"


def clone_set(name: str, replicas: int) -> Object:
    """A CloneSet of this size."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CloneSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"replicas": replicas},
    }


def read(
    server: ApiServer,
    *objects: ScaledObject,
    between: Callable[[ManualClock], object] | None = None,
) -> tuple[Workload, ...]:
    """What is read of the objects, a second time after something has happened."""

    async def run_scenario() -> tuple[Workload, ...]:
        clock = ManualClock()
        async with Client(Access(server=server.url)) as client:
            reader = ScaleReader(client, clock)
            scales = await reader.read(objects)
            if between is not None:
                await asyncio.to_thread(between, clock)
                scales = await reader.read(objects)
            return scales

    return asyncio.run(run_scenario())


def paths(server: ApiServer) -> list[str]:
    return [request.path for request in server.requests]


def test_the_scale_says_how_many_replicas_there_should_be() -> None:
    with ApiServer([*KINDS, clone_set("web", 5)]) as server:
        (scale,) = read(server, WEB)
        asked = paths(server)

    assert (scale.title, scale.desired, scale.uid) == ("CloneSet web", 5, "uid-web")
    assert asked == [f"/apis/{GROUP}/{VERSION}", SCALE]


@pytest.mark.parametrize(
    ("seconds", "desired", "requests"),
    [
        pytest.param(FRESH_SECONDS - 1, 5, 1, id="used again for a while"),
        pytest.param(FRESH_SECONDS, 7, 2, id="then read again"),
    ],
)
def test_an_answer_is_used_again_for_a_while(seconds: float, desired: int, requests: int) -> None:
    with ApiServer([*KINDS, clone_set("web", 5)]) as server:

        def scale_up(clock: ManualClock) -> None:
            server.store.put(clone_set("web", 7))
            clock.advance(timedelta(seconds=seconds))

        (scale,) = read(server, WEB, between=scale_up)
        asked = paths(server)

    assert scale.desired == desired
    assert asked.count(SCALE) == requests


@pytest.mark.parametrize(
    ("objects", "more"),
    [
        pytest.param([*KINDS], {}, id="no such object"),
        pytest.param([], {}, id="no such kind"),
        pytest.param(
            [definition("CloneSet", group=GROUP, version=VERSION), clone_set("web", 5)],
            {},
            id="no scale",
        ),
        pytest.param(
            [*KINDS, clone_set("web", 5)],
            {"faults": [Fault(path=SCALE, body=b"{}")]},
            id="an answer that is no scale",
        ),
        pytest.param(
            [*KINDS, clone_set("web", 5)],
            {"denied": [DeniedPermission(verb="get", resource="clonesets/scale")]},
            id="not allowed",
        ),
    ],
)
def test_what_cannot_be_read_is_left_out(objects: list[Object], more: dict[str, object]) -> None:
    with ApiServer(objects, **more) as server:  # type: ignore[arg-type]
        assert read(server, WEB) == ()


def test_objects_that_control_pods_or_replica_sets_are_read() -> None:
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "CloneSet", "name": "web", "uid": "u"}
    replica_set = workload("ReplicaSet/rs", owner="CloneSet/of-set")
    replica_set["metadata"]["ownerReferences"][0]["apiVersion"] = f"{GROUP}/{VERSION}"
    world = cluster(
        pod("a", metadata={"ownerReferences": [reference]}),
        pod("b", owner="CloneSet/other-group"),
        replica_set,
    )

    assert world.snapshot().scaled_objects([CLONE_SET]) == {
        WEB,
        ScaledObject(CLONE_SET, "default", "of-set"),
    }
