"""Lists from an API server, over a real socket: what is asked for, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from resettle.dumps.collection import list_cluster
from resettle.errors import InputError
from resettle.framework import Kind, default_registry, load_policy
from resettle.framework.descheduler import build_descheduler
from resettle.kube.auth.kubeconfig import Access, read_kubeconfig
from resettle.kube.watch.lists import ListClient
from resettle.model.kinds import KINDS
from resettle.model.pod import CONDITIONS
from resettle.testing import NOW, ApiServer, Fault, budget, definition, node, pod
from tests.cli import harness
from tests.kube.auth.builders import document, written
from tests.kube.auth.fakes import Authority, Pair
from tests.kube.watch.builders import continued, in_pages, paths_of

ALWAYS = ["/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"]


class Meta(Struct, frozen=True):
    name: str


class Widget(Struct, frozen=True):
    metadata: Meta


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


def widgets(count: int) -> list[dict[str, Any]]:
    """Custom resources, large as some are, and what makes them known."""
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    long_text = "once upon a time " * 200
    made = [{**head, "metadata": {"name": f"w{i}"}, "spec": long_text} for i in range(count)]
    return [definition("Widget", group="example.com"), *made]


def pods(count: int) -> list[dict[str, Any]]:
    return [pod(f"web-{i}") for i in range(count)]


def listed(server: ApiServer, *reads: str, kinds: Iterable[Kind] = ()) -> Any:
    """The snapshot that a list of these kinds makes."""
    return list_cluster(Access(server=server.url), frozenset(reads), kinds).snapshot(NOW)


@pytest.mark.parametrize("reads", [(), (CONDITIONS,)], ids=["no plugin", "a plugin"])
def test_conditions_of_pods_are_there_if_a_plugin_reads_them(reads: tuple[str, ...]) -> None:
    with ApiServer([pod("a")]) as server:
        (listed_pod,) = listed(server, *reads).pods

    assert (listed_pod.state.conditions is not None) == bool(reads)
    assert listed_pod.state.ready


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "page", "continued"),
    [
        pytest.param(0, 2, [False], id="an empty list is one page"),
        pytest.param(2, 2, [False], id="a full page without a token is the last"),
        pytest.param(3, 2, [False, True], id="a token leads to the next page"),
        pytest.param(5, 2, [False, True, True], id="and so on until there is none"),
    ],
)
def test_pages_are_followed_to_the_end(count: int, page: int, continued: list[bool]) -> None:
    with ApiServer(pods(count), faults=[in_pages(page)]) as server:
        snapshot = listed(server)

    assert sorted(pod.name for pod in snapshot.pods) == [f"web-{i}" for i in range(count)]
    of_pods = [request for request in server.requests if request.path == KINDS["Pod"].path]
    assert ["continue" in request.query for request in of_pods] == continued
    assert {request.query["limit"] for request in of_pods} == {"500"}


@pytest.mark.parametrize(
    ("written", "token"),
    [
        pytest.param("+/2=", "+/2=", id="that a query has to quote"),
        pytest.param("2\\u0026more", "2&more", id="that JSON has to escape"),
    ],
)
def test_a_token_is_sent_back_as_it_was_meant(written: str, token: str) -> None:
    """Tokens are opaque; the real server's happen to need no quoting."""
    first, last = (json.dumps(pod(name)).encode() for name in ("web-0", "web-1"))
    head = b'{"kind": "PodList", "metadata": {"continue": "%s"}, ' % written.encode()
    bodies = (head + b'"items": [%s]}' % first, b'{"metadata": {}, "items": [%s]}' % last)
    faults = [Fault(path=KINDS["Pod"].path, body=body) for body in bodies]

    with ApiServer(faults=faults) as server:
        snapshot = listed(server)

    assert [pod.name for pod in snapshot.pods] == ["web-0", "web-1"]
    assert server.requests[-1].query["continue"] == token


def test_a_label_that_looks_like_a_token_is_none() -> None:
    """Labels are close to the beginning of a page, where the token is looked for."""
    labelled = pod("web-0", labels={"continue": "please"})

    with ApiServer([labelled]) as server:
        snapshot = listed(server)

    assert [pod.name for pod in snapshot.pods] == ["web-0"]
    assert paths_of(server) == ALWAYS[:2]


def test_pages_of_custom_resources_are_followed_though_their_items_come_first() -> None:
    """The API server writes the keys of such lists in the order of the alphabet."""
    with ApiServer(widgets(5), faults=[in_pages(2)]) as server:
        snapshot = listed(server, "Widget", kinds=[WIDGET])

    assert [item.metadata.name for item in snapshot.others["Widget"]] == [f"w{i}" for i in range(5)]
    assert paths_of(server).count(WIDGET.path) == 3


def test_the_next_page_is_on_its_way_before_this_one_is_handed_out() -> None:
    with ApiServer(pods(3), faults=[in_pages(2)]) as server:
        api = ListClient(Access(server=server.url))
        try:
            pages = api.pages(KINDS["Pod"].path, "pods")
            assert server.requests == []
            first = next(pages)
            assert continued(server)
            rest = list(pages)
        finally:
            api.close()

    assert [body.count(b"uid-default-web") for body in (first, *rest)] == [2, 1]


def test_the_next_page_is_on_its_way_before_this_one_is_decoded() -> None:
    calls: list[tuple[str, bool]] = []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        if name == "decode" and paths_of(server)[-1] == KINDS["Pod"].path:
            calls.append((name, continued(server)))
        yield

    with ApiServer(pods(3), faults=[in_pages(2)]) as server:
        list_cluster(Access(server=server.url), frozenset(), (), phase)

    assert calls == [("decode", True)] * 2


def test_one_connection_serves_all_lists() -> None:
    with ApiServer(pods(9), faults=[in_pages(2)]) as server:
        listed(server, "PodDisruptionBudget", "Namespace")

    assert len(server.requests) > 5
    assert len({asked.client for asked in server.requests}) == 1


# -- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evictor", "also"),
    [
        pytest.param({}, [], id="nodes, pods and budgets always"),
        pytest.param(
            {"priorityThreshold": {"name": "gold"}},
            ["/apis/scheduling.k8s.io/v1/priorityclasses"],
            id="priority classes for a threshold by name",
        ),
        pytest.param({"priorityThreshold": {"value": 5}}, [], id="none for a threshold by value"),
        pytest.param(
            {"namespaceLabelSelector": {"matchLabels": {"team": "a"}}},
            ["/api/v1/namespaces"],
            id="namespaces for a selector of their labels",
        ),
        pytest.param(
            {
                "podProtections": {
                    "extraEnabled": ["PodsWithPVC"],
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
                }
            },
            ["/api/v1/persistentvolumeclaims"],
            id="claims for protected storage classes",
        ),
    ],
)
def test_only_what_the_policy_reads_is_listed(evictor: dict[str, Any], also: list[str]) -> None:
    registry = default_registry()
    profile = {"name": "p", "pluginConfig": [{"name": "DefaultEvictor", "args": evictor}]}
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    text = json.dumps({**head, "profiles": [profile]})
    descheduler = build_descheduler(load_policy(text, name="policy", plugins=registry), registry)

    with ApiServer() as server:
        listed(server, *descheduler.reads)

    assert paths_of(server)[:2] == ALWAYS[:2]
    assert sorted(paths_of(server)) == sorted(ALWAYS + also)


@pytest.mark.parametrize(
    ("reads", "asked"),
    [
        pytest.param(["Widget"], [*ALWAYS[:2], WIDGET.path], id="when it is read"),
        pytest.param([], ALWAYS[:2], id="not when no enabled plugin reads it"),
        pytest.param(["usage", "history"], ALWAYS[:2], id="nor what is no kind at all"),
    ],
)
def test_a_kind_of_a_plugins_own_is_listed_where_it_says(
    reads: list[str], asked: list[str]
) -> None:
    with ApiServer(widgets(1)) as server:
        listed(server, *reads, kinds=[WIDGET])

    assert paths_of(server) == asked


def test_a_kind_that_does_not_say_where_it_is_listed_is_an_error_that_names_it() -> None:
    with (
        ApiServer() as server,
        pytest.raises(InputError, match="the plugin that reads Widget declares no path"),
    ):
        listed(server, "Widget", kinds=[Kind("Widget", Widget)])


def test_a_server_behind_a_path_is_asked_below_it() -> None:
    with ApiServer(pods(1), prefix="/k8s/clusters/c1") as server:
        snapshot = listed(server)

    assert len(snapshot.pods) == 1
    assert paths_of(server) == [f"/k8s/clusters/c1{path}" for path in ALWAYS[:2]]


# -- who asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("s3cret", id="the token"),
        pytest.param("", id="nothing where there is none"),
    ],
)
def test_a_token_is_sent_with_every_request(token: str) -> None:
    with ApiServer(pods(3), token=token, faults=[in_pages(2)]) as server:
        list_cluster(Access(server=server.url, token=token), frozenset())

    assert [asked.token for asked in server.requests] == [token] * 3


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({}, id="by its address"),
        pytest.param({"tls-server-name": "api.example"}, id="by another name of the server"),
    ],
)
def test_a_server_shows_its_certificate_and_asks_for_ours(
    cluster: dict[str, Any],
    authority: Authority,
    server_pair: Pair,
    client_pair: Pair,
    tmp_path: Path,
) -> None:
    user = dict(zip(("client-certificate", "client-key"), map(str, client_pair), strict=True))
    guarding = authority.guarding(server_pair, clients=True)
    with ApiServer(pods(3), tls=guarding, faults=[in_pages(2)]) as server:
        named = {"server": server.url, "certificate-authority": str(authority.certificate)}
        access = read_kubeconfig(written(tmp_path, document({**named, **cluster}, user)))
        snapshot = list_cluster(access, frozenset()).snapshot(NOW)

    assert len(snapshot.pods) == 3
    (first, *_) = server.requests
    assert (first.path, first.query, first.token) == (KINDS["Node"].path, {"limit": "500"}, "")


# -- the same plan -------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_a_live_cluster_is_planned_for_as_its_dump_is(output: str, tmp_path: Path) -> None:
    policy = harness.LOPSIDED / "policy.yaml"
    words = ("plan", "--policy", policy, "--now", harness.NOW, "-o", output)
    with ApiServer(harness.lopsided_objects(), token="t", faults=[in_pages(7)]) as server:
        file = written(tmp_path, document({"server": server.url}, {"token": "t"}))
        live = harness.resettle(*words, "--kubeconfig", file, cwd=tmp_path)

    dumped = harness.resettle(*words, "--cluster", harness.LOPSIDED / "cluster.yaml", cwd=tmp_path)

    assert live == dumped
    assert live.code == 0
    assert len(server.requests) > len(set(paths_of(server))), "several pages were needed"


def test_a_live_cluster_without_budgets_has_none_and_needs_no_note(tmp_path: Path) -> None:
    held = node("n1").holding(pod("web-1"))
    objects = [held.node, *held.pods, node("n2").node]
    (tmp_path / "p.yaml").write_text(harness.LIFETIME)
    with ApiServer(objects) as server:
        file = written(tmp_path, document({"server": server.url}))
        words = ("plan", "--kubeconfig", file, "--policy", "p.yaml", "--now", harness.NOW)
        done = harness.resettle(*words, cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 pod would move of 1 pod on 2 nodes, off 1 node.")


def test_budgets_of_a_live_cluster_are_spent(tmp_path: Path) -> None:
    held = node("n1").holding(pod("web-1", labels={"app": "web"}))
    objects = [
        held.node,
        *held.pods,
        node("n2").node,
        budget("b", allowed=0, labels={"app": "web"}),
    ]
    (tmp_path / "p.yaml").write_text(harness.LIFETIME)
    with ApiServer(objects) as server:
        file = written(tmp_path, document({"server": server.url}))
        words = ("plan", "--kubeconfig", file, "--policy", "p.yaml", "--now", harness.NOW)
        done = harness.resettle(*words, cwd=tmp_path)

    assert "  1  budget  " in done.out
