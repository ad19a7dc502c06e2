"""The migration controller of the Helm chart, rendered by Helm: definition, policies, rights."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from tests.deploy.manifests import DEPLOY, documents, pod_of
from tests.deploy.values import values
from tests.e2e.installing.terminal import CHART, Object, Terminal, object_of_kind, parse_manifest

NAME = "resettle-migration-controller"
ON = ("--set", "migrationController.enabled=true")
NEW = ("--kube-version", "1.36.0")
ADMISSION = "admissionregistration.k8s.io/v1"
LEASE = "--leader-elect --leader-elect-resource-namespace resettle"
GATE = """--set-json 'migrationController.steering=["Gate"]'"""


def is_own(item: Object) -> bool:
    return bool(item["metadata"]["labels"]["app.kubernetes.io/name"] == NAME)


def rendered(terminal: Terminal, *words: str | Path) -> list[Object]:
    """What the chart makes for the migration controller alone."""
    return [item for item in terminal.render_chart(*NEW, *ON, *words) if is_own(item)]


def rights(role: Object) -> set[tuple[str, str, str, str]]:
    """Each verb on each resource of a role."""
    return {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_unless_it_is_asked_for_nothing_of_it_is_there(terminal: Terminal) -> None:
    assert [item for item in terminal.render_chart() if is_own(item)] == []


@pytest.mark.parametrize(
    ("words", "same"),
    [
        pytest.param("", LEASE, id="as it is"),
        pytest.param(GATE, f"{LEASE} --steering Gate", id="with gates"),
        pytest.param(
            "--set-json 'migrationController.steering=[]'",
            f"{LEASE} --steering None",
            id="without steering",
        ),
        pytest.param(
            "--set migrationController.guard=false", f"{LEASE} --without-guard", id="no policies"
        ),
        pytest.param(
            "--set migrationController.cmdOptions.protect-metrics=true",
            f"{LEASE} --protect-metrics",
            id="protected metrics",
        ),
        pytest.param(
            "--set fullnameOverride=tidy --set namespaceOverride=home",
            "--name tidy-migration-controller --namespace home --leader-elect "
            "--leader-elect-resource-name tidy-migration-controller "
            "--leader-elect-resource-namespace home",
            id="other names",
        ),
    ],
)
def test_rights_and_policies_are_those_that_the_command_prints(
    words: str, same: str, terminal: Terminal
) -> None:
    component = ("--component", "migration-controller")
    printed = parse_manifest(terminal.output_of("resettle", "rbac", *component, *shlex.split(same)))
    made = rendered(terminal, *shlex.split(words))

    for kind in ("ClusterRole", "Role"):
        ours, theirs = object_of_kind(made, kind), object_of_kind(printed, kind)
        assert rights(ours) == rights(theirs)
        assert ours["metadata"]["name"] == theirs["metadata"]["name"]
        assert ours["metadata"].get("namespace") == theirs["metadata"].get("namespace")
    assert _policies(made) == _policies(printed)


def _policies(items: list[Object]) -> dict[tuple[str, str], Object]:
    return {
        (item["kind"], item["metadata"]["name"]): item["spec"]
        for item in items
        if item["apiVersion"] == ADMISSION
    }


def test_the_definition_is_kept_when_the_chart_goes(terminal: Terminal) -> None:
    crd = object_of_kind(rendered(terminal), "CustomResourceDefinition")

    assert crd["spec"] == pod_migration_job_crd()["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definition_can_be_left_out(terminal: Terminal) -> None:
    made = rendered(terminal, "--set", "migrationController.crd=false")

    assert "CustomResourceDefinition" not in {item["kind"] for item in made}


def test_the_pod_is_the_one_of_the_other_manifests(terminal: Terminal) -> None:
    (theirs,) = documents(DEPLOY / "migration-controller" / "process" / "deployment.yaml")
    spec = pod_of(theirs)["spec"]
    made = pod_of(object_of_kind(rendered(terminal), "Deployment"))["spec"]

    assert made["securityContext"] == spec["securityContext"]
    assert made["serviceAccountName"] == spec["serviceAccountName"]
    for part in ("securityContext", "resources", "command"):
        assert made["containers"][0][part] == spec["containers"][0][part]


def test_what_the_values_say_is_done(terminal: Terminal) -> None:
    made = [
        item
        for item in terminal.render_chart(*NEW, "-f", values("migration-controller"))
        if is_own(item)
    ]
    deployment = object_of_kind(made, "Deployment")
    (container,) = pod_of(deployment)["spec"]["containers"]

    assert deployment["spec"]["replicas"] == 2
    assert {"--v=1", "--protect-metrics=true"} <= set(container["args"])
    assert "--dry-run" not in container["args"]
    assert object_of_kind(made, "Service")["spec"]["ports"][0]["port"] == 10262


@pytest.mark.parametrize(
    ("words", "dry"),
    [
        ("", True),
        ("--set dryRun=false", False),
        ("--set migrationController.dryRun=false", False),
        ("--set dryRun=false --set migrationController.dryRun=true", True),
    ],
)
def test_no_pod_is_moved_until_the_values_say_so(words: str, dry: bool, terminal: Terminal) -> None:
    made = rendered(terminal, *shlex.split(words))
    (container,) = pod_of(object_of_kind(made, "Deployment"))["spec"]["containers"]

    assert ("--dry-run" in container["args"]) is dry


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--kube-version 1.29.0", "admission policies of the migration controller need"),
        (f"--kube-version 1.35.0 {GATE}", "steering with Gate needs Kubernetes 1.36"),
        (
            f"--kube-version 1.36.0 --set migrationController.guard=false {GATE}",
            "steering with Gate is done by an admission policy",
        ),
        ("--set migrationController.steering={Sideways}", "migrationController/steering"),
    ],
)
def test_what_cannot_work_is_refused(words: str, says: str, terminal: Terminal) -> None:
    done = terminal.run("helm", "template", "resettle", CHART, *ON, *shlex.split(words))

    assert done.code == 1
    assert says in done.err, done.err
