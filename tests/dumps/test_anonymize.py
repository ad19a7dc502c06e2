"""Hashed captures: names are gone, and decisions go by them as before."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from resettle.dumps.anonymize import WELL_KNOWN, Anonymizer
from resettle.model.kinds import KINDS
from resettle.model.pod import DELETION_COST, SOURCE
from resettle.testing import ApiServer, claim, definition, pod
from resettle.testing.builders import ZONE, Object
from tests.dumps.builders import ACME
from tests.dumps.harness import copied, strings_in
from tests.dumps.test_writer import WIDGET

DIGESTS = Anonymizer(b"salt")
DIGEST = re.compile(r"x[0-9a-f]{15}")


# -- single names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["web-1", "7", "shop.example/app:1", "Ünter den Linden", "a" * 253]
)
def test_a_name_becomes_a_short_name_that_is_no_number(name: str) -> None:
    assert DIGEST.fullmatch(DIGESTS.hash_name(name))


def test_a_salt_always_gives_the_same_digest_and_another_salt_another() -> None:
    assert Anonymizer(b"salt").hash_name("web") == DIGESTS.hash_name("web")
    assert Anonymizer(b"pepper").hash_name("web") != DIGESTS.hash_name("web")
    assert DIGESTS.hash_name("web-2") != DIGESTS.hash_name("web")


@pytest.mark.parametrize("name", ["", *sorted(WELL_KNOWN)])
def test_what_every_cluster_has_stays(name: str) -> None:
    assert DIGESTS.hash_name(name) == name


@pytest.mark.parametrize(
    ("key", "text", "becomes"),
    [
        pytest.param("app", "web", DIGESTS.hash_name("web"), id="a value is hashed like a name"),
        pytest.param("app", "", "", id="nothing stays nothing"),
        pytest.param("gpu", "true", "true", id="yes and no stay"),
        pytest.param("cores", "64", "64", id="a number stays, to be compared"),
        pytest.param("cores", "-1234567"[:7], "-123456", id="below zero too"),
        pytest.param(
            "account", "12345678", DIGESTS.hash_name("12345678"), id="a long one could be whose"
        ),
        pytest.param(
            "topology.kubernetes.io/zone",
            "east__west",
            f"{DIGESTS.hash_name('east')}__{DIGESTS.hash_name('west')}",
            id="several zones stay several",
        ),
        pytest.param("app", "a__b", DIGESTS.hash_name("a__b"), id="elsewhere such a value is one"),
        pytest.param(
            "app",
            "no value!",
            f"?{DIGESTS.hash_name('no value!')}",
            id="what is no value stays none",
        ),
    ],
)
def test_a_label_value_can_be_compared_as_before(key: str, text: str, becomes: str) -> None:
    assert DIGESTS.hash_value(key, text) == becomes


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param({"nodeSelector": {"cores": "64"}}, "64", id="a node selector"),
        pytest.param({"matchLabels": {"cores": "64"}}, "64", id="labels that are selected"),
        pytest.param(
            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["64"]}]},
            "64",
            id="a comparison",
        ),
        pytest.param(
            {"tolerations": [{"key": "age", "operator": "Lt", "value": "64"}]},
            "64",
            id="a toleration",
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["64"]}]},
            DIGESTS.hash_name("64"),
            id="but a field holds names",
        ),
    ],
)
def test_a_value_is_hashed_like_the_labels_it_is_compared_with(part: Object, value: str) -> None:
    item = {"metadata": {"name": "n"}, "spec": part}

    assert value in strings_in(DIGESTS.anonymize("Pod", item)["spec"])


# -- whole objects -------------------------------------------------------------------------------


def test_no_name_is_found_in_a_hashed_capture() -> None:
    with ApiServer(ACME) as server:
        plain, hashed = copied(server), copied(server, digests=DIGESTS)

    assert hashed.captured.counts == plain.captured.counts
    for kind in KINDS:
        assert "acme" in json.dumps(plain.of(kind)).lower()
    assert "acme" not in hashed.text.decode().lower()
    assert "192.0.2" not in hashed.text.decode()


def test_all_that_is_known_about_a_company_is_hashed_alike_everywhere() -> None:
    with ApiServer(ACME) as server:
        copy = copied(server, digests=DIGESTS)
    (anonymized,) = copy.of("Pod")
    team, home, shop = map(DIGESTS.hash_name, ("acme-team", "acme-node", "acme-shop"))
    at_home = {"key": "metadata.name", "operator": "In", "values": [home]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = anonymized["spec"]["affinity"]
    (volume,), (limits,) = copy.of("PersistentVolume"), copy.of("CSINode")
    (covering,) = copy.of("PodDisruptionBudget")

    assert anonymized["metadata"]["namespace"] == team
    assert anonymized["metadata"]["labels"]["app"] == shop
    assert anonymized["spec"]["nodeName"] == home
    assert affinity["nodeAffinity"][required]["nodeSelectorTerms"][0]["matchFields"] == [at_home]
    assert affinity["podAffinity"][required][0]["namespaces"] == [team]
    assert covering["spec"]["selector"]["matchLabels"]["app"] == shop
    assert covering["metadata"]["namespace"] == team
    assert limits["metadata"]["name"] == home
    assert limits["spec"]["drivers"][0]["name"] == volume["spec"]["csi"]["driver"]
    assert {item["metadata"]["name"] for item in copy.of("Namespace")} >= {team}


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        pytest.param("Pod", ["status", "phase"], "Running", id="a phase"),
        pytest.param("Pod", ["metadata", "ownerReferences", 0, "kind"], "ReplicaSet", id="a kind"),
        pytest.param(
            "Pod", ["spec", "topologySpreadConstraints", 0, "topologyKey"], ZONE, id="a topology"
        ),
        pytest.param("Pod", ["spec", "tolerations", 0, "key"], "for", id="the key of a taint"),
        pytest.param("Node", ["spec", "taints", 0, "effect"], "NoSchedule", id="an effect"),
        pytest.param("Node", ["status", "allocatable", "memory"], "16Gi", id="an amount"),
        pytest.param("Node", ["status", "conditions", 0, "type"], "Ready", id="a condition"),
    ],
)
def test_what_decisions_go_by_stays(kind: str, path: list[Any], text: str) -> None:
    with ApiServer(ACME) as server:
        (item,) = copied(server, digests=DIGESTS).of(kind)

    part: Any = item
    for step in path:
        part = part[step]
    assert part == text


def test_a_field_that_is_not_listed_is_taken_for_a_name() -> None:
    item = {"metadata": {"name": "n"}, "spec": {"nickname": "acme", "friends": ["acme"]}}

    assert DIGESTS.anonymize("Node", item)["spec"] == {
        "nickname": DIGESTS.hash_name("acme"),
        "friends": [DIGESTS.hash_name("acme")],
    }


@pytest.mark.parametrize(
    ("mark", "text", "stays"),
    [
        pytest.param("descheduler.alpha.kubernetes.io/evict", " No ", True, id="a no"),
        pytest.param("descheduler.alpha.kubernetes.io/evict", "ask Ann", False, id="a remark"),
        pytest.param(SOURCE, "api", True, id="where a pod came from"),
        pytest.param(SOURCE, "acme", False, id="an unknown place"),
        pytest.param(DELETION_COST, "-10000000000", True, id="a cost"),
        pytest.param(DELETION_COST, "acme", False, id="a cost that is none"),
    ],
)
def test_an_annotation_keeps_the_words_that_decide(mark: str, text: str, stays: bool) -> None:
    item = {"metadata": {"name": "p", "annotations": {mark: text}}}
    anonymized = DIGESTS.anonymize("Pod", item)["metadata"]["annotations"]

    assert anonymized == {mark: text if stays else DIGESTS.hash_name(text)}


def test_the_claim_that_was_made_for_a_pod_is_still_found() -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    objects = [pod("web-1", volumes=[volume]), claim("web-1-scratch"), claim("web-1")]
    with ApiServer(objects) as server:
        snapshot = copied(server, digests=DIGESTS).snapshot()

    (anonymized,) = snapshot.pods
    assert len(snapshot.claims) == 2
    assert [
        f"{anonymized.namespace}/{name}" in snapshot.claims for name in anonymized.own_claims
    ] == [True]


def test_kinds_of_plugins_are_left_out_of_an_anonymized_capture() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "acme"}}
    with ApiServer([definition("Widget", group="example.com"), widget]) as server:
        copy = copied(server, kinds=[WIDGET], digests=DIGESTS)

    assert copy.of("Widget") == []
    assert "widgets" not in copy.captured.counts
    assert "acme" not in copy.text.decode()
