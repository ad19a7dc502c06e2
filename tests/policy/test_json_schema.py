"""The JSON Schema: it takes what loads and refuses what does not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from resettle.policy.json_schema import json_schema
from tests.policy.fakes import PLUGINS
from tests.policy.harness import OLD_HEAD, document, errors, one_profile, with_args
from tests.policy.test_load import GOOD, SIX_MISTAKES
from tests.policy.versions.test_upgrade import OLD, OLD_CONVERTED, TRICKY

SCHEMA = json_schema(PLUGINS)


def accepts(text: str) -> bool:
    value: Any = yaml.safe_load(text)
    return bool(Draft202012Validator(SCHEMA).is_valid(value))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("descheduler/v1alpha2", "resettle/v1"),
        OLD,
        OLD_CONVERTED,
        TRICKY,
        with_args("RemoveFailedPods", "apiVersion: descheduler/v1alpha2\nkind: Any"),
        one_profile("pluginConfig: [{name: RemoveFailedPods, args: null}]\nplugins: {sort: null}"),
    ],
)
def test_what_loads_is_accepted(text: str) -> None:
    assert errors(text) == []
    assert accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SIX_MISTAKES, id="six mistakes"),
        pytest.param("kind: DeschedulerPolicy", id="no apiVersion"),
        pytest.param(GOOD.replace("v1alpha2", "v1alpha9"), id="an unknown apiVersion"),
        pytest.param(GOOD.replace("DeschedulerPolicy", "Policy"), id="another kind"),
        pytest.param(document("nodeselector: a=b"), id="an unknown key"),
        pytest.param(document("profiles: [null]"), id="an empty item"),
        pytest.param(document("maxNoOfPodsToEvictTotal: -1"), id="a negative limit"),
        pytest.param(one_profile("pluginConfig: [{name: Mystery}]"), id="an unknown plugin"),
        pytest.param(with_args("RemoveFailedPods", "reason: []"), id="an unknown argument"),
        pytest.param(with_args("RemoveFailedPods", "reasons: 5"), id="an argument's type"),
        pytest.param(
            with_args("RemoveFailedPods", "{}", point="balance"), id="a point it does not serve"
        ),
        pytest.param(document("strategies: {Mystery: {}}", OLD_HEAD), id="an unknown strategy"),
        pytest.param(document("profiles: []", OLD_HEAD), id="a key of the newer version"),
    ],
)
def test_what_does_not_load_is_refused(text: str) -> None:
    assert errors(text)
    assert not accepts(text)
