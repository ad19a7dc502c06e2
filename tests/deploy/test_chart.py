"""What of the Helm chart can be held to its word without Helm: names, versions, schema, files.

Helm itself lints and renders it in `tests/e2e/test_chart.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from resettle import __version__

from .manifests import KUSTOMIZE, pod_of
from .manifests import WORKLOADS as FORMS
from .values import CHART, VALUES, read

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = read(CHART / "values.yaml")


def problems(values: dict[str, Any]) -> list[str]:
    return [error.json_path for error in Draft7Validator(SCHEMA).iter_errors(values)]


def test_the_chart_is_of_this_version() -> None:
    chart = read(CHART / "Chart.yaml")

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_policy_to_begin_with_is_that_of_the_other_manifests() -> None:
    ours, theirs = CHART / "files" / "policy.yaml", KUSTOMIZE / "base" / "policy.yaml"

    assert ours.read_text(encoding="utf-8") == theirs.read_text(encoding="utf-8")


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", [CHART / "values.yaml", *VALUES], ids=lambda file: file.name)
def test_values_keep_to_the_schema(file: Path) -> None:
    assert problems(read(file)) == []


def test_each_value_has_a_default_and_a_place_in_the_schema() -> None:
    known = SCHEMA["properties"]

    assert known.keys() - {"global"} == DEFAULTS.keys()
    for name, value in DEFAULTS.items():
        inner = known[name].get("properties") if "additionalProperties" in known[name] else None
        assert inner is None or inner.keys() == value.keys(), name


@pytest.mark.parametrize(
    ("values", "at"),
    [
        pytest.param({"kind": "DaemonSet"}, "$.kind", id="a form that is none"),
        pytest.param({"dryrun": True}, "$", id="a misspelt name"),
        pytest.param({"rbac": {"creat": True}}, "$.rbac", id="a misspelt name further in"),
        pytest.param({"deschedulingInterval": "often"}, "$.deschedulingInterval", id="no time"),
        pytest.param({"dryRun": "false"}, "$.dryRun", id="a word for a truth"),
        pytest.param({"cmdOptions": {"--v": 3}}, "$.cmdOptions", id="dashes in a flag"),
        pytest.param(
            {"deschedulerPolicyAPIVersion": "v1"},
            "$.deschedulerPolicyAPIVersion",
            id="a policy of no version",
        ),
        pytest.param({"replicas": -1}, "$.replicas", id="less than none"),
        pytest.param({"softTainter": {"every": "1m"}}, "$.softTainter", id="of the tainter"),
        pytest.param({"softTainter": {"prefix": "a/b"}}, "$.softTainter.prefix", id="no domain"),
    ],
)
def test_a_mistake_in_the_values_is_found(values: dict[str, Any], at: str) -> None:
    assert problems(values) == [at]


def test_the_pod_is_the_one_of_the_other_manifests() -> None:
    spec = pod_of(FORMS["deployment"])["spec"]
    (container,) = spec["containers"]

    assert DEFAULTS["podSecurityContext"] == spec["securityContext"]
    assert DEFAULTS["securityContext"] == container["securityContext"]
    assert DEFAULTS["resources"] == container["resources"]
    assert DEFAULTS["priorityClassName"] == spec["priorityClassName"]
    assert DEFAULTS["command"] == container["command"]
    for probe in ("livenessProbe", "readinessProbe"):
        settings = yaml.safe_load(json.dumps(container[probe]))
        settings["httpGet"]["port"] = container["ports"][0]["containerPort"]
        assert {key: DEFAULTS[probe][key] for key in settings} == settings
