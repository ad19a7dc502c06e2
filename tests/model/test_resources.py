"""What a pod asks for in total, and the quality of service that earns it."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.model.resources import (
    ContainerResources,
    larger,
    parse_quantity,
    pod_requests,
    quality_of_service,
    total,
)
from resettle.testing import cluster, node, pod


def asking(restartable: bool = False, **requests: int) -> ContainerResources:
    return ContainerResources(requests, {}, restartable)


def sidecar(**requests: int) -> ContainerResources:
    return asking(restartable=True, **requests)


@pytest.mark.parametrize(
    ("containers", "first", "needs"),
    [
        pytest.param([], [], {}, id="nothing"),
        pytest.param([asking()], [], {}, id="what is never named is absent"),
        pytest.param([asking(cpu=0)], [], {"cpu": 0}, id="what is named with zero is there"),
        pytest.param(
            [asking(cpu=1), asking(cpu=2, gpu=1)], [], {"cpu": 3, "gpu": 1}, id="containers add"
        ),
        pytest.param([asking(cpu=3)], [asking(cpu=2)], {"cpu": 3}, id="a smaller init container"),
        pytest.param([asking(cpu=3)], [asking(cpu=5)], {"cpu": 5}, id="a larger init container"),
        pytest.param(
            [asking(cpu=3)],
            [asking(cpu=4), asking(cpu=5)],
            {"cpu": 5},
            id="init containers take turns",
        ),
        pytest.param(
            [asking(cpu=3, memory=1)],
            [asking(cpu=1, memory=9)],
            {"cpu": 3, "memory": 9},
            id="each resource by itself",
        ),
        pytest.param(
            [asking(cpu=3)], [sidecar(cpu=2)], {"cpu": 5}, id="a sidecar runs beside them"
        ),
        pytest.param(
            [asking(cpu=3)],
            [sidecar(cpu=2), asking(cpu=2)],
            {"cpu": 5},
            id="sidecar, then init: running",
        ),
        pytest.param(
            [asking(cpu=3)],
            [sidecar(cpu=2), asking(cpu=4)],
            {"cpu": 6},
            id="sidecar, then init: start",
        ),
        pytest.param(
            [asking(cpu=3)],
            [asking(cpu=4), sidecar(cpu=2)],
            {"cpu": 5},
            id="init before the sidecar",
        ),
        pytest.param(
            [asking(cpu=1)],
            [sidecar(cpu=2), asking(cpu=6), sidecar(cpu=3), asking(cpu=4)],
            {"cpu": 9},
            id="sidecars pile up: 2 + 3 + 4 at the last start",
        ),
        pytest.param([], [sidecar(gpu=1)], {"gpu": 1}, id="only a sidecar"),
    ],
)
def test_a_node_needs_room_for_running_and_for_the_worst_moment_of_the_start(
    containers: list[ContainerResources], first: list[ContainerResources], needs: dict[str, int]
) -> None:
    assert pod_requests(containers, first, {}, {}) == needs


@pytest.mark.parametrize(
    ("pod_level", "overhead", "needs"),
    [
        pytest.param({}, {}, {"cpu": 3, "memory": 3, "gpu": 1}, id="containers alone"),
        pytest.param({"cpu": 9}, {}, {"cpu": 9, "memory": 3, "gpu": 1}, id="pod level replaces"),
        pytest.param({"cpu": 1}, {}, {"cpu": 1, "memory": 3, "gpu": 1}, id="even by less"),
        pytest.param(
            {"memory": 5, "hugepages-2Mi": 2},
            {},
            {"cpu": 3, "memory": 5, "gpu": 1, "hugepages-2Mi": 2},
            id="memory and huge pages too",
        ),
        pytest.param({"gpu": 9}, {}, {"cpu": 3, "memory": 3, "gpu": 1}, id="nothing else"),
        pytest.param({}, {"cpu": 1}, {"cpu": 4, "memory": 3, "gpu": 1}, id="overhead adds"),
        pytest.param(
            {}, {"disk": 1}, {"cpu": 3, "memory": 3, "gpu": 1, "disk": 1}, id="any overhead"
        ),
        pytest.param(
            {"cpu": 9}, {"cpu": 1}, {"cpu": 10, "memory": 3, "gpu": 1}, id="overhead on pod level"
        ),
    ],
)
def test_the_pod_itself_may_ask_and_its_overhead_comes_on_top(
    pod_level: dict[str, int], overhead: dict[str, int], needs: dict[str, int]
) -> None:
    assert pod_requests([asking(cpu=3, memory=3, gpu=1)], [], pod_level, overhead) == needs


def test_a_decoded_pod_has_all_of_it_worked_in() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    made = pod(
        "it",
        spec={
            "containers": [container("100m"), container("150m")],
            "initContainers": [container("200m", restartPolicy="Always"), container("300m")],
            "overhead": {"cpu": "10m", "memory": "8Mi"},
            "resources": {"requests": {"memory": "64Mi"}, "limits": {"cpu": "9"}},
        },
    )

    (decoded_pod,) = cluster(node("n1").holding(made)).snapshot().pods

    wanted = {"cpu": "510m", "memory": "72Mi"}
    assert decoded_pod.spec.requests == {
        name: parse_quantity(text) for name, text in wanted.items()
    }
    assert decoded_pod.spec.requested == {"cpu"}


BOTH = {"cpu": 1, "memory": 1}


@pytest.mark.parametrize(
    ("containers", "quality"),
    [
        pytest.param([], "BestEffort", id="no containers"),
        pytest.param([ContainerResources({}, {})], "BestEffort", id="nothing asked"),
        pytest.param(
            [ContainerResources({"cpu": 0}, {"cpu": 0})], "BestEffort", id="zero is nothing"
        ),
        pytest.param([ContainerResources({"gpu": 1}, {"gpu": 1})], "BestEffort", id="only others"),
        pytest.param([ContainerResources({"cpu": 1}, {})], "Burstable", id="a request"),
        pytest.param([ContainerResources({}, {"cpu": 1})], "Burstable", id="a limit"),
        pytest.param([ContainerResources({"cpu": 1}, {"cpu": 1})], "Burstable", id="cpu alone"),
        pytest.param([ContainerResources(BOTH, BOTH)], "Guaranteed", id="requests equal limits"),
        pytest.param([ContainerResources({}, BOTH)], "Burstable", id="limits alone"),
        pytest.param([ContainerResources({"cpu": 1}, BOTH)], "Burstable", id="one request missing"),
        pytest.param(
            [ContainerResources(BOTH, {"cpu": 2, "memory": 1})], "Burstable", id="a higher limit"
        ),
        pytest.param([ContainerResources(BOTH, BOTH)] * 2, "Guaranteed", id="two alike"),
        pytest.param(
            [ContainerResources(BOTH, BOTH), ContainerResources({}, {})],
            "Burstable",
            id="one asks nothing",
        ),
        pytest.param(
            [ContainerResources(BOTH | {"gpu": 1}, BOTH)],
            "Guaranteed",
            id="other resources do not matter",
        ),
        pytest.param(
            [
                ContainerResources({"cpu": 2, "memory": 1}, {"cpu": 1, "memory": 1}),
                ContainerResources({"cpu": 1, "memory": 1}, {"cpu": 2, "memory": 1}),
            ],
            "Guaranteed",
            id="sums decide",
        ),
    ],
)
def test_resources_earn_a_quality_of_service(
    containers: list[ContainerResources], quality: str
) -> None:
    assert quality_of_service(containers) == quality


def test_what_the_status_says_of_the_quality_comes_first() -> None:
    made = pod("it", cpu="1", status={"qosClass": "Guaranteed"})

    (with_status,) = cluster(made).snapshot().pods
    (without_status,) = cluster(pod("it", cpu="1")).snapshot().pods

    assert (with_status.qos, without_status.qos) == ("Guaranteed", "Burstable")


def test_sums_and_maxima_are_taken_for_each_resource() -> None:
    assert total([{"a": 1, "b": 2}, {"b": 3, "c": 0}]) == {"a": 1, "b": 5, "c": 0}
    assert larger({"a": 1, "b": 2}, {"b": 1, "c": 0}) == {"a": 1, "b": 2, "c": 0}
