"""What `deploy/migration-controller` ships: a harmless pod, a definition, policies, roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from resettle import __version__
from resettle.cli.flags.daemon import MIGRATION_CONTROLLER_LEASE

from .manifests import DEPLOY, Object, documents, pod_of

FOLDER = DEPLOY / "migration-controller"
FORMS = {"taints": FOLDER, "gate": FOLDER / "gate"}
(DEPLOYMENT,) = documents(FOLDER / "process" / "deployment.yaml")
POD: Object = pod_of(DEPLOYMENT)["spec"]
(CONTAINER,) = POD["containers"]
ADMISSION = "admissionregistration.k8s.io/v1"

each_form = pytest.mark.parametrize("folder", FORMS.values(), ids=FORMS)


def of_kind(folder: Path, kind: str) -> list[Object]:
    return [item for item in documents(folder / "rbac.yaml") if item["kind"] == kind]


def test_its_pod_is_as_harmless_as_that_of_the_descheduler() -> None:
    (descheduler,) = documents(DEPLOY / "kustomize" / "process" / "deployment.yaml")
    theirs = pod_of(descheduler)["spec"]

    assert POD["securityContext"] == theirs["securityContext"]
    assert CONTAINER["securityContext"] == theirs["containers"][0]["securityContext"]
    assert POD["volumes"] == theirs["volumes"], "the same policy"
    assert CONTAINER["image"] == f"resettle:{__version__}"


@pytest.mark.parametrize("other", ["kustomize/process", "soft-tainter"])
def test_no_two_components_count_each_other_s_pods(other: str) -> None:
    (deployment,) = documents(DEPLOY / other / "deployment.yaml")
    wanted = deployment["spec"]["selector"]["matchLabels"]
    labels = pod_of(DEPLOYMENT)["metadata"]["labels"]

    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert not wanted.items() <= labels.items()


def test_the_probes_ask_where_health_is_served() -> None:
    (port,) = CONTAINER["ports"]

    assert port["containerPort"] == 10262
    assert {CONTAINER[f"{kind}Probe"]["httpGet"]["port"] for kind in ("liveness", "readiness")} == {
        port["name"]
    }


@each_form
def test_the_lease_and_placeholders_are_granted_where_the_pod_runs(folder: Path) -> None:
    (role,) = of_kind(folder, "Role")

    assert role["metadata"]["namespace"] == DEPLOYMENT["metadata"]["namespace"]
    assert role["rules"][0] == {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "delete"],
    }
    assert role["rules"][2]["resourceNames"] == [MIGRATION_CONTROLLER_LEASE]


@each_form
def test_policies_come_before_the_account_and_deny_when_in_doubt(folder: Path) -> None:
    everything = documents(folder / "rbac.yaml")
    first = [item["apiVersion"] == ADMISSION for item in everything]

    assert first == sorted(first, reverse=True)
    for policy in of_kind(folder, "ValidatingAdmissionPolicy"):
        assert policy["spec"]["failurePolicy"] == "Fail"
    for binding in of_kind(folder, "ValidatingAdmissionPolicyBinding"):
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert binding["spec"]["policyName"] == binding["metadata"]["name"]


@each_form
def test_policies_about_the_controller_are_about_the_account_of_the_pod(folder: Path) -> None:
    (account,) = (item["metadata"] for item in of_kind(folder, "ServiceAccount"))
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    conditions = {
        condition["expression"]
        for policy in of_kind(folder, "ValidatingAdmissionPolicy")
        for condition in policy["spec"]["matchConditions"]
        if condition["name"] == "migration-controller"
    }

    assert conditions == {f"request.userInfo.username == '{user}'"}
    assert POD["serviceAccountName"] == account["name"]
    assert DEPLOYMENT["metadata"]["namespace"] == account["namespace"]


def test_only_the_gate_takes_permission_to_change_pods_everywhere() -> None:
    def writes(folder: Path) -> set[str]:
        (role,) = of_kind(folder, "ClusterRole")
        return {
            resource
            for rule in role["rules"]
            if "patch" in rule["verbs"]
            for resource in rule["resources"]
        }

    jobs = {"podmigrationjobs", "podmigrationjobs/status", "pods/status"}
    assert writes(FORMS["taints"]) == {"nodes", *jobs}
    assert writes(FORMS["gate"]) == {"nodes", "pods", *jobs}
    assert of_kind(FORMS["taints"], "MutatingAdmissionPolicy") == []


def test_the_gate_is_never_in_the_way_of_pods() -> None:
    (policy,) = of_kind(FORMS["gate"], "MutatingAdmissionPolicy")
    (binding,) = of_kind(FORMS["gate"], "MutatingAdmissionPolicyBinding")

    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"


@pytest.mark.parametrize(
    ("folder", "parts"),
    [("", ["rbac.yaml", "process"]), ("gate", ["rbac.yaml", "../process"])],
    ids=["taints", "gate"],
)
def test_both_forms_are_roles_and_the_process(folder: str, parts: list[str]) -> None:
    (whole,) = documents(FOLDER / folder / "kustomization.yaml")

    assert whole["resources"] == parts


def test_every_file_of_the_process_is_part_of_what_is_applied() -> None:
    process = FOLDER / "process"
    (whole,) = documents(process / "kustomization.yaml")
    files = {file.name for file in process.glob("*.yaml")} - {"kustomization.yaml"}

    assert set(whole["resources"]) == files
