"""DefaultEvictor's arguments: every wrong value is reported, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.default_evictor.args import Args
from resettle.plugins.default_evictor.plugin import PLUGIN
from tests.plugins.harness import EVERY_POD, faults

Object = dict[str, Any]

DEPRECATED = [
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
    "ignorePodsWithoutPDB",
]
DEFAULTS = ["PodsWithLocalStorage", "DaemonSetPods", "SystemCriticalPods", "FailedBarePods"]
EXTRAS = ["PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"]


def classes(*names: str) -> Object:
    return {"PodsWithPVC": {"protectedStorageClasses": [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    "evictor",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"priorityThreshold": {}}, id="empty threshold"),
        pytest.param({"priorityThreshold": {"value": -5}}, id="negative threshold"),
        pytest.param({"priorityThreshold": {"value": 2_000_000_000}}, id="highest threshold"),
        pytest.param({"minReplicas": 1}, id="one replica"),
        pytest.param({"minPodAge": "1h30m"}, id="a duration"),
        pytest.param({"labelSelector": {}}, id="empty selector"),
        pytest.param({"podProtections": {"defaultDisabled": DEFAULTS}}, id="all defaults lifted"),
        pytest.param({"podProtections": {"extraEnabled": EXTRAS}}, id="all extras"),
        pytest.param({"podProtections": {}} | dict.fromkeys(DEPRECATED, True), id="older flags"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": classes("ssd", "hdd")}},
            id="storage classes",
        ),
        pytest.param(
            {"ignorePvcPods": True, "podProtections": {"config": classes("")}},
            id="a nameless class beside the older flag",
        ),
        pytest.param(
            {"evictDaemonSetPods": False, "podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            id="an older flag that is off",
        ),
    ],
)
def test_arguments_that_make_sense_are_taken(evictor: Object) -> None:
    assert faults(EVERY_POD, evictor=evictor) == []


@pytest.mark.parametrize(
    ("evictor", "places"),
    [
        pytest.param(
            {"priorityThreshold": {"value": 1, "name": "high"}}, ["priorityThreshold"], id="both"
        ),
        pytest.param(
            {"priorityThreshold": {"value": 2_000_000_001}}, ["priorityThreshold"], id="too high"
        ),
        pytest.param({"noEvictionPolicy": "Always"}, ["noEvictionPolicy"], id="unknown policy"),
        pytest.param(
            {"noEvictionPolicy": "mandatory"}, ["noEvictionPolicy"], id="policy in lower case"
        ),
        pytest.param({"minReplicas": -1}, ["minReplicas"], id="negative replicas"),
        pytest.param({"minPodAge": 60}, ["minPodAge"], id="age without a unit"),
        pytest.param({"nodeSelector": "pool in blue"}, ["nodeSelector"], id="node selector"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            ["labelSelector.matchExpressions[0].operator"],
            id="label selector",
        ),
        pytest.param(
            {"namespaceLabelSelector": {"matchLabels": {"-": "x"}}},
            ["namespaceLabelSelector.matchLabels.-"],
            id="namespace selector",
        ),
        pytest.param({"evictdaemonsetpods": True}, ["evictdaemonsetpods"], id="key in lower case"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["Pods"]}},
            ["podProtections.extraEnabled[0]"],
            id="unknown extra",
        ),
        pytest.param(
            {"podProtections": {"defaultDisabled": ["Pods"]}},
            ["podProtections.defaultDisabled[0]"],
            id="unknown default",
        ),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC", "PodsWithPVC"]}},
            ["podProtections.extraEnabled[1]"],
            id="extra named twice",
        ),
        pytest.param(
            {"podProtections": {"defaultDisabled": ["DaemonSetPods", "DaemonSetPods"]}},
            ["podProtections.defaultDisabled[1]"],
            id="default named twice",
        ),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": classes("ssd", "")}},
            ["podProtections.config.PodsWithPVC.protectedStorageClasses"],
            id="nameless storage class",
        ),
        pytest.param(
            {"podProtections": {"config": {"podsWithPVC": {}}}},
            ["podProtections.config.podsWithPVC"],
            id="config key in the wrong case",
        ),
    ],
)
def test_arguments_that_cannot_be_meant_are_reported_with_their_place(
    evictor: Object, places: list[str]
) -> None:
    assert faults(EVERY_POD, evictor=evictor) == places


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_protection_cannot_be_disabled(name: str) -> None:
    paths = faults(EVERY_POD, evictor={"podProtections": {"defaultDisabled": [name]}})

    assert paths == ["podProtections.defaultDisabled[0]"]


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_protection_cannot_be_enabled(name: str) -> None:
    paths = faults(EVERY_POD, evictor={"podProtections": {"extraEnabled": [name]}})

    assert paths == ["podProtections.extraEnabled[0]"]


@pytest.mark.parametrize("flag", DEPRECATED)
@pytest.mark.parametrize(
    "chosen", [{"extraEnabled": ["PodsWithoutPDB"]}, {"defaultDisabled": ["DaemonSetPods"]}]
)
def test_an_older_flag_does_not_go_together_with_protections_by_name(
    flag: str, chosen: dict[str, list[str]]
) -> None:
    assert faults(EVERY_POD, evictor={flag: True}) == []
    assert faults(EVERY_POD, evictor={flag: True, "podProtections": chosen}) == [flag]


def test_all_that_is_wrong_is_reported_at_once() -> None:
    evictor = {
        "priorityThreshold": {"value": 1, "name": "high"},
        "evictDaemonSetPods": True,
        "ignorePvcPods": True,
        "podProtections": {
            "defaultDisabled": ["PodsWithPVC", "DaemonSetPods", "DaemonSetPods"],
            "extraEnabled": ["Pods", "PodsWithPVC"],
            "config": classes(""),
        },
    }

    assert sorted(faults(EVERY_POD, evictor=evictor)) == [
        "evictDaemonSetPods",
        "ignorePvcPods",
        "podProtections.config.PodsWithPVC.protectedStorageClasses",
        "podProtections.defaultDisabled[0]",
        "podProtections.defaultDisabled[2]",
        "podProtections.extraEnabled[0]",
        "priorityThreshold",
    ]


def test_the_guard_serves_both_filters_with_the_default_protections() -> None:
    assert PLUGIN.points == {"filter", "preevictionfilter"}
    assert Args().protections == set(DEFAULTS)
