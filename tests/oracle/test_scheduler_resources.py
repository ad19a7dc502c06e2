"""The oracle on resources, the number of pods, and host ports."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from resettle.testing import node, pod
from tests.oracle.objects import container, host_port, refusal
from tests.oracle.resources import amount_of, requests

MI = 2**20


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", Fraction(2)),
        ("250m", Fraction(1, 4)),
        ("1.5", Fraction(3, 2)),
        ("1e3", Fraction(1000)),
        ("3k", Fraction(3000)),
        ("2Ki", Fraction(2048)),
        ("1Gi", Fraction(2**30)),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_quantities_are_read_exactly(text: str, value: Fraction) -> None:
    assert amount_of(text) == value


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container("a", cpu="1")]}, 1, id="one container"),
        pytest.param(
            {"containers": [container("a", cpu="1"), container("b", cpu="2")]}, 3, id="their sum"
        ),
        pytest.param(
            {"containers": [container("a", cpu="1")], "initContainers": [container("i", cpu="3")]},
            3,
            id="an init container that wants more",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "initContainers": [container("i", cpu="2"), container("j", cpu="2")],
            },
            2,
            id="init containers follow one another",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "initContainers": [container("s", cpu="2", sidecar=True)],
            },
            3,
            id="a sidecar runs beside",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "initContainers": [container("s", cpu="1", sidecar=True), container("i", cpu="4")],
            },
            5,
            id="an init container starts beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "initContainers": [container("i", cpu="4"), container("s", cpu="1", sidecar=True)],
            },
            4,
            id="and not beside those after it",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1")], "resources": {"requests": {"cpu": "5"}}},
            5,
            id="the pod's own word counts",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1")], "overhead": {"cpu": "500m"}},
            Fraction(3, 2),
            id="with overhead",
        ),
    ],
)
def test_a_pod_needs_what_it_asks_for_at_its_hungriest(
    spec: dict[str, Any], cpu: int | Fraction
) -> None:
    assert requests(pod("it", spec=spec))["cpu"] == cpu


def test_requests_of_the_pod_itself_count_for_cpu_memory_and_huge_pages_only() -> None:
    asked = {"memory": "1Mi", "hugepages-2Mi": "4Mi", "example.com/gpu": "7"}
    spec = {"resources": {"requests": asked}}

    needed = requests(pod("it", memory="5Mi", requests={"example.com/gpu": "1"}, spec=spec))
    assert needed == {"memory": MI, "hugepages-2Mi": 4 * MI, "example.com/gpu": 1}


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("there", "beside", "asks", "why"),
    [
        pytest.param({"cpu": "4"}, {"cpu": "3"}, {"cpu": "1"}, None, id="just enough"),
        pytest.param(
            {"cpu": "4"}, {"cpu": "3"}, {"cpu": "1001m"}, "the node has too little cpu", id="short"
        ),
        pytest.param(
            {"memory": "1Gi"},
            {"memory": "512Mi"},
            {"memory": "513Mi"},
            "the node has too little memory",
            id="short of memory",
        ),
        pytest.param({"cpu": "4"}, {"cpu": "9"}, {}, None, id="asking for nothing is never short"),
        pytest.param({"cpu": "4"}, {"cpu": "9"}, {"cpu": "0"}, None, id="nor asking for zero"),
        pytest.param({}, {}, {GPU: "1"}, f"the node has too little {GPU}", id="not offered"),
        pytest.param({}, {}, {GPU: "0"}, None, id="zero of what is not offered"),
        pytest.param({GPU: "2"}, {GPU: "1"}, {GPU: "1"}, None, id="offered"),
        pytest.param(
            {GPU: "2"}, {GPU: "1"}, {GPU: "2"}, f"the node has too little {GPU}", id="taken"
        ),
        pytest.param({"pods": "2"}, {}, {}, None, id="room for one more pod"),
        pytest.param({"pods": "1"}, {}, {}, "the node takes no more pods", id="too many pods"),
    ],
)
def test_a_node_must_have_enough_left_of_everything_asked_for(
    there: dict[str, str], beside: dict[str, str], asks: dict[str, str], why: str | None
) -> None:
    other = node("n2", resources=there).holding(pod("beside", requests=beside))

    assert refusal(other, requests=asks) == why


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none() -> None:
    silent = node("n2")
    del silent.node["status"]["allocatable"]["pods"]

    assert refusal(silent) == "the node takes no more pods"


TAKEN = "host port TCP/80 is taken"


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        pytest.param(host_port(80), host_port(80), TAKEN, id="the same port"),
        pytest.param(host_port(80), host_port(81), None, id="another port"),
        pytest.param(host_port(80, protocol="UDP"), host_port(80), None, id="another protocol"),
        pytest.param(host_port(80), host_port(80, protocol="TCP"), TAKEN, id="TCP unless said"),
        pytest.param(
            host_port(80, hostIP="10.0.0.1"),
            host_port(80, hostIP="10.0.0.2"),
            None,
            id="another address",
        ),
        pytest.param(
            host_port(80, hostIP="10.0.0.1"),
            host_port(80, hostIP="10.0.0.1"),
            TAKEN,
            id="the same address",
        ),
        pytest.param(host_port(80, hostIP="10.0.0.1"), host_port(80), TAKEN, id="ours is any"),
        pytest.param(
            host_port(80, hostIP="0.0.0.0"),
            host_port(80, hostIP="10.0.0.1"),
            TAKEN,
            id="theirs is any",
        ),
        pytest.param(host_port(80), {"containerPort": 80}, None, id="not on the node"),
    ],
)
def test_a_port_of_the_node_is_opened_once(
    theirs: dict[str, Any], ours: dict[str, Any], why: str | None
) -> None:
    beside = pod("beside", spec={"containers": [container("a", ports=[theirs])]})
    made = {"containers": [container("a", ports=[ours])]}

    assert refusal(node("n2").holding(beside), spec=made) == why


@pytest.mark.parametrize(("sidecar", "why"), [(True, TAKEN), (False, None)])
def test_ports_of_init_containers_count_if_these_keep_running(
    sidecar: bool, why: str | None
) -> None:
    starting = container("s", ports=[host_port(80)], sidecar=sidecar)
    beside = pod("beside", spec={"initContainers": [starting]})
    made = {"containers": [container("a", ports=[host_port(80)])]}

    assert refusal(node("n2").holding(beside), spec=made) == why
