"""The oracle on pods that must be near one another, and pods that must not."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import namespace, node, pod
from tests.oracle.objects import (
    HOSTNAME,
    ZONE,
    Object,
    away,
    labelled,
    near,
    oracle,
    refusal,
    row,
    term,
)

WEB, DB = {"app": "web"}, {"app": "db"}
NAMESPACES = [
    namespace("default", team="blue"),
    namespace("shop", team="red"),
    namespace("lab", team="red"),
]


def other_keeps_away(rule: Object, **made: Any) -> bool:
    """Whether the rule of another pod, made so and on n2, keeps `it` from that node."""
    other = pod("other", **{"labels": DB, "affinity": away(rule), **made})
    why = refusal(node("n2", zone="b").holding(other), *NAMESPACES, labels=WEB)
    assert why in (None, f"{made.get('namespace', 'default')}/other keeps such pods away")
    return why is not None


def keeps_away(rule: Object, **made: Any) -> bool:
    """Whether the rule keeps `it` from n2, where another pod made so is."""
    other = pod("other", **{"labels": DB, **made})
    there = node("n2", zone="b").holding(other)
    why = refusal(there, *NAMESPACES, labels={**WEB, "version": "1"}, affinity=away(rule))
    assert why in (None, f"it keeps away from {made.get('namespace', 'default')}/other")
    return why is not None


TERMS = [
    pytest.param(term(labelled(app="{}")), "default", True, id="selected"),
    pytest.param(term(labelled(app="else")), "default", False, id="not selected"),
    pytest.param(term({}), "default", True, id="an empty selector selects everything"),
    pytest.param(term(None), "default", False, id="no selector selects nothing"),
    pytest.param(term({"matchExpressions": [row("app", "Exists")]}), "default", True, id="by rows"),
    pytest.param(term({}, "rack"), "default", False, id="a topology that nodes do not have"),
    pytest.param(term({}), "shop", False, id="its own namespace unless said"),
    pytest.param(term({}, namespaces=["shop", "default"]), "shop", True, id="listed"),
    pytest.param(term({}, namespaces=["lab"]), "shop", False, id="not listed"),
    pytest.param(term({}, namespaceSelector={}), "shop", True, id="all namespaces"),
    pytest.param(term({}, namespaces=[], namespaceSelector=None), "default", True, id="said so"),
]


@pytest.mark.parametrize(("rule", "home", "expected"), TERMS)
def test_a_pod_keeps_away_from_those_its_terms_pick(
    rule: Object, home: str, expected: bool
) -> None:
    assert keeps_away(_about(rule, "db"), namespace=home) is expected


@pytest.mark.parametrize(("rule", "home", "expected"), TERMS)
def test_a_pod_is_kept_away_by_those_whose_terms_pick_it(
    rule: Object, home: str, expected: bool
) -> None:
    assert other_keeps_away(_about(rule, "web"), namespace=home) is expected


def _about(rule: Object, app: str) -> Object:
    """The term with the label of the pod it is about."""
    wanted = (rule["labelSelector"] or {}).get("matchLabels", {}).get("app")
    return {**rule, "labelSelector": labelled(app=app)} if wanted == "{}" else rule


@pytest.mark.parametrize(
    ("more", "home", "expected"),
    [
        pytest.param({"namespaceSelector": labelled(team="red")}, "shop", True, id="selected"),
        pytest.param({"namespaceSelector": labelled(team="red")}, "default", False, id="not"),
        pytest.param(
            {"namespaceSelector": labelled(team="red"), "namespaces": ["default"]},
            "default",
            True,
            id="listed beside",
        ),
        pytest.param(
            {"namespaceSelector": labelled(team="red"), "namespaces": ["default"]},
            "lab",
            True,
            id="selected beside",
        ),
        pytest.param(
            {"namespaceSelector": labelled(team="green")},
            "default",
            False,
            id="a selector that selects none leaves not even its own",
        ),
    ],
)
def test_namespaces_are_listed_or_selected_by_their_labels(
    more: dict[str, Any], home: str, expected: bool
) -> None:
    assert keeps_away(term({}, **more), namespace=home) is expected


@pytest.mark.parametrize(
    ("more", "labels", "expected"),
    [
        pytest.param({"matchLabelKeys": ["version"]}, {"version": "1"}, True, id="same version"),
        pytest.param({"matchLabelKeys": ["version"]}, {"version": "2"}, False, id="another one"),
        pytest.param({"matchLabelKeys": ["version"]}, {}, False, id="none where one is wanted"),
        pytest.param({"matchLabelKeys": ["size"]}, {}, True, id="a key that the owner lacks"),
        pytest.param(
            {"mismatchLabelKeys": ["version"]}, {"version": "1"}, False, id="not the same"
        ),
        pytest.param({"mismatchLabelKeys": ["version"]}, {"version": "2"}, True, id="any other"),
        pytest.param({"mismatchLabelKeys": ["version"]}, {}, True, id="none is another"),
        pytest.param({"mismatchLabelKeys": ["size"]}, {}, True, id="a key the owner lacks too"),
    ],
)
def test_label_keys_are_measured_against_the_owner_of_the_term(
    more: dict[str, Any], labels: dict[str, str], expected: bool
) -> None:
    assert keeps_away(term({}, **more), labels=labels) is expected


@pytest.mark.parametrize(
    ("zone", "key", "takes"),
    [
        pytest.param("b", HOSTNAME, True, id="another node will do"),
        pytest.param("b", ZONE, False, id="another node of the zone will not"),
        pytest.param("c", ZONE, True, id="another zone will do"),
        pytest.param(None, ZONE, True, id="no zone will do"),
    ],
)
@pytest.mark.parametrize("owner", ["it", "other"])
def test_away_is_measured_in_domains(zone: str | None, key: str, takes: bool, owner: str) -> None:
    rules = {
        "it": away(term(labelled(app="db"), key)),
        "other": away(term(labelled(app="web"), key)),
    }
    mine, theirs = (rules[name] if name == owner else None for name in ("it", "other"))
    neighbour = node("n3", zone="b").holding(pod("other", labels=DB, affinity=theirs))

    why = refusal(node("n2", zone=zone), neighbour, labels=WEB, affinity=mine)
    assert (why is None) is takes


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param({"terminating": True}, True, id="one that is leaving still counts"),
        pytest.param({"phase": "Succeeded"}, False, id="one that has finished does not"),
    ],
)
def test_who_counts_as_a_neighbour(made: dict[str, Any], expected: bool) -> None:
    assert keeps_away(term({}), **made) is expected
    assert other_keeps_away(term({}), **made) is expected


# -- affinity --------------------------------------------------------------------------------------

LONELY = "no pod that it wants near is in its {}".format


@pytest.mark.parametrize(
    ("terms", "takes"),
    [
        pytest.param([term(labelled(app="db"), ZONE)], True, id="one is in the zone"),
        pytest.param([term(labelled(app="db"))], False, id="none is on the node"),
        pytest.param([term(labelled(app="else"), ZONE)], False, id="none is anywhere"),
        pytest.param([term(labelled(app="web"), ZONE)], True, id="first of its own kind"),
        pytest.param([term(None, ZONE)], False, id="no selector selects not even itself"),
        pytest.param(
            [term(labelled(app="db"), ZONE), term(labelled(app="db"))], False, id="all terms"
        ),
        pytest.param(
            [term(labelled(app="db"), ZONE), term(labelled(tier="back"), ZONE)],
            True,
            id="one pod for all terms",
        ),
        pytest.param(
            [term(labelled(app="db"), ZONE), term(labelled(app="cache"), ZONE)],
            False,
            id="not a pod for each",
        ),
        pytest.param([term({}, "rack")], False, id="a topology that the node does not have"),
        pytest.param([term({}, ZONE, namespaces=["shop"])], False, id="no pod in that namespace"),
    ],
)
def test_a_pod_goes_where_the_pods_are_that_it_wants_near(terms: list[Object], takes: bool) -> None:
    neighbour = node("n3", zone="b").holding(
        pod("db", labels={**DB, "tier": "back"}), pod("cache", labels={"app": "cache"})
    )
    why = refusal(node("n2", zone="b"), neighbour, labels=WEB, affinity=near(*terms))

    assert (why is None) is takes


def test_the_first_of_its_kind_needs_a_node_with_all_the_keys() -> None:
    own_kind = near(term(labelled(app="web"), ZONE), term(labelled(app="web"), "rack"))

    why = refusal(node("n2", zone="b"), labels=WEB, affinity=own_kind)
    assert why == "the node has no rack to be near to others in"
    racked = node("n2", zone="b", labels={"rack": "r"})
    assert refusal(racked, labels=WEB, affinity=own_kind) is None


def test_once_there_is_one_of_its_kind_the_others_go_to_it() -> None:
    own_kind = near(term(labelled(app="web"), ZONE))
    elsewhere = node("n3", zone="c").holding(pod("web", labels=WEB))

    why = refusal(node("n2", zone="b"), elsewhere, labels=WEB, affinity=own_kind)
    assert why == LONELY(ZONE)


def test_one_of_its_kind_that_is_in_no_domain_does_not_bind_it() -> None:
    own_kind = near(term(labelled(app="web"), ZONE))
    nowhere = node("n3").holding(pod("web", labels=WEB))

    assert refusal(node("n2", zone="b"), nowhere, labels=WEB, affinity=own_kind) is None


def test_one_of_its_kind_in_a_domain_of_any_term_binds_it() -> None:
    own_kind = near(term(labelled(app="web"), ZONE), term(labelled(app="web"), "rack"))
    half = node("n3", zone="b").holding(pod("web", labels=WEB))
    there = node("n2", zone="b", labels={"rack": "r"})

    assert refusal(there, half, labels=WEB, affinity=own_kind) == LONELY("rack")


def test_company_follows_a_pod_that_moves() -> None:
    asked = oracle(
        node("n1", zone="a").holding(pod("it", affinity=near(term(labelled(app="db"), ZONE)))),
        node("n2", zone="b").holding(pod("db", labels=DB)),
        node("n3", zone="c"),
    )
    assert asked.refuses("default/it", "n3") == LONELY(ZONE)

    asked.move("default/db", "n3")

    assert asked.refuses("default/it", "n3") is None
    assert asked.refuses("default/it", "n2") == LONELY(ZONE)
