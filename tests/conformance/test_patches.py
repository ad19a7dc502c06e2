"""Patches of three kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.harness import CORE, Place, config_map

from .client import JSON_PATCH, MERGE, STRATEGIC


@pytest.mark.parametrize(
    ("media", "patch", "data"),
    [
        pytest.param(MERGE, {"data": {"b": "2"}}, {"a": "1", "b": "2"}, id="merge adds"),
        pytest.param(MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}, id="merge removes"),
        pytest.param(
            JSON_PATCH,
            [{"op": "add", "path": "/data/b", "value": "2"}],
            {"a": "1", "b": "2"},
            id="JSON adds",
        ),
        pytest.param(
            JSON_PATCH,
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "move", "from": "/data/a", "path": "/data/x~1y"},
            ],
            {"x/y": "1"},
            id="JSON tests and moves",
        ),
        pytest.param(
            STRATEGIC, {"data": {"a": None, "b": "2"}}, {"b": "2"}, id="strategic merges maps"
        ),
    ],
)
def test_a_patch_changes_what_it_names(
    place: Place, media: str, patch: Any, data: dict[str, str]
) -> None:
    if "x/y" in data:
        # Keys of a ConfigMap have no slash; annotations may.
        body = {"metadata": {"name": "a", "annotations": {"a": "1"}}}
        place.client.post(place.config_maps, body)
        patch = [{**step, **_in_annotations(step)} for step in patch]
    else:
        place.client.post(place.config_maps, config_map("a", a="1"))

    reply = place.client.patch(f"{place.config_maps}/a", patch, media)

    assert reply.code == 200, reply.body
    patched = reply.body.get("data") or reply.body["metadata"]["annotations"]
    assert patched == data


def _in_annotations(row: dict[str, Any]) -> dict[str, str]:
    return {
        key: row[key].replace("/data/", "/metadata/annotations/")
        for key in ("path", "from")
        if key in row
    }


@pytest.mark.parametrize(
    ("media", "patch", "code"),
    [
        pytest.param(
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "2"}],
            422,
            id="a test that fails",
        ),
        pytest.param(
            JSON_PATCH, [{"op": "remove", "path": "/data/b"}], 422, id="nothing to remove"
        ),
        pytest.param(JSON_PATCH, {"op": "remove"}, 400, id="a patch of the wrong shape"),
        pytest.param(
            MERGE, {"metadata": {"resourceVersion": "1"}, "data": {"b": "2"}}, 409, id="a version"
        ),
        pytest.param("application/json", {"data": {}}, 415, id="no patch at all"),
    ],
)
def test_a_patch_that_does_not_apply_changes_nothing(
    place: Place, media: str, patch: Any, code: int
) -> None:
    place.client.post(place.config_maps, config_map("a", a="1"))

    assert place.client.patch(f"{place.config_maps}/a", patch, media).code == code
    assert place.client.get(f"{place.config_maps}/a").body["data"] == {"a": "1"}


def test_a_strategic_merge_finds_conditions_by_their_type(place: Place) -> None:
    node = place.node()
    path = f"{CORE}/nodes/{node}/status"
    for kind, status in (("Ready", "True"), ("DiskPressure", "False"), ("Ready", "Unknown")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        assert place.client.patch(path, patch, STRATEGIC).code == 200

    conditions = place.client.get(f"{CORE}/nodes/{node}").body["status"]["conditions"]

    assert {condition["type"]: condition["status"] for condition in conditions} == {
        "Ready": "Unknown",
        "DiskPressure": "False",
    }


def test_a_strategic_merge_replaces_taints_as_a_whole(place: Place) -> None:
    node = place.node()
    for key in ("first", "second"):
        taints = [{"key": key, "effect": "NoSchedule"}]
        patch = {"spec": {"taints": taints}}
        assert place.client.patch(f"{CORE}/nodes/{node}", patch, STRATEGIC).code == 200

    taints = place.client.get(f"{CORE}/nodes/{node}").body["spec"]["taints"]

    assert [taint["key"] for taint in taints] == ["second"]


def test_a_dry_run_patches_nothing(place: Place) -> None:
    place.client.post(place.config_maps, config_map("a", a="1"))

    shown = place.client.patch(f"{place.config_maps}/a", {"data": {"a": "2"}}, dryRun="All")

    assert shown.body["data"] == {"a": "2"}
    assert place.client.get(f"{place.config_maps}/a").body["data"] == {"a": "1"}
