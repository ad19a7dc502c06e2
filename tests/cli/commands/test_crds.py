"""`resettle crds`: definitions, and policies on request, as YAML or JSON."""

from __future__ import annotations

import json

import pytest
import yaml

from resettle.cli.main import run
from resettle.controllers.migration.manifests.crd import pod_migration_job_crd


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["crds", *words]) == 0
    return capsys.readouterr().out


def test_the_definition_is_printed_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)

    assert list(yaml.safe_load_all(text)) == [pod_migration_job_crd()]
    assert "&id" not in text, "kubectl users read it; nothing is abbreviated"


def test_json_is_a_list_that_kubectl_takes(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "-o", "json"))

    assert document["kind"] == "List"
    assert document["items"] == [pod_migration_job_crd()]


def test_policies_are_about_the_named_account(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--admission-policies", "--namespace", "home", "--service-account", "broom")
    _, *policies = yaml.safe_load_all(printed(capsys, *words))

    assert {policy["metadata"]["name"] for policy in policies} == {
        *("broom-jobs", "broom-placeholders", "broom-priorities", "broom-nominations"),
        "broom-nodes",
    }
    assert "system:serviceaccount:home:broom" in str(policies)
    assert "request.namespace == 'home'" in str(policies)


def test_the_gate_is_printed_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--admission-policies", "--steering", "Gate")
    kinds = {policy["kind"] for policy in yaml.safe_load_all(text)}

    assert "MutatingAdmissionPolicy" in kinds


def test_a_name_that_no_object_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "--admission-policies", "--namespace", "Not Good"]) == 1
    assert "--namespace is `Not Good`" in capsys.readouterr().err
