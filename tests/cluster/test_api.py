"""Lists from an API server, over a real socket: what is asked for, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from resettle.cluster.api import Api, list_cluster
from resettle.cluster.kubeconfig import Access, read_kubeconfig
from resettle.errors import InputError
from resettle.framework import Kind, default_registry, load_policy
from resettle.framework.descheduler import assembled
from resettle.testing import NOW, budget, node, pod

from ..cli import command
from .certificates import Authority, Pair
from .configs import document, written
from .pocket import PATHS, PATIENCE_SECONDS, Asked, Pocket, serving

ALWAYS = ["/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"]


class Meta(Struct, frozen=True):
    name: str


class Widget(Struct, frozen=True):
    metadata: Meta


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


def widgets(count: int) -> list[dict[str, Any]]:
    """Custom resources, large as some are."""
    story = "once upon a time " * 200
    return [{"kind": "Widget", "metadata": {"name": f"w{i}"}, "spec": story} for i in range(count)]


def pods(count: int) -> list[dict[str, Any]]:
    return [pod(f"web-{i}") for i in range(count)]


def listed(pocket: Pocket, *reads: str, kinds: Iterable[Kind] = ()) -> Any:
    """The snapshot that a list of these kinds makes."""
    return list_cluster(Access(server=pocket.address), frozenset(reads), kinds).snapshot(NOW)


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "page", "asked"),
    [
        pytest.param(0, 2, [""], id="an empty list is one page"),
        pytest.param(2, 2, [""], id="a full page without a token is the last"),
        pytest.param(3, 2, ["", "+/2="], id="a token leads to the next page"),
        pytest.param(5, 2, ["", "+/2=", "+/4="], id="and so on until there is none"),
    ],
)
def test_pages_are_followed_to_the_end(count: int, page: int, asked: list[str]) -> None:
    with serving(Pocket(pods(count), page=page)) as pocket:
        snapshot = listed(pocket)

    assert sorted(it.name for it in snapshot.pods) == [f"web-{i}" for i in range(count)]
    of_pods = [it for it in pocket.asked if it.path == PATHS["Pod"]]
    assert [it.query.get("continue", "") for it in of_pods] == asked
    assert {it.query["limit"] for it in of_pods} == {"500"}


def test_a_token_that_json_has_to_escape_leads_on_as_well() -> None:
    with serving(Pocket(pods(5), page=2, token_end="&more")) as pocket:
        snapshot = listed(pocket)

    assert len(snapshot.pods) == 5


def test_a_label_that_looks_like_a_token_is_none() -> None:
    """Labels are close to the beginning of a page, where the token is looked for."""
    labelled = pod("web-0", labels={"continue": "please"})

    with serving(Pocket([labelled])) as pocket:
        snapshot = listed(pocket)

    assert [it.name for it in snapshot.pods] == ["web-0"]
    assert pocket.paths == ALWAYS[:2]


def test_pages_of_custom_resources_are_followed_though_their_items_come_first() -> None:
    """The API server writes the keys of such lists in the order of the alphabet."""
    with serving(Pocket(widgets(5), page=2, sorted_keys=True)) as pocket:
        snapshot = listed(pocket, "Widget", kinds=[WIDGET])

    assert [it.metadata.name for it in snapshot.others["Widget"]] == [f"w{i}" for i in range(5)]


def test_the_next_page_is_on_its_way_before_this_one_is_handed_out() -> None:
    with serving(Pocket(pods(3), page=2)) as pocket:
        api = Api(Access(server=pocket.address))
        try:
            pages = api.pages(PATHS["Pod"], "pods")
            assert not pocket.second_page_asked.is_set()
            first = next(pages)
            assert pocket.second_page_asked.wait(PATIENCE_SECONDS)
            rest = list(pages)
        finally:
            api.close()

    assert [body.count(b"uid-default-web") for body in (first, *rest)] == [2, 1]


def test_the_next_page_is_on_its_way_before_this_one_is_decoded() -> None:
    told: list[tuple[str, bool]] = []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        if name == "decode" and pocket.paths[-1] == PATHS["Pod"]:
            told.append((name, pocket.second_page_asked.wait(PATIENCE_SECONDS)))
        yield

    with serving(Pocket(pods(3), page=2)) as pocket:
        list_cluster(Access(server=pocket.address), frozenset(), (), phase)

    assert told == [("decode", True)] * 2


def test_one_connection_serves_all_lists() -> None:
    with serving(Pocket(pods(9), page=2)) as pocket:
        listed(pocket, "PodDisruptionBudget", "Namespace")

    assert pocket.connections == 1


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
    descheduler = assembled(load_policy(text, name="policy", plugins=registry), registry)

    with serving(Pocket()) as pocket:
        listed(pocket, *descheduler.reads)

    assert pocket.paths[:2] == ALWAYS[:2]
    assert sorted(pocket.paths) == sorted(ALWAYS + also)


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
    with serving(Pocket(widgets(1))) as pocket:
        listed(pocket, *reads, kinds=[WIDGET])

    assert pocket.paths == asked


def test_a_kind_that_does_not_say_where_it_is_listed_is_an_error_that_names_it() -> None:
    with (
        serving(Pocket()) as pocket,
        pytest.raises(InputError, match="the plugin that reads Widget does not say where"),
    ):
        listed(pocket, "Widget", kinds=[Kind("Widget", Widget)])


def test_a_server_behind_a_path_is_asked_below_it() -> None:
    with serving(Pocket(pods(1), prefix="/k8s/clusters/c1")) as pocket:
        snapshot = listed(pocket)

    assert len(snapshot.pods) == 1
    assert pocket.paths == [f"/k8s/clusters/c1{path}" for path in ALWAYS[:2]]


# -- who asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "sent"),
    [
        pytest.param("s3cret", "Bearer s3cret", id="the token"),
        pytest.param("", "", id="nothing where there is none"),
    ],
)
def test_a_token_is_sent_with_every_request(token: str, sent: str) -> None:
    with serving(Pocket(pods(3), page=2)) as pocket:
        list_cluster(Access(server=pocket.address, token=token), frozenset())

    assert [asked.token for asked in pocket.asked] == [sent] * 3


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({}, id="by its address"),
        pytest.param({"tls-server-name": "api.example"}, id="by another name it goes by"),
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
    with serving(Pocket(pods(3), page=2), authority.guarding(server_pair, clients=True)) as pocket:
        named = {"server": pocket.address, "certificate-authority": str(authority.certificate)}
        access = read_kubeconfig(written(tmp_path, document({**named, **cluster}, user)))
        snapshot = list_cluster(access, frozenset()).snapshot(NOW)

    assert len(snapshot.pods) == 3
    assert pocket.asked[0] == Asked(PATHS["Node"], {"limit": "500"}, "")


# -- the same plan -------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_a_live_cluster_is_planned_for_as_its_dump_is(output: str, tmp_path: Path) -> None:
    policy = command.LOPSIDED / "policy.yaml"
    words = ("plan", "--policy", policy, "--now", command.NOW, "-o", output)
    with serving(Pocket(command.lopsided_objects(), page=7)) as pocket:
        file = written(tmp_path, document({"server": pocket.address}, {"token": "t"}))
        live = command.resettle(*words, "--kubeconfig", file, cwd=tmp_path)

    dumped = command.resettle(*words, "--cluster", command.LOPSIDED / "cluster.yaml", cwd=tmp_path)

    assert live == dumped
    assert live.code == 0
    assert len(pocket.asked) > len(set(pocket.paths)), "several pages were needed"


def test_a_live_cluster_without_budgets_has_none_and_needs_no_note(tmp_path: Path) -> None:
    held = node("n1").holding(pod("web-1"))
    objects = [held.node, *held.pods, node("n2").node]
    (tmp_path / "p.yaml").write_text(command.LIFETIME)
    with serving(Pocket(objects)) as pocket:
        file = written(tmp_path, document({"server": pocket.address}))
        words = ("plan", "--kubeconfig", file, "--policy", "p.yaml", "--now", command.NOW)
        done = command.resettle(*words, cwd=tmp_path)

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
    (tmp_path / "p.yaml").write_text(command.LIFETIME)
    with serving(Pocket(objects)) as pocket:
        file = written(tmp_path, document({"server": pocket.address}))
        words = ("plan", "--kubeconfig", file, "--policy", "p.yaml", "--now", command.NOW)
        done = command.resettle(*words, cwd=tmp_path)

    assert "  1  budget  " in done.out
