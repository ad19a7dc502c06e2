"""Fingerprints: what is held can be held against the API server by anybody who can add up."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from resettle.kube.watch.store import Fingerprint, ObjectStore, fingerprint
from resettle.testing import ApiServer, cluster, node, pod
from tests.kube.watch.harness import caught_up, watched

Held = tuple[str, str, int, Any]
WORLD = cluster(
    node("n1").holding(pod("placed", metadata={"uid": "u-1"})),
    pod("waiting", phase="Pending", metadata={"uid": "u-2"}),
)
SEEN = {pod.name: pod for pod in WORLD.snapshot().pods}


def of(*lines: str) -> Fingerprint:
    """The fingerprint of these lines."""
    return Fingerprint(
        len(lines), sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    )


@pytest.mark.parametrize(
    ("held", "lines"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("", "n1", 7, 0)], ["/n1 7"], id="a thing without a namespace"),
        pytest.param(
            [("web", "b", 9, 0), ("web", "a-b", 8, 0), ("ops", "z", 1, 0)],
            ["ops/z 1", "web/a-b 8", "web/b 9"],
            id="sorted, in whatever order they came",
        ),
        pytest.param(
            [("default", "placed", 3, SEEN["placed"])],
            ["default/placed 3 u-1 n1 Running"],
            id="a pod, and where and how it is",
        ),
        pytest.param(
            [("default", "waiting", 4, SEEN["waiting"])],
            ["default/waiting 4 u-2  Pending"],
            id="a pod without a place",
        ),
    ],
)
def test_a_fingerprint_is_that_of_a_line_for_each_object(
    held: list[Held], lines: list[str]
) -> None:
    things = {(namespace, name): thing for namespace, name, _, thing in held}
    shelf = ObjectStore(lambda *key: things.get(key), lambda before, after: None)
    for namespace, name, version, _ in held:
        shelf.versions.setdefault(namespace, {})[name] = version

    assert fingerprint(shelf) == of(*lines)


def test_a_cache_has_the_fingerprints_of_what_the_server_holds() -> None:
    async def run_scenario() -> None:
        with ApiServer(WORLD.objects) as server:
            async with watched(server) as cache:
                cache.snapshot(WORLD.now)
                server.store.delete("Pod", "waiting")
                server.store.put(pod("late", metadata={"uid": "u-3"}))
                await caught_up(server, cache)

                held = {item["metadata"]["name"]: item for item in server.store.list("Pod")}
                versions = {
                    name: item["metadata"]["resourceVersion"] for name, item in held.items()
                }
                assert cache.fingerprints()["Pod"] == of(
                    f"default/late {versions['late']} u-3  Running",
                    f"default/placed {versions['placed']} u-1 n1 Running",
                )
                assert cache.fingerprints()["Node"].objects == 1

    asyncio.run(run_scenario())
