"""The admission policies of migration jobs as objects; tests/e2e tries them."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.controllers.migration.manifests.admission_policy import admission_policies
from resettle.model.migration_job import GATE, GATE_LABEL, PLACEHOLDER, TAINT, Steering
from resettle.rbac.manifests import ManifestNames

NAMES = ManifestNames(name="mover", namespace="home")
ALWAYS = ["mover-jobs", "mover-placeholders", "mover-priorities", "mover-nominations"]
Object = dict[str, Any]


def by_name(*steerings: Steering, **options: str) -> dict[str, Object]:
    """The policies without their bindings."""
    made = admission_policies(NAMES, steerings, **options)
    return {item["metadata"]["name"]: item for item in made if not item["kind"].endswith("Binding")}


@pytest.mark.parametrize(
    ("steerings", "more"),
    [
        ([], []),
        ([Steering.NONE], []),
        ([Steering.SOFT], ["mover-nodes"]),
        ([Steering.HARD], ["mover-nodes"]),
        ([Steering.GATE], ["mover-gated-pods", "mover-gate"]),
        (list(Steering), ["mover-nodes", "mover-gated-pods", "mover-gate"]),
    ],
)
def test_each_way_of_steering_brings_its_policies(
    steerings: list[Steering], more: list[str]
) -> None:
    assert list(by_name(*steerings)) == ALWAYS + more


def test_each_policy_has_a_binding_of_its_name() -> None:
    made = admission_policies(NAMES, tuple(Steering))

    for policy, binding in zip(made[::2], made[1::2], strict=True):
        assert binding["kind"] == f"{policy['kind']}Binding"
        assert binding["metadata"] == policy["metadata"]
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_the_policy_of_jobs_is_about_every_account_and_the_status_too() -> None:
    spec = by_name()["mover-jobs"]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]

    assert rule["resources"] == ["podmigrationjobs", "podmigrationjobs/status"]
    assert "userInfo" not in str(spec["matchConditions"])
    assert "subresource('eviction')" in spec["validations"][0]["expression"]


def test_the_others_are_about_the_account_of_the_controller() -> None:
    user = "request.userInfo.username == 'system:serviceaccount:home:mover'"
    policies = by_name(*Steering)

    for name in ("placeholders", "priorities", "nodes", "gated-pods"):
        conditions = policies[f"mover-{name}"]["spec"]["matchConditions"]
        assert [condition["expression"] for condition in conditions] == [user]


def test_placeholders_have_a_namespace_of_their_own_if_asked_for() -> None:
    def where(policies: dict[str, Object]) -> str:
        first: str = policies["mover-placeholders"]["spec"]["validations"][0]["expression"]
        return first

    assert where(by_name()) == "request.namespace == 'home'"
    assert where(by_name(placeholder_namespace="places")) == "request.namespace == 'places'"


def test_the_names_of_the_model_are_those_of_the_policies() -> None:
    policies = by_name(*Steering)

    assert f"'{TAINT}'" in str(policies["mover-nodes"])
    assert f"'{PLACEHOLDER}'" in str(policies["mover-placeholders"])
    assert f"'{GATE}'" in str(policies["mover-gated-pods"])
    assert f"'{GATE}'" in str(policies["mover-gate"])


def test_the_gate_takes_jobs_with_the_label_as_parameters() -> None:
    (binding,) = (
        item
        for item in admission_policies(NAMES, [Steering.GATE])
        if item["kind"] == "MutatingAdmissionPolicyBinding"
    )

    assert binding["spec"]["paramRef"] == {
        "selector": {"matchLabels": {GATE_LABEL: "true"}},
        "parameterNotFoundAction": "Allow",
    }
