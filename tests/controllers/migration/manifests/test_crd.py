"""The definition of PodMigrationJob: fields, rules and columns, without an API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.model.migration_job import JOBS_PATH, JobMode, PlaceholderPriority, Steering

Schema = dict[str, Any]
CRD = pod_migration_job_crd()
(VERSION,) = CRD["spec"]["versions"]
JOB: Schema = VERSION["schema"]["openAPIV3Schema"]
SPEC: Schema = JOB["properties"]["spec"]
STATUS: Schema = JOB["properties"]["status"]


def schemas(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Each schema below one, with its path."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{key}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


def messages(schema: Schema) -> list[str]:
    return [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]


def test_jobs_are_cluster_scoped_and_have_a_status_subresource() -> None:
    names = CRD["spec"]["names"]

    assert CRD["metadata"]["name"] == f"{names['plural']}.{CRD['spec']['group']}"
    assert f"/apis/{CRD['spec']['group']}/{VERSION['name']}/{names['plural']}" == JOBS_PATH
    assert CRD["spec"]["scope"] == "Cluster"
    assert names["shortNames"] == ["pmj"]
    assert VERSION["subresources"] == {"status": {}}


def test_it_is_plain_json_with_a_fresh_object_for_each_caller() -> None:
    assert json.loads(json.dumps(CRD)) == CRD
    assert pod_migration_job_crd() is not CRD


def test_the_columns_of_koordinator_come_first_then_ours() -> None:
    columns = [
        (column["name"], column.get("priority", 0))
        for column in VERSION["additionalPrinterColumns"]
    ]

    assert columns == [
        *(("Phase", 0), ("Status", 0), ("Age", 0), ("Node", 0), ("PodNamespace", 0), ("Pod", 0)),
        *(("NewPod", 0), ("TTL", 0), ("Mode", 0), ("From", 1), ("Reason", 1), ("Message", 1)),
    ]


def test_every_column_shows_a_field_of_the_schema() -> None:
    paths = {path for path, _ in schemas(JOB)} | {".metadata.creationTimestamp"}
    shown = [column["jsonPath"] for column in VERSION["additionalPrinterColumns"]]

    assert set(shown) <= paths
    assert {field["jsonPath"] for field in VERSION["selectableFields"]} <= paths


def test_every_schema_has_a_type() -> None:
    assert [path for path, schema in schemas(JOB) if "type" not in schema] == []


def test_texts_of_the_spec_are_bounded_so_that_rules_have_a_cost() -> None:
    unbounded = [
        path
        for path, schema in schemas(SPEC)
        if schema["type"] == "string" and not schema.keys() & {"maxLength", "enum"}
    ]

    assert unbounded == []


def test_nothing_of_the_status_is_an_enumeration_and_unknown_fields_stay() -> None:
    """So that an older definition takes what a newer controller writes."""
    enumerations = [path for path, schema in schemas(STATUS) if "enum" in schema]
    objects = [schema for _, schema in schemas(STATUS) if schema["type"] == "object"]

    assert enumerations == [".conditions[].status"], "True, False or Unknown for all kinds"
    assert all(schema["x-kubernetes-preserve-unknown-fields"] for schema in objects)


def test_conditions_are_a_map_by_type() -> None:
    conditions = STATUS["properties"]["conditions"]

    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".mode", tuple(JobMode)),
        (".reservationOptions.placeholderPriority", tuple(PlaceholderPriority)),
        (".reservationOptions.steering", tuple(Steering)),
        (".podRef.kind", ("Pod",)),
    ],
)
def test_choices_of_the_spec(path: str, values: tuple[str, ...]) -> None:
    assert dict(schemas(SPEC))[path]["enum"] == list(values)


def test_all_of_the_spec_but_paused_and_ttl_cannot_be_changed() -> None:
    by_path = dict(schemas(SPEC))
    fixed = {path for path, schema in by_path.items() if _is_fixed(path, messages(schema))}
    options = {f".reservationOptions.{key}" for key in by_path[".reservationOptions"]["properties"]}
    refused = {f".reservationOptions.{key}" for key in REFUSED}

    assert fixed == {".mode", ".podRef", ".deleteOptions"} | (options - refused)
    assert set(SPEC["properties"]) - {"paused", "ttl", "podRef"} == {
        rule["fieldPath"][1:]
        for rule in SPEC["x-kubernetes-validations"]
        if "oldSelf" in rule["rule"]
    }


REFUSED = ("reservationRef", "template", "preemptionOptions")


def _is_fixed(path: str, said: list[str]) -> bool:
    return f"{path.rpartition('.')[2]} cannot be changed; create another job" in said


@pytest.mark.parametrize("key", REFUSED)
def test_options_of_koordinator_s_reservations_are_refused_with_the_reason(key: str) -> None:
    options = SPEC["properties"]["reservationOptions"]

    assert any(message.startswith(f"{key} needs koord-scheduler") for message in messages(options))


def test_no_dry_run_and_no_time_of_zero() -> None:
    assert any("no dry run" in text for text in messages(SPEC["properties"]["deleteOptions"]))
    for path in (".ttl", ".reservationOptions.reserveTimeout"):
        assert "must be longer than 0s" in messages(dict(schemas(SPEC))[path])
