"""What an API server may answer instead of a list, and the error that is printed."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from resettle.dumps.collection import list_cluster
from resettle.errors import (
    ClusterError,
    ClusterUnreachable,
    Forbidden,
    InputError,
    ResettleError,
    Unauthorized,
)
from resettle.kube.auth.kubeconfig import Access, read_kubeconfig
from resettle.kube.watch.lists import ListExpired
from resettle.testing import NOW, ApiServer, Fault, pod
from tests.cli.harness import LIFETIME, resettle
from tests.kube.auth.builders import document, written
from tests.kube.auth.fakes import Authority, Pair
from tests.kube.watch.builders import struck

PODS = [pod(f"web-{i}") for i in range(3)]
READS = frozenset({"PodDisruptionBudget"})


class Ended(NamedTuple):
    """How a list of a server's objects ended, and where the server was."""

    error: ResettleError
    server: str


def ended(faults: list[Fault]) -> Ended:
    """The end of a list where these things go wrong."""
    with ApiServer(PODS, faults=faults) as server, pytest.raises(ResettleError) as caught:
        list_cluster(Access(server=server.url), READS)
    return Ended(caught.value, server.url)


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        pytest.param(
            struck("Node", status=401, message="Unauthorized"),
            Unauthorized,
            "SERVER does not accept the credentials; renew them",
            id="401: who are you?",
        ),
        pytest.param(
            struck("Pod", status=403, message="pods is forbidden"),
            Forbidden,
            'may not list pods; add to its ClusterRole: apiGroups: [""], resources: ["pods"], '
            'verbs: ["list"]',
            id="403: you may not",
        ),
        pytest.param(
            struck("PodDisruptionBudget", status=403, message="forbidden"),
            Forbidden,
            "may not list poddisruptionbudgets of policy; add to its ClusterRole: "
            'apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["list"]',
            id="403: nor that",
        ),
        pytest.param(
            struck("PodDisruptionBudget", status=404, body=b"404 page not found"),
            ClusterError,
            "SERVER has no poddisruptionbudgets",
            id="404: no such thing",
        ),
        pytest.param(
            struck("Pod", page=2, status=410, message="The provided continue parameter is too old"),
            ListExpired,
            "the list of pods expired before its end was read; try again",
            id="410: the rest is gone",
        ),
        pytest.param(
            struck("Node", status=500, message="etcdserver: leader changed"),
            ClusterError,
            "SERVER answered 500 to a list of nodes: etcdserver: leader changed",
            id="500: the message of its status",
        ),
        pytest.param(
            struck("Node", status=503, body=b"no healthy upstream"),
            ClusterError,
            "SERVER answered 503 to a list of nodes: no healthy upstream",
            id="503: the words of a proxy",
        ),
        pytest.param(
            struck("Pod", page=2, status=502, body=b""),
            ClusterError,
            "SERVER answered 502 to a list of pods: nothing",
            id="502: no words at all",
        ),
        pytest.param(
            struck("Node", status=500, body=b"[]"),
            ClusterError,
            "SERVER answered 500 to a list of nodes: []",
            id="500: JSON that is no status",
        ),
    ],
)
def test_an_answer_that_is_not_a_list_is_an_error_with_advice(
    faults: list[Fault], kind: type[ResettleError], says: str
) -> None:
    error, server = ended(faults)

    assert type(error) is kind
    assert str(error) == says.replace("SERVER", server)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>please sign in</html>", id="a page for people"),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"items": [', id="half a list"),
        pytest.param(b'{"items": 5}', id="a number of items"),
        pytest.param(b'{"items": [{"metadata": 5}]}', id="an item of another kind"),
        pytest.param(b'{"items": [{"metadata": {"name": "\xff"}}]}', id="not UTF-8"),
        pytest.param(b'{"metadata": 5}', id="metadata of another kind"),
        pytest.param(b"[]", id="a list in JSON only"),
    ],
)
def test_an_answer_that_cannot_be_understood_is_an_error_that_names_the_list(body: bytes) -> None:
    error, _ = ended(struck("Pod", body=body))

    assert type(error) is ClusterError
    assert "pods" in str(error)


def test_an_object_without_sense_is_named() -> None:
    body = json.dumps({"items": [pod("web-1", cpu="-1")]}).encode()

    error, _ = ended(struck("Pod", body=body))

    message = "pods, Pod default/web-1: cpu: `-1` is negative; a resource is zero or more"
    assert (type(error), str(error)) == (InputError, message)


@pytest.mark.parametrize("named", [{}, {"name": ""}], ids=["no name", "an empty one"])
def test_an_object_without_a_name_is_named_by_its_place(named: dict[str, str]) -> None:
    items = [pod("web-1"), {"metadata": {"namespace": "shop", **named}, "spec": {}}]

    error, _ = ended(struck("Pod", body=json.dumps({"items": items}).encode()))

    assert type(error) is ClusterError
    assert "pods" in str(error)
    assert "$.items[1].metadata" in str(error)


# -- no server there -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(struck("Node", cut_after_bytes=11), id="nodes"),
        pytest.param(struck("Pod", cut_after_bytes=11), id="pods"),
        pytest.param(struck("Pod", page=2, cut_after_bytes=11), id="the second page of pods"),
    ],
)
def test_a_server_that_hangs_up_in_the_middle_cannot_be_reached(faults: list[Fault]) -> None:
    error, server = ended(faults)

    assert type(error) is ClusterUnreachable
    assert str(error).startswith(f"{server} cannot be reached: ")
    assert str(error).endswith("; check the kubeconfig and network")


def test_a_closed_port_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        server = f"http://127.0.0.1:{once.getsockname()[1]}"

    with pytest.raises(ClusterUnreachable) as caught:
        list_cluster(Access(server=server), READS)
    assert str(caught.value) == (
        f"{server} cannot be reached: Connection refused; check the kubeconfig and network"
    )


# -- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusting", "reason"),
    [
        pytest.param(
            {"certificate-authority": "STRANGER"},
            r"its certificate is not trusted \(.+\)",
            id="an unknown authority",
        ),
        pytest.param(
            {"certificate-authority": "OURS", "tls-server-name": "other.example"},
            r"its certificate is not trusted \(.*other\.example.*\)",
            id="another name",
        ),
    ],
)
def test_an_untrusted_certificate_is_named_in_the_error(
    trusting: dict[str, str],
    reason: str,
    authority: Authority,
    server_pair: Pair,
    tmp_path: Path,
) -> None:
    stranger = Authority(tmp_path, "a stranger")
    known = {"STRANGER": str(stranger.certificate), "OURS": str(authority.certificate)}
    cluster = {key: known.get(value, value) for key, value in trusting.items()}
    with ApiServer(PODS, tls=authority.guarding(server_pair)) as server:
        file = written(tmp_path, document({"server": server.url, **cluster}))
        with pytest.raises(ClusterUnreachable, match=reason):
            list_cluster(read_kubeconfig(file), READS)

    assert server.requests == []


def test_a_certificate_is_not_looked_at_where_the_kubeconfig_says_so(
    authority: Authority, server_pair: Pair, tmp_path: Path
) -> None:
    with ApiServer(PODS, tls=authority.guarding(server_pair)) as server:
        cluster = {"server": server.url, "insecure-skip-tls-verify": True}
        access = read_kubeconfig(written(tmp_path, document(cluster)))
        snapshot = list_cluster(access, READS).snapshot(NOW)

    assert len(snapshot.pods) == 3


def test_a_server_that_wants_a_certificate_and_gets_none_cannot_be_reached(
    authority: Authority, server_pair: Pair, tmp_path: Path
) -> None:
    guarding = authority.guarding(server_pair, clients=True)
    with ApiServer(PODS, tls=guarding) as server:
        cluster = {"server": server.url, "certificate-authority": str(authority.certificate)}
        access = read_kubeconfig(written(tmp_path, document(cluster)))
        with pytest.raises(ClusterUnreachable):
            list_cluster(access, READS)

    assert server.requests == []


# -- at the front door ---------------------------------------------------------------------------


def test_the_command_says_it_in_one_line_and_ends_with_one(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(LIFETIME)
    with ApiServer(faults=struck("Pod", status=403, message="no")) as server:
        file = written(tmp_path, document({"server": server.url}))
        words = ("plan", "--kubeconfig", file, "--policy", "p.yaml")
        done = resettle(*words, cwd=tmp_path)

    assert done == (
        1,
        "",
        'error: may not list pods; add to its ClusterRole: apiGroups: [""], resources: ["pods"], '
        'verbs: ["list"]\n',
    )
